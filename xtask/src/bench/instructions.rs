//! `cargo xtask bench --check`: instruction counts of callgrind, which hardly vary between runs,
//! compared with the accepted ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{Options, contenders, inputs};
use crate::{programs, workspace};

const FILE: &str = "xtask/bench/instructions.toml";
const HEADER: &str = "# Instructions that callgrind counts, accepted with \
                      `cargo xtask bench --check --update`.\n";

/// Accepted difference.
const TOLERANCE: f64 = 0.02;

/// The accepted counts, and the compiler they are from.
#[derive(Serialize, Deserialize, Default)]
struct Accepted {
    rustc: String,
    counts: BTreeMap<String, u64>,
}

/// Counts, and compares with or writes the accepted counts.
pub(super) fn check(options: &Options) -> Result<ExitCode> {
    if programs::find("valgrind").is_none() {
        println!("instructions were not counted: valgrind is missing (install it)");
        return Ok(ExitCode::SUCCESS);
    }
    let dir = super::directory()?;
    inputs::write(&dir)?;
    let profile = options.profile.as_deref().unwrap_or("release");
    let [sessions, ostler] =
        contenders::build(profile, &contenders::PROGRAMS, ["sessions", "ostler"])?;
    let mut decode = Command::new("valgrind");
    decode.args(CALLGRIND).arg(sessions).arg("counted");
    decode.arg(&dir).arg("1");
    let mut version = Command::new("valgrind");
    version.args(CALLGRIND).arg(ostler).arg("--version");
    let counted = Accepted {
        rustc: rustc()?,
        counts: BTreeMap::from([
            ("decode 1 MB mixed".to_owned(), count(&mut decode, &dir)?),
            ("ostler --version".to_owned(), count(&mut version, &dir)?),
        ]),
    };
    let path = workspace::root().join(FILE);
    if options.is_update {
        std::fs::write(path, HEADER.to_owned() + &toml::to_string(&counted)?)?;
        println!("Wrote {FILE}.");
        return Ok(ExitCode::SUCCESS);
    }
    let accepted: Accepted = toml::from_str(&std::fs::read_to_string(path)?)?;
    if accepted.rustc != counted.rustc {
        println!(
            "note: accepted with {}, counted with {}: a difference may be the compiler's",
            accepted.rustc, counted.rustc
        );
    }
    compare(&accepted, &counted)
}

const CALLGRIND: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// Runs a program under callgrind, and returns the number of instructions.
fn count(command: &mut Command, dir: &Path) -> Result<u64> {
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.env("HOME", dir).current_dir(dir);
    let output = command.stdin(Stdio::null()).output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("callgrind failed:\n{report}");
    }
    let line = report.lines().find(|line| line.contains("Collected : "));
    let number = line.and_then(|line| line.split_whitespace().next_back());
    Ok(number.context("callgrind printed no count")?.parse()?)
}

fn compare(accepted: &Accepted, counted: &Accepted) -> Result<ExitCode> {
    let mut is_ok = true;
    println!("| instructions | accepted | counted | change |\n|---|---|---|---|");
    for (name, count) in &counted.counts {
        let Some(before) = accepted.counts.get(name) else {
            bail!("{FILE} has no count of {name} (run with --check --update)");
        };
        let change = *count as f64 / *before as f64 - 1.0;
        is_ok &= change.abs() <= TOLERANCE;
        println!("| {name} | {before} | {count} | {:+.2} % |", change * 100.0);
    }
    if is_ok {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "A count changed by more than {} %. Fix a regression, or accept the new counts with \
         `cargo xtask bench --check --update`.",
        TOLERANCE * 100.0
    );
    Ok(ExitCode::FAILURE)
}

fn rustc() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
