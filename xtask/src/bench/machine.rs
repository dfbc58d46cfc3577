//! The machine and the tree that are measured.

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::workspace;

#[derive(Serialize, Deserialize, Default)]
pub(super) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    rustc: String,
    commit: String,
    date: String,
    /// Average number of running processes in the minute before the build.
    load: f64,
}

/// Describes the machine. Call it before the benchmark itself makes the machine busy.
pub(super) fn facts() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let processor = processors
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1));
    let load = read("/proc/loadavg");
    let changed = !output("git", &["status", "--porcelain"]).is_empty();
    let commit = output("git", &["rev-parse", "--short", "HEAD"]);
    Machine {
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        processor: processor.unwrap_or("unknown processor").trim().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        rustc: output("rustc", &["--version"]),
        commit: if changed {
            commit + " (changed)"
        } else {
            commit
        },
        date: output("date", &["+%Y-%m-%d"]),
        load: load
            .split(' ')
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or(f64::NAN),
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command
        .args(arguments)
        .current_dir(workspace::root())
        .output();
    output.map_or_else(
        |_| String::new(),
        |it| String::from_utf8_lossy(&it.stdout).trim().to_owned(),
    )
}

impl Machine {
    /// Returns true if other work disturbed the measurements.
    pub(super) fn is_busy(&self) -> bool {
        self.load > self.cores as f64 * 0.25
    }

    pub(super) fn describe(&self) -> String {
        let Self {
            cores,
            processor,
            kernel,
            rustc,
            commit,
            date,
            load,
        } = self;
        let warning = if self.is_busy() {
            "\n**The machine was busy with other work, so the times are not those of a quiet one.**"
        } else {
            ""
        };
        format!(
            "{cores} cores ({processor}), Linux {kernel}, {rustc}, commit {commit}, {date}; \
             load {load} before the start.{warning}"
        )
    }
}
