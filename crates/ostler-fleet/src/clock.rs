//! The clock of leases and heartbeats. Times in messages come from the program around the fleet.

use tokio::time::Instant;

/// Returns the current time. It advances while the process is paused.
#[expect(
    clippy::disallowed_methods,
    reason = "leases are compared with the monotonic clock, and only here"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
