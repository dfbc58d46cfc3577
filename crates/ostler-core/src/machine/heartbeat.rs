//! Heartbeat: regular notices that an agent is still working, if it prints nothing until it is
//! done.

use std::time::Duration;

use super::Machine;
use crate::event::{Level, NoticeCode};

/// Interval between heartbeat notices.
const INTERVAL: Duration = Duration::from_secs(30);

/// When the current turn started, and when the last notice was emitted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Heartbeat {
    turn_started: Duration,
    last_notice: Duration,
}

impl Heartbeat {
    /// Starts the heartbeat of a turn.
    pub(super) fn begin(now: Duration) -> Self {
        Self {
            turn_started: now,
            last_notice: now,
        }
    }
}

impl Machine {
    /// Returns true if silence is normal: a tool is running, or the agent prints nothing until it
    /// is done.
    pub(super) fn may_be_silent(&self) -> bool {
        self.capabilities.silent || self.tools.running()
    }

    /// Returns when the next heartbeat notice is due.
    pub(super) fn heartbeat_deadline(&self) -> Option<Duration> {
        let is_working = self.life.turn().is_some_and(|turn| turn.pending.is_none());
        self.heartbeat
            .last_notice
            .checked_add(INTERVAL)
            .filter(|_| self.capabilities.silent && is_working)
    }

    pub(super) fn check_heartbeat(&mut self) {
        if self
            .heartbeat_deadline()
            .is_some_and(|at| at <= self.step.now)
        {
            self.heartbeat.last_notice = self.step.now;
            let seconds = self
                .step
                .now
                .saturating_sub(self.heartbeat.turn_started)
                .as_secs();
            let message = format!(
                "The agent has been working for {seconds} s. It prints nothing until it is done."
            );
            self.notice(Level::Info, NoticeCode::StillWorking, message);
        }
    }
}
