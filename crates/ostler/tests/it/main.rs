//! The library against the scripted fake agent (which misbehaves on command), the scripted model,
//! and the real agents.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests write programs, look at processes and watch the clock by themselves"
)]

mod adapter;
mod api;
mod conformance;
mod driver;
mod heavy;
mod litellm;
mod live;
mod agent_loop;
mod processes;
mod real;
mod rig;
mod sandbox;
mod services;
mod sessions;
mod slow;
mod streams;
mod turns;
