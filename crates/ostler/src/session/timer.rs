//! Timer: waits for a deadline that may change between two waits.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that stays registered with the runtime while its deadline exists. Registering it anew
/// for each wait would wake the runtime each time.
#[derive(Default)]
pub(super) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Waits until the deadline, or forever without one. Cancel safe.
    pub(super) async fn wait_until(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else {
            self.0 = None;
            return std::future::pending().await;
        };
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::poll;

    use super::*;
    use crate::clock::SessionClock;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Returns true if a wait with this deadline is still going on.
    async fn waits(timer: &mut Timer, deadline: Option<Instant>) -> bool {
        poll!(std::pin::pin!(timer.wait_until(deadline))).is_pending()
    }

    #[tokio::test]
    async fn the_latest_deadline_counts() {
        let (mut timer, clock) = (Timer::default(), SessionClock::start());
        assert!(waits(&mut timer, Some(clock.instant(HOUR))).await);
        timer.wait_until(Some(clock.instant(Duration::ZERO))).await;
        assert!(
            waits(&mut timer, Some(clock.instant(HOUR))).await,
            "fires once"
        );
        assert!(waits(&mut timer, None).await);
        assert!(timer.0.is_none(), "it stays registered without a deadline");
    }

    #[tokio::test]
    async fn a_later_deadline_does_not_register_another_timer() {
        let (mut timer, clock) = (Timer::default(), SessionClock::start());
        let mut registered = Vec::new();
        for hours in [1, 1, 2] {
            assert!(waits(&mut timer, Some(clock.instant(hours * HOUR))).await);
            registered.push(timer.0.as_ref().map(|sleep| &raw const **sleep));
        }
        assert!(registered.iter().all(|it| *it == registered[0]));
    }
}
