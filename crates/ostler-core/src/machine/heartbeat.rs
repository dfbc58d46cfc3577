//! Agents that say nothing until they are done: their silence does not mean that they hang, and the caller hears of it.

use std::time::Duration;

use super::{Effect, Machine};
use crate::event::{Level, Notice};

/// How often it is said that the agent is still at work.
const EVERY: Duration = Duration::from_secs(30);

/// Since when a turn is under way, and when something was last said about its silence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Heartbeat {
    since: Duration,
    told: Duration,
}

impl Heartbeat {
    /// A turn begins.
    pub(super) fn begin(now: Duration) -> Self {
        Self {
            since: now,
            told: now,
        }
    }
}

impl Machine {
    /// Whether silence is no sign of trouble: a tool runs, or the agent is one that says nothing until it is done.
    pub(super) fn may_be_silent(&self) -> bool {
        self.capabilities.silent || self.tools.running()
    }

    /// When it is time to say that the agent is still at work.
    pub(super) fn silence_deadline(&self) -> Option<Duration> {
        let works = self
            .open
            .as_ref()
            .is_some_and(|turn| turn.pending.is_none());
        self.heartbeat
            .told
            .checked_add(EVERY)
            .filter(|_| self.capabilities.silent && works)
    }

    pub(super) fn silence_due(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.silence_deadline().is_some_and(|at| at <= now) {
            self.heartbeat.told = now;
            let seconds = now.saturating_sub(self.heartbeat.since).as_secs();
            let message = format!(
                "The agent has been at work for {seconds} s. It says nothing until it is done."
            );
            self.emit(Notice::new(Level::Info, "still_working", message), fx);
        }
    }
}
