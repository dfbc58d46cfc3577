//! The real agents: pinned, installed from npm into the build tree once, found there by tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGE: &str = include_str!("../agents/claude/package.json");
const LOCK: &str = include_str!("../agents/claude/package-lock.json");

/// The version of Claude Code that the tests drive.
pub const CLAUDE_VERSION: &str = "2.1.325";

/// Installs the agents under `<target>/agents` unless they are there, and returns Claude Code's program.
///
/// Many callers at once do one download: the first installs, the others wait for it.
///
/// # Errors
/// One sentence with the fix: npm is missing, npm failed, or there is no build for this machine.
pub fn install(target: &Path) -> Result<PathBuf, String> {
    let home = claude_home(target);
    if let Some(program) = program_in(&home) {
        return Ok(program);
    }
    let agents = target.join("agents");
    let failed = |what: &str, error: std::io::Error| format!("cannot {what} in {}: {error}", agents.display());
    fs::create_dir_all(&agents).map_err(|error| failed("make the directory", error))?;
    let lock = File::create(agents.join("install.lock")).map_err(|error| failed("make a lock", error))?;
    lock.lock().map_err(|error| failed("take the lock", error))?;
    if let Some(program) = program_in(&home) {
        return Ok(program);
    }
    // In a directory of its own first: a killed install must not leave a half that looks whole.
    let fresh = tempfile::Builder::new()
        .prefix("installing-")
        .tempdir_in(&agents)
        .map_err(|error| failed("make a directory", error))?;
    fs::write(fresh.path().join("package.json"), PACKAGE).map_err(|error| failed("write", error))?;
    fs::write(fresh.path().join("package-lock.json"), LOCK).map_err(|error| failed("write", error))?;
    npm_ci(fresh.path())?;
    if program_in(fresh.path()).is_none() {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        return Err(format!("npm installed no Claude Code for {os} on {arch}; run the other tests without it"));
    }
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|error| failed("clear a broken install", error))?;
    }
    fs::rename(fresh.keep(), &home).map_err(|error| failed("move the install", error))?;
    program_in(&home).ok_or_else(|| format!("no program in {}", home.display()))
}

/// Claude Code's program, installed before.
///
/// # Panics
/// When it is not installed; the message says how to.
#[must_use]
pub fn claude() -> PathBuf {
    let target = target_dir().expect("find the build's target directory");
    program_in(&claude_home(&target)).unwrap_or_else(|| {
        let home = claude_home(&target);
        panic!("no Claude Code in {}; install it: cargo xtask agents", home.display())
    })
}

/// The environment, and nothing else, that a real Claude Code needs to talk to a scripted model.
#[must_use]
pub fn claude_env(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let home = home.display().to_string();
    let pairs = [
        ("HOME", home.as_str()),
        ("PATH", path.as_str()),
        ("ANTHROPIC_BASE_URL", base_url),
        ("ANTHROPIC_API_KEY", "a-key-of-the-testkit"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        // The default of ten retries with growing pauses makes an authentication error take minutes.
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        // Without it, root may not bypass permissions; containers run tests as root.
        ("IS_SANDBOX", "1"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// The build's target directory: above the running program, else what `CARGO_TARGET_DIR` names.
#[must_use]
pub fn target_dir() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Cargo puts this file at the top of every target directory.
    let above = program.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    above.map(Path::to_path_buf).or_else(|| std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
}

fn claude_home(target: &Path) -> PathBuf {
    target.join("agents").join(format!("claude-{CLAUDE_VERSION}"))
}

// npm installs the package of this machine only, so whichever is there is the right one.
fn program_in(home: &Path) -> Option<PathBuf> {
    let packages = fs::read_dir(home.join("node_modules/@anthropic-ai")).ok()?;
    let mut programs = packages.flatten().map(|package| package.path().join("claude"));
    programs.find(|program| program.is_file())
}

fn npm_ci(dir: &Path) -> Result<(), String> {
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    let output = command.current_dir(dir).stdin(Stdio::null()).output().map_err(|error| {
        format!("npm does not start ({error}); install Node.js with npm, then run: cargo xtask agents")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr.lines().find(|line| line.contains("error")).unwrap_or("no reason given");
    Err(format!("npm ci failed ({reason}); check the network, then run: cargo xtask agents"))
}

/// A program of this workspace that was built beside the tests.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let dir = test.parent().and_then(std::path::Path::parent).expect("tests are built into target/…/deps");
    let program = dir.join(name);
    assert!(program.is_file(), "{} is not there: cargo build --workspace", program.display());
    program
}

#[cfg(test)]
mod tests {
    use super::{CLAUDE_VERSION, LOCK, PACKAGE};

    #[test]
    fn every_pinned_package_has_the_version_and_an_integrity_and_no_download_address() {
        let lock: serde_json::Value = serde_json::from_str(LOCK).unwrap();
        let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
        let wanted = package["optionalDependencies"].as_object().unwrap();
        assert!(!wanted.is_empty());
        for (name, version) in wanted {
            let locked = &lock["packages"][format!("node_modules/{name}")];
            assert_eq!(version, CLAUDE_VERSION);
            assert_eq!(locked["version"], CLAUDE_VERSION);
            assert!(locked["integrity"].as_str().unwrap().starts_with("sha512-"));
        }
        assert!(!LOCK.contains("resolved"));
    }
}
