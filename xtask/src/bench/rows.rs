//! Rows of the table: what is measured, and the goals.

use super::contenders::{FLOOR, GUARD, OSTLER, PROTOTYPE, STORE};

/// A row of the table.
pub(super) struct Row {
    /// The measurement that it belongs to: a name for the command line and the programs.
    pub(super) measurement: &'static str,
    /// Position of the row's number in a sample.
    pub(super) column: usize,
    pub(super) title: &'static str,
    pub(super) goals: &'static [(&'static str, Goal)],
}

/// A goal for the median of one contender.
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// As the same contender in another measurement, with a tolerance.
    Like(&'static str),
}

/// Tolerance of [`Goal::Like`].
pub(super) const LIKE: f64 = 1.15;

const fn row(
    measurement: &'static str,
    column: usize,
    title: &'static str,
    goals: &'static [(&'static str, Goal)],
) -> Row {
    Row {
        measurement,
        column,
        title,
        goals,
    }
}

use Goal::{AtLeast, AtMost, Like};

pub(super) const ROWS: [Row; 16] = [
    row(
        "cold",
        0,
        "cold run of 14 lines, library, ms",
        &[(OSTLER, AtMost(3.2)), (GUARD, AtMost(5.0))],
    ),
    row(
        "cold-full",
        0,
        "cold run of 14 lines, library with all features, ms",
        &[],
    ),
    row(
        "run",
        0,
        "cold run of 14 lines, `ostler run`, ms",
        &[(OSTLER, AtMost(6.0)), (STORE, AtMost(7.0))],
    ),
    row(
        "crowded-cold",
        0,
        "cold run, library, 2,000 more processes, ms",
        &[(OSTLER, Like("cold")), (GUARD, Like("cold"))],
    ),
    row(
        "crowded-run",
        0,
        "cold run, `ostler run`, 2,000 more processes, ms",
        &[(OSTLER, Like("run")), (STORE, Like("run"))],
    ),
    row(
        "warm",
        0,
        "warm run of 5,003 lines, ms",
        &[(OSTLER, AtMost(8.0))],
    ),
    row(
        "mixed",
        0,
        "40 MB mixed, library, ms",
        &[(OSTLER, AtMost(150.0))],
    ),
    row(
        "program",
        0,
        "40 MB mixed, `ostler run`, ms",
        &[(OSTLER, AtMost(250.0))],
    ),
    row(
        "decode",
        0,
        "decode deltas, MB/s",
        &[(OSTLER, AtLeast(400.0))],
    ),
    row(
        "decode",
        1,
        "decode tool results, MB/s",
        &[(OSTLER, AtLeast(700.0))],
    ),
    row(
        "decode",
        2,
        "decode mixed, MB/s",
        &[(OSTLER, AtLeast(480.0))],
    ),
    row(
        "latency",
        0,
        "line to event, µs",
        &[(OSTLER, AtMost(30.0)), (STORE, AtMost(45.0))],
    ),
    row(
        "idle",
        0,
        "memory per idle session, KiB",
        &[(OSTLER, AtMost(12.0))],
    ),
    row(
        "idle",
        1,
        "private memory of a guard, KiB",
        &[(GUARD, AtMost(150.0))],
    ),
    row(
        "many",
        0,
        "start 1,000 sessions, s",
        &[(OSTLER, AtMost(1.5))],
    ),
    row(
        "many",
        1,
        "stop 1,000 sessions, s",
        &[(OSTLER, AtMost(1.5))],
    ),
];

impl Row {
    /// Returns true if larger numbers are better.
    pub(super) fn is_speed(&self) -> bool {
        self.measurement == "decode"
    }
}

/// Returns the contender that shows the speed of the machine in a measurement, and its median on
/// the machine on which the goals were set.
pub(super) fn yardstick(measurement: &str) -> Option<(&'static str, f64)> {
    match measurement {
        "cold" => Some((PROTOTYPE, 2.0)),
        "run" => Some((FLOOR, 2.3)),
        "warm" => Some((PROTOTYPE, 4.6)),
        "mixed" => Some((PROTOTYPE, 96.0)),
        "latency" => Some((PROTOTYPE, 22.0)),
        _ => None,
    }
}

/// Returns the names of the measurements, each with the title of its first row.
pub(super) fn measurements() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter()
        .filter(|row| row.column == 0)
        .map(|row| (row.measurement, row.title))
}

/// Returns true if a sample is the time of the whole process, not printed by it.
pub(super) fn is_process_time(measurement: &str) -> bool {
    matches!(
        measurement,
        "cold" | "cold-full" | "run" | "crowded-cold" | "crowded-run" | "program"
    )
}

/// Returns true if many more processes exist during the measurement.
pub(super) fn is_crowded(measurement: &str) -> bool {
    measurement.starts_with("crowded-")
}
