//! The one place that reads a clock: session time for limits, wall time for stamps.

#![expect(clippy::disallowed_methods, reason = "this is the door to the clock")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_core::event::At;
use tokio::time::Instant;

/// The time since a session began. It follows tokio's clock, so a test can move it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionClock(Instant);

impl SessionClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn instant(self, at: Duration) -> Instant {
        self.0 + at
    }
}

/// The wall time.
pub(crate) fn wall() -> At {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    At(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
