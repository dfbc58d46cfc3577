//! Tests of the tools: attacks and normal use.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start the program; a fault is a failed test"
)]

mod commands;
mod file_tools;
mod files;
mod fuzz;
