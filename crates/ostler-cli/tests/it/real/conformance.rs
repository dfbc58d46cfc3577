//! `ostler doctor --conformance` with the real agents, each on PATH as a user would install it.

use ostler_testkit::real;

use crate::conformance::conforms;

#[test]
fn claude_conforms() {
    conforms(&real::CLAUDE, 7);
}

#[test]
fn codex_conforms() {
    conforms(&real::CODEX, 7);
}

#[test]
fn gemini_conforms() {
    conforms(&real::GEMINI, 7);
}

#[test]
fn opencode_conforms() {
    conforms(&real::OPENCODE, 7);
}

#[test]
fn copilot_conforms() {
    conforms(&real::COPILOT, 7);
}
