//! Tests of the dialects through their public contract.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests panic on errors")]

mod acp;
mod codex;
mod control;
mod copilot;
mod golden;
mod launch;
mod mcp;
mod mock;
mod model_agents;
mod openclaw;
mod recognition;
mod robust;
mod claude_input;
mod schemas;

mod session;
mod harness;

/// Returns true if golden files are to be rewritten: `UPDATE_GOLDEN=1`, and no other value.
#[expect(
    clippy::disallowed_methods,
    reason = "requested through the environment"
)]
fn updates_golden_files() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1")
}
