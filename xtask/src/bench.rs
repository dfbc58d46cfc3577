//! `cargo xtask bench`: the benchmarks behind docs/performance.md, each in the crate it measures.

mod inputs;
mod sessions;

use std::process::ExitCode;

use anyhow::{Result, bail};

pub(crate) const ABOUT: &str = "benchmark sessions (against other SDKs; --quick), \
    overhead (ostler against the bare agent), read (parsing) or append (storing)";

/// Names of the benchmarks, each with its crate.
const BENCHMARKS: &[(&str, &str)] = &[
    ("overhead", "ostler-cli"),
    ("read", "ostler-dialects"),
    ("append", "ostler-store"),
];

/// Runs one benchmark, or all of them if none is named. Further arguments are passed on to it.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.first().map(String::as_str) {
        Some("__latency") => {
            inputs::print_latency_lines()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some("sessions") => {
            sessions::run(&arguments[1..])?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let (name, rest) = arguments
        .split_first()
        .map_or((None, arguments), |(name, rest)| (Some(name), rest));
    let chosen: Vec<_> = BENCHMARKS
        .iter()
        .filter(|(known, _)| name.is_none_or(|n| n == known))
        .collect();
    if chosen.is_empty() {
        bail!("unknown benchmark {name:?}; known: {}", names());
    }
    let mut helpers = std::process::Command::new("cargo"); // includes the fake agent
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
        bail!("ostler-testkit does not build");
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
            bail!("the benchmark {name} failed");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn names() -> String {
    BENCHMARKS
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}
