//! The agent's process within a session: it is started, may exit before the session ends, and is
//! restarted.

use super::Machine;
use super::life::{Life, Process, Work};
use super::turn::{EndReason, Pending};
use crate::dialect::{Action, Capabilities, Exit, TurnResult};
use crate::event::{Level, NoticeCode, SessionState};
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

    pub(super) fn start(&mut self) {
        if matches!(self.life, Life::Created) {
            self.spawn(false);
        }
    }

    /// Restarts the agent, because a message is queued and no process is running.
    pub(super) fn wake(&mut self) {
        if matches!(self.life, Life::Asleep) {
            self.spawn(true);
        }
    }

    fn spawn(&mut self, is_restart: bool) {
        self.life = Life::Starting {
            is_restart,
            is_ready: false,
        };
        self.publish_state();
        self.step.push(Action::Spawn);
    }

    pub(super) fn on_spawned(&mut self) {
        if let Life::Starting { is_ready, .. } = self.life {
            self.life = Life::Running(Process {
                since: self.step.now,
                is_ready,
                work: Work::Idle,
                background_tasks: 0,
                frozen_since: None,
                escalation: None,
            });
            self.release_changes();
            self.next_turn();
        }
    }

    pub(super) fn on_spawn_failed(&mut self, outcome: Outcome) {
        let Life::Starting { is_restart, .. } = self.life else {
            return;
        };
        // The message was accepted, so it gets a turn, and the turn an ending.
        if let Some(message) = self.queue.pop_front() {
            let turn = self.open_turn(Some(message.prompt()));
            self.finish_turn(turn, TurnResult::new(outcome.clone()));
        }
        if is_restart && self.can_sleep() {
            self.life = Life::Asleep;
            self.release_changes();
            return self.enter_sleep(); // it worked before, and may work again
        }
        self.end(outcome, &Exit::default());
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
            && self.life.process().is_some()
            && self.turns > 0
    }

    /// Ends the process of a finished turn.
    pub(super) fn end_turn_process(&mut self) {
        if !self.in_turn() && self.life.is_unescalated() {
            self.end_process();
        }
    }

    /// Resets the state of a process that exited while the session continues.
    pub(super) fn enter_sleep(&mut self) {
        self.life = Life::Asleep;
        self.withdraw_all();
        self.refuse_open_changes();
        if self.end_if_spent() {
            return;
        }
        self.publish_state();
        self.next_turn();
    }

    /// Reports a process that exited without being asked to.
    pub(super) fn report_unexpected_exit(&mut self, exit: &Exit) {
        let how = match (exit.code, exit.signal) {
            (_, Some(signal)) => format!(" (signal {signal})"),
            (Some(code), None) => format!(" (exit code {code})"),
            (None, None) => String::new(),
        };
        let message = format!(
            "The agent exited between turns{how}; it will be restarted with the next message."
        );
        self.notice(Level::Warning, NoticeCode::AgentGone, message);
    }

    /// Returns the state to publish.
    pub(super) fn current_state(&self) -> SessionState {
        let is_stopping = self.life.ends_with_process()
            || self.life.turn().is_some_and(|turn| {
                matches!(&turn.pending, Some(pending) if matches!(pending.reason, EndReason::Stop))
            });
        match &self.life {
            Life::Created => SessionState::Created,
            Life::Ended => SessionState::Ended,
            _ if is_stopping => SessionState::Stopping,
            life if !life.is_ready() => SessionState::Starting,
            _ if self.paused => SessionState::Paused,
            _ if self.in_turn() => SessionState::Working,
            _ => SessionState::Idle,
        }
    }

    /// Returns the number of the agent's background tasks.
    pub(super) fn background_tasks(&self) -> usize {
        let process = self.life.process();
        process.map_or(0, |process| process.background_tasks)
    }

    /// Returns true if neither the session nor the current turn is being ended.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        let turn = self.life.turn();
        self.life.is_unescalated() && turn.is_none_or(|turn| turn.pending.is_none())
    }

    /// Returns true if nothing can be sent anymore.
    pub(super) fn is_ending(&self) -> bool {
        let pending = self.life.turn().and_then(|turn| turn.pending.as_ref());
        self.life.ends_with_process() || pending.is_some_and(Pending::ends_session)
    }
}
