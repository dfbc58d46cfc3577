//! Clocks: the only module that reads one. Session time is used for limits, wall time for
//! timestamps.

#![expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads a clock"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_core::event::Timestamp;
use tokio::time::Instant;

/// Measures the time since the start of a session. It follows tokio's clock, which tests can
/// control.
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

/// Returns the time of a clock that only advances, and that tests do not control.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the wall-clock time.
pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
