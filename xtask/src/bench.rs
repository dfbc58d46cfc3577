//! `cargo xtask bench`: measurements that are worth a table in the docs; one function per measurement.

use std::process::ExitCode;

use anyhow::{Result, bail};

pub(crate) const ABOUT: &str = "measure: overhead (ostler run against the bare agent)";

/// One measurement: its name, and the function that makes it and prints a Markdown table.
struct Measurement {
    name: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

const MEASUREMENTS: &[Measurement] = &[Measurement {
    name: "overhead",
    run: overhead,
}];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let names: Vec<&str> = MEASUREMENTS
        .iter()
        .map(|measurement| measurement.name)
        .collect();
    let Some((name, rest)) = arguments.split_first() else {
        bail!("name a measurement: {}", names.join(", "));
    };
    match MEASUREMENTS
        .iter()
        .find(|measurement| measurement.name == name)
    {
        Some(measurement) => (measurement.run)(rest),
        None => bail!("no measurement {name:?}; there is: {}", names.join(", ")),
    }
}

/// What `ostler run` costs over the bare program: the same prompt against the same scripted server, medians of
/// alternating runs, wall time and the peak memory of ostler itself.
fn overhead(_arguments: &[String]) -> Result<ExitCode> {
    bail!("overhead is not measured yet: it needs the testkit's server and the program ostler")
}
