//! Slow tests with the real agents that are not rows of the conformance suite.

mod acp;
mod codex;
mod copilot;
mod openclaw;
