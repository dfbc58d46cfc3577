//! Real agents: pinned, installed once from npm into the build tree, and found there by tests.

mod pinned;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler_standin::Offline;

pub use pinned::{
    ALL, CLAUDE, CLAUDE_AGENT_ACP, CODEX, CODEX_ACP, COPILOT, GEMINI, GOOSE, OPENCLAW, OPENCODE,
    PinnedAgent, QWEN,
};

/// The version of Claude Code that the tests use.
pub const CLAUDE_VERSION: &str = CLAUDE.version;

impl PinnedAgent {
    /// Installs the agent under `<target>/agents` unless it is installed, and returns its program.
    ///
    /// Concurrent callers share one download: the first installs, the others wait.
    ///
    /// # Errors
    /// One sentence with the fix: npm is missing, npm failed, or this platform has no build.
    pub fn install(&self, target: &Path) -> Result<PathBuf, String> {
        let home = self.home(target);
        if let Some(program) = self.program_in(&home) {
            return Ok(program);
        }
        let agents = target.join("agents");
        let failed = |kind: &str, error: std::io::Error| {
            format!("cannot {kind} in {}: {error}", agents.display())
        };
        fs::create_dir_all(&agents).map_err(|error| failed("create the directory", error))?;
        let lock = File::create(agents.join("install.lock"))
            .map_err(|error| failed("create a lock", error))?;
        lock.lock()
            .map_err(|error| failed("take the lock", error))?;
        if let Some(program) = self.program_in(&home) {
            return Ok(program);
        }
        // Installs into a temporary directory first: a killed install must not look complete.
        let fresh = tempfile::Builder::new()
            .prefix("installing-")
            .tempdir_in(&agents)
            .map_err(|error| failed("create a directory", error))?;
        fs::write(fresh.path().join("package.json"), self.package)
            .map_err(|error| failed("write", error))?;
        fs::write(fresh.path().join("package-lock.json"), self.lock)
            .map_err(|error| failed("write", error))?;
        npm_ci(fresh.path())?;
        if self.program_in(fresh.path()).is_none() {
            let (os, arch, name) = (std::env::consts::OS, std::env::consts::ARCH, self.name);
            return Err(format!(
                "npm has no {name} for {os} on {arch}; run the other tests without it"
            ));
        }
        if home.exists() {
            fs::remove_dir_all(&home).map_err(|error| failed("clear a broken install", error))?;
        }
        fs::rename(fresh.keep(), &home).map_err(|error| failed("move the install", error))?;
        self.program_in(&home)
            .ok_or_else(|| format!("npm installed no program in {}", home.display()))
    }

    /// Returns the program of the installed agent.
    ///
    /// # Panics
    /// If it is not installed; the message says how to install it.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        let home = self.home(&target_dir().expect("find the build's target directory"));
        self.program_in(&home).unwrap_or_else(|| {
            let more = if self.heavy { " --all" } else { "" };
            panic!(
                "{} is not installed in {}; run: cargo xtask agents{more}",
                self.name,
                home.display()
            )
        })
    }

    /// Returns its installation directory.
    #[must_use]
    pub fn home(&self, target: &Path) -> PathBuf {
        target
            .join("agents")
            .join(format!("{}-{}", self.name, self.version))
    }

    /// Returns the possible paths of its program in the npm directory.
    pub fn programs(&self) -> impl Iterator<Item = String> {
        self.programs
            .iter()
            .map(|program| format!("node_modules/{program}"))
    }

    // npm installs only the package for this platform, so the one that exists is the right one.
    fn program_in(&self, home: &Path) -> Option<PathBuf> {
        self.programs()
            .map(|program| home.join(program))
            .find(|program| program.is_file())
    }
}

/// Returns the program of the installed Claude Code.
///
/// # Panics
/// If it is not installed; the message says how to install it.
#[must_use]
pub fn claude() -> PathBuf {
    CLAUDE.program()
}

/// Returns the directory of the Node.js that OpenClaw needs, as installed by npm.
///
/// # Panics
/// If the build's target directory is not found.
#[must_use]
pub fn openclaw_node() -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    let target = target_dir().expect("find the build's target directory");
    OPENCLAW
        .home(&target)
        .join(format!("node_modules/node-linux-{machine}/bin"))
}

/// Returns the complete environment that a real agent needs to use a scripted model, and writes
/// its files into `home`.
///
/// # Panics
/// If `ostler-standin` does not know the agent, or a file cannot be written.
#[must_use]
pub fn offline_env(agent: &str, home: &Path, base_url: &str) -> Vec<(String, String)> {
    let offline = Offline::of(agent)
        .unwrap_or_else(|| panic!("{agent} is not in ostler-standin's offline.rs"));
    offline
        .write_files(home, base_url)
        .expect("write the agent's files");
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    std::iter::once(("PATH".to_owned(), path))
        .chain(offline.env(home, base_url))
        .collect()
}

/// Returns the same for Claude Code.
///
/// # Panics
/// Never: it is known.
#[must_use]
pub fn claude_env(home: &Path, base_url: &str) -> Vec<(String, String)> {
    offline_env("claude", home, base_url)
}

/// Returns the build's target directory: above the running program, or as named by
/// `CARGO_TARGET_DIR`.
#[must_use]
pub fn target_dir() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Cargo puts this file at the top of every target directory.
    let above = program
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file());
    above
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
}

fn npm_ci(dir: &Path) -> Result<(), String> {
    let mut command = Command::new("npm");
    command.args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    let output = command
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!(
                "cannot start npm ({error}); install Node.js with npm, then run: cargo xtask agents"
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("no reason given");
    Err(format!(
        "npm ci failed ({reason}); check the network, then run: cargo xtask agents"
    ))
}

/// Returns a program of this workspace that was built beside the tests.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("find the running test");
    let dir = test
        .parent()
        .and_then(std::path::Path::parent)
        .expect("tests are built into target/…/deps");
    let program = dir.join(name);
    assert!(
        program.is_file(),
        "{} is not built; run: cargo build --workspace",
        program.display()
    );
    program
}
