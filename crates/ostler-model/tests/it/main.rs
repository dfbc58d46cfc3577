//! Tests of the tool loop through its lines and messages.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests panic on errors")]

mod any_order;
mod approvals;
mod permissions;
mod context;
mod parts;
mod rebuild;
mod harness;
mod requests;
mod steering;
mod turns;
