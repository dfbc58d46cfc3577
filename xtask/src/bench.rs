//! `cargo xtask bench`: the measurements behind docs/performance.md; each is a benchmark of the crate it measures.

use std::process::ExitCode;

use anyhow::{Result, bail};

pub(crate) const ABOUT: &str = "measure: overhead (ostler run against the bare agent), read (bytes to events), append (keeping events)";

/// A measurement's name, and the crate whose benchmark of that name makes it.
const MEASUREMENTS: &[(&str, &str)] = &[
    ("overhead", "ostler-cli"),
    ("read", "ostler-dialects"),
    ("append", "ostler-store"),
];

/// Runs one measurement, or all of them when none is named; what follows the name goes to the benchmark.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (name, rest) = arguments
        .split_first()
        .map_or((None, arguments), |(name, rest)| (Some(name), rest));
    let chosen: Vec<_> = MEASUREMENTS
        .iter()
        .filter(|(known, _)| name.is_none_or(|n| n == known))
        .collect();
    if chosen.is_empty() {
        bail!("no measurement {name:?}; there is: {}", names());
    }
    let mut helpers = std::process::Command::new("cargo"); // the fake agent stands in for a real one
    if !helpers
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "ostler-testkit",
            "--bins",
        ])
        .status()?
        .success()
    {
        bail!("the testkit could not be built");
    }
    for (name, package) in chosen {
        let mut command = std::process::Command::new("cargo");
        command
            .args([
                "bench",
                "--quiet",
                "--package",
                package,
                "--bench",
                name,
                "--",
            ])
            .args(rest);
        if !command.status()?.success() {
            bail!("the measurement {name} failed");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn names() -> String {
    MEASUREMENTS
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}
