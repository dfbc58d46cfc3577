//! The agent's process within a session: it is started, may exit before the session ends, and is
//! restarted.

use std::time::Duration;

use super::ending::AfterExit;
use super::turn::{Pending, Turn};
use super::{Effect, Machine};
use crate::dialect::{Capabilities, Exit, TurnResult};
use crate::event::{Level, Notice, SessionState};
use crate::outcome::Outcome;
use crate::spec::AfterTurn;

impl Machine {
    /// Sets the agent's capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Replaces the agent's capabilities, after a change of transport.
    pub fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    pub(super) fn start(&mut self, fx: &mut Vec<Effect>) {
        if self.state == SessionState::Created {
            self.spawn(fx);
        }
    }

    /// Restarts the agent, because a message is queued and no process is running.
    pub(super) fn wake(&mut self, fx: &mut Vec<Effect>) {
        if self.state != SessionState::Created && !self.starting {
            self.spawn(fx);
        }
    }

    fn spawn(&mut self, fx: &mut Vec<Effect>) {
        self.starting = true;
        self.set_state(SessionState::Starting, fx);
        fx.push(Effect::Spawn);
    }

    pub(super) fn on_spawned(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.starting {
            (self.starting, self.has_spawned) = (false, true);
            self.spawned_at = Some(now);
            self.release_changes(now, fx);
            self.next_turn(now, fx);
        }
    }

    pub(super) fn on_spawn_failed(
        &mut self,
        now: Duration,
        outcome: Outcome,
        fx: &mut Vec<Effect>,
    ) {
        if self.spawned_at.is_some() {
            return;
        }
        self.starting = false;
        // The message was accepted, so it gets a turn, and the turn an ending.
        if let Some(prompt) = self.queue.pop_front() {
            self.begin_turn(now, Some(&prompt), fx);
            self.close_turn(TurnResult::new(outcome.clone()), fx);
        }
        if self.has_spawned && self.can_sleep() {
            self.release_changes(now, fx);
            return self.enter_sleep(now, fx); // it worked before, and may work again
        }
        self.end(outcome, &Exit::default(), fx);
    }

    /// Returns true if the session can outlive the agent's process: the next message starts
    /// another.
    pub(super) fn can_sleep(&self) -> bool {
        self.after_turn == AfterTurn::Wait
            && (self.capabilities.resume || !self.capabilities.many_turns)
    }

    /// Returns true if each turn has its own process.
    pub(super) fn has_one_process_per_turn(&self) -> bool {
        !self.capabilities.many_turns
            && self.can_sleep()
            && self.spawned_at.is_some()
            && self.turns > 0
    }

    /// Ends the process of a finished turn.
    pub(super) fn end_turn_process(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.current_turn.is_none() && self.escalation.is_none() {
            self.end_process(now, fx);
        }
    }

    /// Resets the state of a process that exited while the session continues.
    pub(super) fn enter_sleep(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        (self.spawned_at, self.escalation, self.frozen_since) = (None, None, None);
        self.background_tasks = 0;
        self.withdraw_all(fx);
        self.refuse_open_changes(fx);
        if self.end_if_spent(now, fx) {
            return;
        }
        self.set_state(self.steady_state(), fx);
        self.next_turn(now, fx);
    }

    /// Reports a process that exited without being asked to.
    pub(super) fn report_unexpected_exit(&self, exit: &Exit, fx: &mut Vec<Effect>) {
        let how = match (exit.code, exit.signal) {
            (_, Some(signal)) => format!(" (signal {signal})"),
            (Some(code), None) => format!(" (exit code {code})"),
            (None, None) => String::new(),
        };
        let message = format!(
            "The agent exited between turns{how}; it will be restarted with the next message."
        );
        self.emit(Notice::new(Level::Warning, "agent_gone", message), fx);
    }

    /// Returns the state of a session that is neither starting nor ending.
    pub(super) fn steady_state(&self) -> SessionState {
        match (self.paused, &self.current_turn) {
            (true, _) => SessionState::Paused,
            (false, Some(_)) => SessionState::Working,
            (false, None) => SessionState::Idle,
        }
    }

    /// Returns true if neither the session nor the current turn is being ended.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        self.escalation.is_none()
            && self
                .current_turn
                .as_ref()
                .is_none_or(|turn| turn.pending.is_none())
    }

    /// Returns true if nothing can be sent anymore.
    pub(super) fn is_ending(&self) -> bool {
        let stops =
            |turn: &Turn| matches!(turn.pending, Some(Pending::Stop(_) | Pending::Limit(_)));
        self.escalation
            .is_some_and(|escalation| escalation.after_exit == AfterExit::EndSession)
            || self.current_turn.as_ref().is_some_and(stops)
    }
}
