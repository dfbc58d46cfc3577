//! Pause and freeze: pausing holds messages back in order, and freezing also suspends the agent's
//! processes.

use super::{Machine, Work};
use crate::dialect::Action;
use crate::event::{RefusalCode, RequestKind};

impl Machine {
    pub(super) fn pause(&mut self) {
        if self.is_ending() {
            return self.refuse(
                RequestKind::Pause,
                RefusalCode::Ending,
                "the session is ending",
            );
        }
        self.paused = true;
        self.publish_state();
    }

    pub(super) fn freeze(&mut self) {
        if !self.capabilities.freeze {
            let why = "this agent has no process to suspend; use pause instead";
            return self.refuse(RequestKind::Freeze, RefusalCode::Unsupported, why);
        }
        self.pause();
        if self.paused
            && let Some(process) = self.life.process_mut()
            && process.frozen_since.is_none()
        {
            process.frozen_since = Some(self.step.now);
            self.step.push(Action::Freeze);
        }
    }

    pub(super) fn resume(&mut self) {
        self.thaw();
        if std::mem::take(&mut self.paused) {
            self.publish_state();
        }
        if self.life.process().is_some() && self.life.is_ready() && !self.in_turn() {
            self.proceed();
        } else {
            self.next_turn();
        }
    }

    /// Continues suspended processes. The time they were suspended does not count towards any
    /// limit.
    pub(super) fn thaw(&mut self) {
        let Some(process) = self.life.process_mut() else {
            return;
        };
        let Some(since) = process.frozen_since.take() else {
            return;
        };
        let lost = self.step.now.saturating_sub(since);
        process.since = process.since.saturating_add(lost);
        if let Work::Turn(turn) = &mut process.work {
            turn.shift(lost);
        }
        if let Some(moment) = &mut self.first_turn_at {
            *moment = moment.saturating_add(lost);
        }
        self.changes.shift(lost);
        self.step.push(Action::Thaw);
        self.release_changes();
    }
}
