//! Integration tests of the store: storing, queries, pruning, several processes, crashes.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests start processes, print results and inspect the database; errors fail the test"
)]

mod history;
mod ledger;
mod managed;
mod migrations;
mod processes;
mod pruning;
mod rig;
mod searching;
mod storing;
mod usage;
