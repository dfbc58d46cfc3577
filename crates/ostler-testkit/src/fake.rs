//! Test-side API of the fake agent: finding the program and writing scripts.
//!
//! ```no_run
//! use ostler_testkit::fake;
//! let dir = std::env::temp_dir();
//! let script = fake::Script::new().read().init().text("hi").result("hi").write_to(&dir);
//! // start fake::program() with fake::SCRIPT set to the path `script`
//! ```

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that names the script.
pub const SCRIPT: &str = "FAKE_AGENT_SCRIPT";
/// Environment variable that overrides the output of `--version`.
pub const VERSION: &str = "FAKE_AGENT_VERSION";
/// Environment variable that, set to `0`, makes `auth status` report logged out and exit 1.
pub const LOGGED_IN: &str = "FAKE_AGENT_LOGGED_IN";

/// Returns the path of the fake agent, built beside the running test.
///
/// # Panics
/// If it has not been built; the message says how to build it.
#[must_use]
pub fn program() -> PathBuf {
    built("fake-agent")
}

/// Returns the path of `deprived`, which runs a program without some sandbox layers.
///
/// # Panics
/// If it has not been built; the message says how to build it.
#[must_use]
pub fn deprived() -> PathBuf {
    built("deprived")
}

pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the running test");
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // A test is in <profile>/deps, an example in <profile>/examples, a program in <profile>.
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(&name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no {name} beside {}; build it first: cargo build -p ostler-testkit",
            test.display()
        )
    })
}

/// Writes a script of verb lines to a new file in `dir`.
///
/// # Panics
/// If the file cannot be written.
#[must_use]
pub fn script(dir: &Path, verbs: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let path = dir.join(format!(
        "fake-agent-{}.script",
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    fs::write(&path, verbs).expect("write the fake agent's script");
    path
}

/// Installs a fake agent as `<dir>/<name>`, for example a `claude` to be found on PATH. It needs
/// no environment variable.
///
/// It is a symbolic link, so that no test can find a partially written file.
///
/// # Panics
/// If the link or the script cannot be created.
#[must_use]
pub fn install_as(dir: &Path, name: &str, verbs: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(dir.join(format!("{name}.script")), verbs).expect("write the fake agent's script");
    std::os::unix::fs::symlink(program(), &path).expect("link the fake agent");
    path
}

/// Script builder. [`Script::line`] takes any verb; the other methods cover the common ones.
#[derive(Debug, Clone, Default)]
pub struct Script {
    text: String,
}

impl Script {
    /// Creates an empty script.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line verbatim.
    #[must_use]
    pub fn line(mut self, line: impl Display) -> Self {
        self.text += &format!("{line}\n");
        self
    }

    /// Waits for one line on stdin.
    #[must_use]
    pub fn read(self) -> Self {
        self.line("read")
    }

    /// Waits for a user message and answers the control requests before it.
    #[must_use]
    pub fn read_user(self) -> Self {
        self.line("read-user")
    }

    /// Reads stdin until it is closed.
    #[must_use]
    pub fn read_until_eof(self) -> Self {
        self.line("read-until-eof")
    }

    /// Prints the init line.
    #[must_use]
    pub fn init(self) -> Self {
        self.line("init")
    }

    /// Prints an assistant text block.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.line(format!("text {}", escaped(text)))
    }

    /// Prints a text delta.
    #[must_use]
    pub fn delta(self, text: &str) -> Self {
        self.line(format!("delta {}", escaped(text)))
    }

    /// Prints a tool call.
    #[must_use]
    pub fn tool_use(self, id: &str, name: &str, input: &serde_json::Value) -> Self {
        self.line(format!("tool-use {id} {name} {input}"))
    }

    /// Prints a tool result.
    #[must_use]
    pub fn tool_result(self, id: &str, text: &str) -> Self {
        self.line(format!("tool-result {id} {}", escaped(text)))
    }

    /// Prints the result line of a successful turn.
    #[must_use]
    pub fn result(self, text: &str) -> Self {
        self.line(format!("result {}", escaped(text)))
    }

    /// Sleeps for this many milliseconds.
    #[must_use]
    pub fn sleep_ms(self, ms: u64) -> Self {
        self.line(format!("sleep {ms}"))
    }

    /// Hangs forever.
    #[must_use]
    pub fn hang(self) -> Self {
        self.line("hang")
    }

    /// Exits with this code.
    #[must_use]
    pub fn exit(self, code: u8) -> Self {
        self.line(format!("exit {code}"))
    }

    /// Returns the script as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Writes the script to a new file in `dir`.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn write_to(&self, dir: &Path) -> PathBuf {
        script(dir, &self.text)
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}
