//! Shared test support: a scripted model server, a scripted fake agent, the real agents, and
//! process inspection.
//!
//! For tests only. No product crate depends on it, and it depends on none of them.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failure here is a failed test"
)]

pub mod crowd;
pub mod fake;
pub mod machine;
pub mod nats;
pub mod processes;
pub mod pty;
pub mod real;
pub mod scenario;
pub mod harness;
pub mod transcript;

pub use ostler_standin as model;
