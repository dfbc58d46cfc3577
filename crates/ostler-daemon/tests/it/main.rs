//! The daemon in this process, with fake agents as its children.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests write programs and read the clock by themselves"
)]

mod agents;
mod api;
mod approvals;
mod attacks;
mod finding;
mod history;
mod browser;
mod children;
mod control;
mod logins;
mod queue;
mod queued_messages;
mod recovery;
mod rejoin;
mod rig;
mod security;
mod sessions;
mod shutdown;
mod slow;
mod socket;
mod store;
mod streams;
mod webhooks;
