//! End-to-end tests of the program: its output, exit codes and leftovers, with the fake agent and
//! with real ones.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start the program and read the clock; an error fails the test"
)]

mod acp;
mod agent_attacks;
mod agent_loop;
mod api;
mod bridge;
mod chaos;
mod chat;
mod completions;
mod config;
mod configured_agent;
mod conformance;
mod daemon;
mod display;
mod doctor;
mod driver;
mod escapes;
mod eval;
mod eval_results;
mod fleet;
mod fleet_sessions;
mod fleet_setup;
mod guard;
mod guard_server;
mod harbor_models;
mod heavy;
mod help;
mod hints;
mod logging;
mod missing_layers;
mod open;
mod output;
mod policy;
mod readme_example;
mod real;
mod replay;
mod rig;
mod sandbox;
mod schemathesis;
mod serve;
mod serve_options;
mod session_verbs;
mod sessions;
mod slow;
mod stalled_readers;
mod terminal;
mod trust;
mod usage;
