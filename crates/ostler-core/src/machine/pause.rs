//! Pausing: messages are held back in their order; freezing: the agent's processes stand still as well.

use std::time::Duration;

use super::{Effect, Machine};
use crate::event::SessionState;

impl Machine {
    pub(super) fn pause(&mut self, fx: &mut Vec<Effect>) {
        if self.is_ending() {
            return self.refuse(("pause", "ending"), "the session is being ended", fx);
        }
        self.paused = true;
        if matches!(self.state, SessionState::Idle | SessionState::Working) {
            self.go(SessionState::Paused, fx);
        }
    }

    pub(super) fn freeze(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if !self.capabilities.freeze {
            let why = "this agent has no process that could be stopped; pause holds messages back";
            return self.refuse(("freeze", "unsupported"), why, fx);
        }
        self.pause(fx);
        if self.paused && self.spawned.is_some() && self.frozen.is_none() {
            self.frozen = Some(now);
            fx.push(Effect::Freeze);
        }
    }

    pub(super) fn resume(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.thaw(now, fx);
        self.paused = false;
        if self.state == SessionState::Paused {
            self.go(self.settled(), fx);
        }
        if self.spawned.is_some() && self.open.is_none() && self.state != SessionState::Starting {
            self.rest(now, fx);
        } else {
            self.next_turn(now, fx);
        }
    }

    /// The agent goes on. The time in which it stood still is nobody's.
    pub(super) fn thaw(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        let Some(since) = self.frozen.take() else {
            return;
        };
        let lost = now.saturating_sub(since);
        for moment in [&mut self.spawned, &mut self.since].into_iter().flatten() {
            *moment = moment.saturating_add(lost);
        }
        if let Some(turn) = &mut self.open {
            turn.shift(lost);
        }
        self.changes.shift(lost);
        fx.push(Effect::Thaw);
        self.release_changes(now, fx);
    }
}
