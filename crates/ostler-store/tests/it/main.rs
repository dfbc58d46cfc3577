//! The store as its users see it: what is kept, what is found, what goes, with several processes and after a crash.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests start processes that tell what they kept, and look into the database; a fault is a failed test"
)]

mod keeping;
mod migrations;
mod processes;
mod pruning;
mod rig;
mod searching;
mod usage;
