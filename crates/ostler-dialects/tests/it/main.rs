//! Tests of the dialects through their public contract.

#![expect(clippy::unwrap_used, reason = "tests stop at the first fault")]

mod acp;
mod codex;
mod control;
mod copilot;
mod golden;
mod launch;
mod mcp;
mod mock;
mod openai;
mod openclaw;
mod robust;
mod sayings;

mod session;
mod stage;
