//! System programs that the tests need: found on PATH, or installed if permitted.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A program, and the system packages that provide it.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    packages: &'static [&'static str],
}

pub(crate) const NPM: Program = Program {
    name: "npm",
    packages: &["nodejs", "npm"],
};
pub(crate) const CHROMIUM: Program = Program {
    name: "chromium",
    packages: &["chromium"],
};
pub(crate) const PYTHON: Program = Program {
    name: "python3",
    packages: &["python3", "python3-venv"],
};
pub(crate) const CURL: Program = Program {
    name: "curl",
    packages: &["curl"],
};
pub(crate) const IP: Program = Program {
    name: "ip",
    packages: &["iproute2"],
};
pub(crate) const UNSHARE: Program = Program {
    name: "unshare",
    packages: &["util-linux"],
};

/// Returns the path of a program on PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Ensures that a program is installed, using apt-get if available and running as root.
///
/// The error describes the fix.
pub(crate) fn ensure(program: &Program) -> Result<(), String> {
    if find(program.name).is_some() {
        return Ok(());
    }
    let fix = format!(
        "{} is missing: install {}",
        program.name,
        program.packages.join(" ")
    );
    if !is_root() || find("apt-get").is_none() {
        return Err(fix);
    }
    println!(
        "xtask: {} is missing, installing {}",
        program.name,
        program.packages.join(" ")
    );
    if !apt_updated() {
        return Err(format!("{fix} (apt-get update failed)"));
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(program.packages);
    if apt_get(&install) && find(program.name).is_some() {
        Ok(())
    } else {
        Err(format!("{fix} (apt-get install failed)"))
    }
}

/// Returns true if running as root.
pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Runs a command without showing its output, and returns true if it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn apt_updated() -> bool {
    static UPDATED: OnceLock<bool> = OnceLock::new();
    *UPDATED.get_or_init(|| apt_get(&["update"]))
}

fn apt_get(arguments: &[&str]) -> bool {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
