//! The whole program: what it prints, how it exits, what it leaves behind; with the fake agent and with the real one.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start the program and watch the clock; a fault is a failed test"
)]

mod acp;
mod adder;
mod api;
mod bridge;
mod chat;
mod config;
mod configured;
mod conformance;
mod driver;
mod escapes;
mod guard;
mod heavy;
mod looping;
mod policy;
mod readers;
mod real;
mod rig;
mod sandbox;
mod sessions;
mod shown;
mod slow;
mod usage;
