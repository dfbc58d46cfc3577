//! The fake agent from the test's side: where the program is, and how a script is written.
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

/// The environment variable that names the script.
pub const SCRIPT: &str = "FAKE_AGENT_SCRIPT";
/// The environment variable that overrides what `--version` prints.
pub const VERSION: &str = "FAKE_AGENT_VERSION";
/// The environment variable that, set to `0`, makes `auth status` say logged out and exit 1.
pub const LOGGED_IN: &str = "FAKE_AGENT_LOGGED_IN";

/// The fake agent's program, which the build put beside the running test.
///
/// # Panics
/// When it has not been built; the message says how to.
#[must_use]
pub fn program() -> PathBuf {
    built("fake-agent")
}

/// The program that runs another one on a machine without some layers of the sandbox.
///
/// # Panics
/// When it has not been built; the message says how to.
#[must_use]
pub fn deprived() -> PathBuf {
    built("deprived")
}

pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the running test");
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // A test lies in <profile>/deps, an example in <profile>/examples, a program in <profile>.
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
/// When the file cannot be written.
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

/// Makes `<dir>/<name>` a fake agent that needs no environment variable, e.g. a `claude` to be found on PATH.
///
/// It is a symbolic link, so that no test can meet it half written.
///
/// # Panics
/// When the link or the script cannot be made.
#[must_use]
pub fn install_as(dir: &Path, name: &str, verbs: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(dir.join(format!("{name}.script")), verbs).expect("write the fake agent's script");
    std::os::unix::fs::symlink(program(), &path).expect("link the fake agent");
    path
}

/// A script under construction; [`Script::line`] takes every verb, the other methods are the frequent ones.
#[derive(Debug, Clone, Default)]
pub struct Script {
    text: String,
}

impl Script {
    /// An empty script.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one line as it stands.
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

    /// Reads stdin to its end.
    #[must_use]
    pub fn read_until_eof(self) -> Self {
        self.line("read-until-eof")
    }

    /// Prints the init line.
    #[must_use]
    pub fn init(self) -> Self {
        self.line("init")
    }

    /// Prints an assistant text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.line(format!("text {}", escaped(text)))
    }

    /// Prints a piece of a text.
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

    /// Prints the end of a good turn.
    #[must_use]
    pub fn result(self, text: &str) -> Self {
        self.line(format!("result {}", escaped(text)))
    }

    /// Sleeps.
    #[must_use]
    pub fn sleep_ms(self, ms: u64) -> Self {
        self.line(format!("sleep {ms}"))
    }

    /// Hangs for ever.
    #[must_use]
    pub fn hang(self) -> Self {
        self.line("hang")
    }

    /// Exits.
    #[must_use]
    pub fn exit(self, code: u8) -> Self {
        self.line(format!("exit {code}"))
    }

    /// The script as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Writes the script to a new file in `dir`.
    ///
    /// # Panics
    /// When the file cannot be written.
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
