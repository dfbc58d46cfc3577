//! What is tried with the real agents beside the rows of the conformance suite, and takes minutes.

mod acp;
mod codex;
mod copilot;
mod openclaw;
