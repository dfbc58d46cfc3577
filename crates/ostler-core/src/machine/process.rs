//! The agent's process within a session: it is started, it can go before the session does, and it is started again.

use std::time::Duration;

use super::ending::Then;
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
            self.wake_up(fx);
        }
    }

    /// A message waits, and the agent is not there.
    pub(super) fn wake(&mut self, fx: &mut Vec<Effect>) {
        if self.state != SessionState::Created && !self.starting {
            self.wake_up(fx);
        }
    }

    fn wake_up(&mut self, fx: &mut Vec<Effect>) {
        self.starting = true;
        self.go(SessionState::Starting, fx);
        fx.push(Effect::Spawn);
    }

    pub(super) fn spawned(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.starting {
            (self.starting, self.lived) = (false, true);
            self.spawned = Some(now);
            self.release_changes(now, fx);
            self.next_turn(now, fx);
        }
    }

    pub(super) fn spawn_failed(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        if self.spawned.is_some() {
            return;
        }
        self.starting = false;
        // The message was accepted, so it gets its turn, and the turn its ending.
        if let Some(prompt) = self.queue.pop_front() {
            self.begin(now, Some(&prompt), fx);
            self.close_turn(TurnResult::new(outcome.clone()), fx);
        }
        if self.lived && self.can_sleep() {
            self.release_changes(now, fx);
            return self.asleep(now, fx); // it was there before, and may be again
        }
        self.end(outcome, &Exit::default(), fx);
    }

    /// Whether the session can outlive the agent's process: the next message starts another.
    pub(super) fn can_sleep(&self) -> bool {
        self.after_turn == AfterTurn::Wait
            && (self.capabilities.resume || !self.capabilities.many_turns)
    }

    /// Whether each turn has a process of its own.
    pub(super) fn lives_for_a_turn(&self) -> bool {
        !self.capabilities.many_turns
            && self.can_sleep()
            && self.spawned.is_some()
            && self.turns > 0
    }

    /// The turn is over, and so is the life of its process.
    pub(super) fn put_to_sleep(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.open.is_none() && self.ladder.is_none() {
            self.end_process(now, fx);
        }
    }

    /// The process is gone while the session goes on.
    pub(super) fn asleep(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        (self.spawned, self.ladder, self.frozen) = (None, None, None);
        self.background = 0;
        self.withdraw_all(fx);
        self.changes_failed(fx);
        if self.is_spent(now, fx) {
            return;
        }
        self.go(self.settled(), fx);
        self.next_turn(now, fx);
    }

    /// The process went, and nobody asked it to.
    pub(super) fn gone(&self, exit: &Exit, fx: &mut Vec<Effect>) {
        let message = "The agent's process ended although no turn was under way. The next message starts it again.";
        let how = match (exit.code, exit.signal) {
            (_, Some(signal)) => format!("It was killed by signal {signal}."),
            (Some(code), None) => format!("Its exit code is {code}."),
            (None, None) => String::new(),
        };
        self.emit(
            Notice::new(Level::Warning, "agent_gone", format!("{message} {how}")),
            fx,
        );
    }

    /// The state of a session that is neither starting nor ending.
    pub(super) fn settled(&self) -> SessionState {
        match (self.paused, &self.open) {
            (true, _) => SessionState::Paused,
            (false, Some(_)) => SessionState::Working,
            (false, None) => SessionState::Idle,
        }
    }

    /// Returns true if neither the session nor the current turn is being ended.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        self.ladder.is_none() && self.open.as_ref().is_none_or(|turn| turn.pending.is_none())
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_ending(&self) -> bool {
        let stops =
            |turn: &Turn| matches!(turn.pending, Some(Pending::Stop(_) | Pending::Limit(_)));
        self.ladder.is_some_and(|ladder| ladder.then == Then::End)
            || self.open.as_ref().is_some_and(stops)
    }
}
