//! Tests with agents that are too large or too slow for every run: only with
//! `cargo xtask test --all-agents`.

use ostler_testkit::real;

use crate::conformance::conforms;

/// OpenClaw prints nothing until it is done, so fewer checks apply.
#[test]
fn openclaw_conforms() {
    conforms(&real::OPENCLAW, 5);
}

#[test]
fn qwen_conforms() {
    conforms(&real::QWEN, 7);
}

#[test]
fn goose_conforms() {
    conforms(&real::GOOSE, 7);
}

#[test]
fn claude_agent_acp_conforms() {
    conforms(&real::CLAUDE_AGENT_ACP, 7);
}

#[test]
fn codex_acp_conforms() {
    conforms(&real::CODEX_ACP, 7);
}
