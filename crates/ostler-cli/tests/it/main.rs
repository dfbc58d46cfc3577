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
mod completions;
mod config;
mod configured;
mod conformance;
mod display;
mod doctor;
mod driver;
mod escapes;
mod guard;
mod heavy;
mod help;
mod hints;
mod looping;
mod policy;
mod readers;
mod real;
mod replay;
mod rig;
mod missing_layers;
mod sandbox;
mod sessions;
mod shown;
mod slow;
mod terminal;
mod trust;
mod usage;
