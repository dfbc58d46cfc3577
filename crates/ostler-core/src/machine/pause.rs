//! Pause and freeze: pausing holds messages back in order, and freezing also suspends the agent's
//! processes.

use std::time::Duration;

use super::{Effect, Machine};
use crate::event::SessionState;

impl Machine {
    pub(super) fn pause(&mut self, fx: &mut Vec<Effect>) {
        if self.is_ending() {
            return self.refuse(("pause", "ending"), "the session is ending", fx);
        }
        self.paused = true;
        if matches!(self.state, SessionState::Idle | SessionState::Working) {
            self.set_state(SessionState::Paused, fx);
        }
    }

    pub(super) fn freeze(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if !self.capabilities.freeze {
            let why = "this agent has no process to suspend; use pause instead";
            return self.refuse(("freeze", "unsupported"), why, fx);
        }
        self.pause(fx);
        if self.paused && self.spawned_at.is_some() && self.frozen_since.is_none() {
            self.frozen_since = Some(now);
            fx.push(Effect::Freeze);
        }
    }

    pub(super) fn resume(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.thaw(now, fx);
        self.paused = false;
        if self.state == SessionState::Paused {
            self.set_state(self.steady_state(), fx);
        }
        if self.spawned_at.is_some()
            && self.current_turn.is_none()
            && self.state != SessionState::Starting
        {
            self.proceed(now, fx);
        } else {
            self.next_turn(now, fx);
        }
    }

    /// Continues suspended processes. The time they were suspended does not count towards any
    /// limit.
    pub(super) fn thaw(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        let Some(since) = self.frozen_since.take() else {
            return;
        };
        let lost = now.saturating_sub(since);
        for moment in [&mut self.spawned_at, &mut self.first_turn_at]
            .into_iter()
            .flatten()
        {
            *moment = moment.saturating_add(lost);
        }
        if let Some(turn) = &mut self.current_turn {
            turn.shift(lost);
        }
        self.changes.shift(lost);
        fx.push(Effect::Thaw);
        self.release_changes(now, fx);
    }
}
