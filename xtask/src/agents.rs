//! `cargo xtask agents`: installs the pinned real agents into the target directory, with npm.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::{programs, workspace};

pub(crate) const ABOUT: &str = "install the pinned real agents for the tests";

/// Result of an installation.
#[derive(Clone)]
pub(crate) enum Installation {
    Ready,
    /// Not possible on this machine, with the fix.
    Impossible(String),
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let flags: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if !matches!(flags[..], [] | ["--all"] | ["--lock", _]) {
        bail!(
            "agents takes only `--all`, which adds the agents that are big or slow, or \
             `--lock NAME`, which writes the lock file of one from its manifest"
        );
    }
    match run_installer(&flags)? {
        Installation::Ready => Ok(ExitCode::SUCCESS),
        Installation::Impossible(fix) => bail!("cannot install the real agents: {fix}"),
    }
}

/// Returns the pinned versions by agent name.
pub(crate) fn versions() -> Result<BTreeMap<String, String>> {
    let installer = workspace::target_directory()?
        .join("debug")
        .join("install-agents");
    let output = Command::new(&installer).arg("--versions").output();
    let output = output.with_context(|| format!("cannot start {}", installer.display()))?;
    let text = String::from_utf8(output.stdout).context("the installer's output is not UTF-8")?;
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect())
}

/// Installs the agents, with `all` also those that are big or slow.
pub(crate) fn install(all: bool) -> Result<Installation> {
    run_installer(if all { &["--all"] } else { &[] })
}

/// Runs the testkit's installer.
///
/// Returns an error if the installer does not build or crashes, and `Impossible` if it reports that
/// it cannot install.
fn run_installer(flags: &[&str]) -> Result<Installation> {
    // The examples of the documentation need the last two.
    for program in [&programs::NPM, &programs::CURL, &programs::PYTHON] {
        if let Err(fix) = programs::ensure(program) {
            return Ok(Installation::Impossible(fix));
        }
    }
    // Built with the whole workspace and started directly: `cargo run -p` would select other
    // features of the shared dependencies and recompile half of them.
    let built = workspace::cargo()
        .args(["build", "--quiet", "--workspace", "--bin", "install-agents"])
        .status();
    if !built.context("cannot start cargo")?.success() {
        bail!("install-agents does not build: run `cargo build --workspace --bin install-agents`");
    }
    let installer = workspace::target_directory()?
        .join("debug")
        .join("install-agents");
    let mut child = Command::new(&installer)
        .args(flags)
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", installer.display()))?;
    let mut last = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines() {
            let line = line.context("cannot read the installer's output")?;
            eprintln!("{line}");
            if !line.trim().is_empty() {
                last = line;
            }
        }
    }
    let status = child.wait().context("cannot wait for the installer")?;
    match status.code() {
        Some(0) => Ok(Installation::Ready),
        Some(1) => Ok(Installation::Impossible(if last.is_empty() {
            "see above".to_owned()
        } else {
            last
        })),
        _ => bail!("install-agents failed: {status}"),
    }
}
