//! Tests of the dialects through their public contract.

#![expect(clippy::unwrap_used, reason = "tests stop at the first fault")]

mod golden;
mod launch;
mod robust;
mod sayings;
mod scripted;
mod session;
mod stage;
