//! Integration tests with a real `nats-server`.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests start processes and read the clock; an error fails the test"
)]

mod attacks;
mod credentials;
mod delivery;
mod drain;
mod failures;
mod ledger;
mod login;
mod rig;
mod sessions;
mod slow;
mod supply;
mod trials;
