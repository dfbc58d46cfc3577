//! The library against the scripted fake agent (its misbehaviour on command) and against the real Claude Code.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests write programs, look at processes and watch the clock by themselves"
)]

mod processes;
mod real;
mod rig;
mod slow;
mod streams;
