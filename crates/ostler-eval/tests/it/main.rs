//! Integration tests of the evaluation: files, statistics, trials with fake agents, runs.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests run programs, read clocks and the environment; errors fail the test"
)]

mod adapter;
mod contract;
mod evaluators;
mod gate;
mod harbor;
mod harbor_tasks;
mod hostile;
mod load;
mod new_case;
mod repositories;
mod report;
mod results;
mod rig;
mod runs;
mod slow;
mod stats;
mod statsmodels;
mod suites;
mod swebench;
mod syntax;
mod trial_details;
mod trials;
mod variables;
