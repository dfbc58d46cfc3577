//! Tests of the dialects through their public contract.

mod golden;
mod launch;
mod robust;
mod sayings;
mod scripted;
mod session;
mod stage;
