//! The end of a session: stop, kill, limits, and the escalation from closing stdin to SIGKILL.

use std::time::Duration;

use super::request::{Completion, Interruption};
use super::turn::{self, EndReason, Pending, Turn};
use super::{Effect, Life, Machine};
use crate::dialect::{Action, Exit, ToAgent, TurnResult};
use crate::event::{Ended, Level, NoticeCode, Origin, RefusalCode, RequestKind, SessionState};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;

/// The latest step taken to end the agent's process, and when the next one is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escalation {
    level: EscalationLevel,
    pub(super) until: Duration,
    pub(super) after_exit: AfterExit,
}

/// What happens after the agent's process has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterExit {
    /// The session ends.
    EndSession,
    /// The session waits for the next message.
    Sleep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscalationLevel {
    InputClosed,
    Terminated,
    Killed,
}

impl Machine {
    pub(super) fn stop(&mut self) {
        self.drop_queue();
        if self.ends_unstarted() {
            return;
        }
        self.thaw(); // a suspended process can neither receive anything nor exit
        self.end_with_process();
        let until = self.step.after(self.limits.grace);
        match self.life.turn_mut() {
            Some(turn) if turn.pending.as_ref().is_some_and(Pending::ends_session) => {}
            Some(turn) => {
                turn.pending = Some(Pending::new(EndReason::Stop, until));
                self.step.push(ToAgent::Interrupt);
                self.publish_state();
            }
            None => {
                self.stop_lingering();
                self.close_input();
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.drop_queue();
        if self.ends_unstarted() {
            return;
        }
        self.thaw();
        self.end_with_process();
        if let Some(turn) = self.life.turn_mut()
            && turn.pending.is_none()
        {
            let until = self.step.after(self.limits.grace);
            turn.pending = Some(Pending::new(EndReason::Stop, until));
        }
        self.stop_lingering();
        let escalation = self.life.escalation();
        if escalation.is_none_or(|escalation| escalation.level != EscalationLevel::Killed) {
            self.escalate(EscalationLevel::Killed, AfterExit::EndSession);
        }
    }

    /// Ends a session whose agent has no process. Returns true if it did.
    fn ends_unstarted(&mut self) -> bool {
        let unstarted = self.life.process().is_none();
        if unstarted {
            let message = match self.turns {
                0 => "The session was stopped before the agent was started.",
                _ => "The session was stopped.",
            };
            let outcome = self
                .last_outcome
                .take()
                .unwrap_or_else(|| Outcome::new(Cause::Stopped, message));
            if self.turns > 0 {
                // Emit the same states as if the process were still running.
                self.set_state(SessionState::Stopping);
            }
            self.end(outcome, &Exit::default());
        }
        unstarted
    }

    fn take_outcome(&mut self) -> Outcome {
        let stopped = || Outcome::new(Cause::Stopped, "The session was stopped.");
        self.last_outcome.take().unwrap_or_else(stopped)
    }

    /// Ends the session with its process, if the process is already being ended.
    fn end_with_process(&mut self) {
        if let Some(process) = self.life.process_mut()
            && let Some(escalation) = &mut process.escalation
        {
            escalation.after_exit = AfterExit::EndSession;
            self.publish_state();
        }
    }

    /// Records that the caller stopped the session while it waited for background tasks.
    fn stop_lingering(&mut self) {
        if self.life.waits_for_background() {
            self.last_outcome = Some(turn::background_stopped());
        }
    }

    /// Refuses every queued message, so that none is lost silently.
    pub(super) fn drop_queue(&mut self) {
        for _ in 0..self.queue.len() {
            self.refuse(
                RequestKind::Send,
                RefusalCode::Ending,
                "the session was stopped before the message was delivered",
            );
        }
        self.queue.clear();
    }

    pub(super) fn startup_deadline(&self) -> Option<Duration> {
        let process = self.life.process()?;
        let is_starting = self.current_state() == SessionState::Starting;
        // Without a prompt, the agent need not print anything.
        let turn = self.life.turn().filter(|turn| !turn.awake)?;
        let since = process.since.max(turn.last_heard());
        since
            .checked_add(self.limits.startup?)
            .filter(|_| is_starting && process.escalation.is_none())
    }

    /// Returns when background tasks run out of time. They are part of the task and count towards
    /// its time limit.
    pub(super) fn linger_deadline(&self) -> Option<Duration> {
        self.first_turn_at?
            .checked_add(self.limits.wall?)
            .filter(|_| self.life.waits_for_background())
    }

    pub(super) fn tick(&mut self) {
        if !self.life.is_frozen() {
            self.check_limits();
        }
        let escalation = self.life.escalation();
        if let Some(escalation) = escalation.filter(|escalation| escalation.until <= self.step.now)
        {
            match escalation.level {
                EscalationLevel::InputClosed => {
                    self.escalate(EscalationLevel::Terminated, escalation.after_exit);
                }
                EscalationLevel::Terminated => {
                    self.escalate(EscalationLevel::Killed, escalation.after_exit);
                }
                EscalationLevel::Killed => self.abandon(),
            }
        }
    }

    fn check_limits(&mut self) {
        self.check_change_timeouts();
        self.check_time_budget();
        if self.linger_deadline().is_some_and(|d| d <= self.step.now) {
            self.report_background_cut("did not end in time");
            self.close_input();
        }
        if self.startup_deadline().is_some_and(|d| d <= self.step.now) {
            self.give_up_on_turn(turn::startup_limit(&self.limits));
        }
        self.check_heartbeat();
        let may_be_silent = self.may_be_silent();
        if let Some(turn) = self.life.turn_mut() {
            match turn.due(self.step.now, &self.limits, may_be_silent) {
                Some(turn::Due::Limit(outcome)) => {
                    let until = self.step.after(self.limits.grace);
                    turn.pending = Some(Pending::new(EndReason::Limit(Box::new(outcome)), until));
                    self.step.push(ToAgent::Interrupt);
                }
                Some(turn::Due::NoAnswer(outcome)) => self.give_up_on_turn(outcome),
                None => {}
            }
        }
    }

    fn report_background_cut(&mut self, why: &str) {
        let message = format!(
            "{} background tasks of the agent {why} and were cut off.",
            self.background_tasks()
        );
        self.notice(Level::Warning, NoticeCode::BackgroundCut, message);
    }

    /// Ends the turn of an agent that does not respond, and terminates its process.
    fn give_up_on_turn(&mut self, outcome: Outcome) {
        let mut pending = None;
        if self.in_turn() {
            pending = self.close_turn(TurnResult::new(outcome));
        } else {
            self.last_outcome = Some(outcome);
        }
        let was_interrupted = pending.is_some_and(|pending| !pending.ends_session());
        let after_exit = if self.can_sleep() && was_interrupted {
            AfterExit::Sleep
        } else {
            self.drop_queue();
            self.end_with_process();
            AfterExit::EndSession
        };
        if self.life.is_unescalated() {
            self.step.push(Action::CloseInput);
            self.escalate(EscalationLevel::Terminated, after_exit);
        }
    }

    /// Ends the process; the session continues.
    pub(super) fn end_process(&mut self) {
        self.escalate(EscalationLevel::InputClosed, AfterExit::Sleep);
    }

    /// Terminates a process that is no longer needed, without waiting for it to notice its closed
    /// stdin.
    pub(super) fn terminate_process(&mut self) {
        if self.life.is_available() {
            self.step.push(Action::CloseInput);
            self.escalate(EscalationLevel::Terminated, AfterExit::Sleep);
        }
    }

    pub(super) fn close_input(&mut self) {
        if self.life.process().is_none() {
            let outcome = self.take_outcome();
            return self.end(outcome, &Exit::default()); // no process, so no stdin to close
        }
        if !self.life.ends_with_process() {
            self.drop_queue();
            self.escalate(EscalationLevel::InputClosed, AfterExit::EndSession);
        }
    }

    fn escalate(&mut self, level: EscalationLevel, after_exit: AfterExit) {
        let Some(process) = self.life.process_mut() else {
            return;
        };
        process.escalation = Some(Escalation {
            level,
            until: self.step.after(self.limits.grace),
            after_exit,
        });
        if after_exit == AfterExit::EndSession {
            self.publish_state();
        }
        self.step.push(match level {
            EscalationLevel::InputClosed => Action::CloseInput,
            EscalationLevel::Terminated => Action::Terminate,
            EscalationLevel::Killed => Action::Kill,
        });
    }

    /// Gives up on a process that survived SIGKILL (stuck in the kernel), instead of waiting
    /// forever.
    fn abandon(&mut self) {
        let message = "The agent's process survived SIGKILL; it may be stuck in the kernel.";
        self.notice(Level::Error, NoticeCode::ProcessLeft, message);
        self.on_exited(&Exit::default(), None);
    }

    pub(super) fn on_exited(&mut self, exit: &Exit, blame: Option<TurnResult>) {
        if self.life.process().is_none() {
            return;
        }
        let ending = self.is_ending();
        if let Some(turn) = self.life.turn() {
            let result = blame.unwrap_or_else(|| TurnResult::new(turn.exit_outcome(exit)));
            let pending = self.close_turn(result);
            let reason = pending.as_ref().map(|pending| &pending.reason);
            if matches!(reason, Some(EndReason::Limit(_))) {
                // It exited when it was asked to end the turn.
                self.set_state(SessionState::Stopping);
            }
            if !ending && self.can_sleep() {
                return self.enter_sleep();
            }
        } else if !ending && self.can_sleep() {
            if self.life.is_unescalated() && self.capabilities.many_turns {
                self.report_unexpected_exit(exit);
            }
            return self.enter_sleep();
        } else if self.life.waits_for_background() && exit.code == Some(0) {
            // Its work was done, so the exit is not a failure.
            self.report_background_cut("were still running when it exited");
        } else if self.life.is_unescalated() {
            self.last_outcome = Some(turn::agent_died(exit)); // it was not asked to exit
        }
        self.drop_queue();
        let outcome = self.take_outcome();
        self.end(outcome, exit);
    }

    /// Ends the current turn, if there is one, and returns what was pending on it.
    pub(super) fn close_turn(&mut self, result: TurnResult) -> Option<Pending> {
        let turn = self.life.take_turn()?;
        self.finish_turn(*turn, result)
    }

    /// Reports the end of a turn, and returns what was pending on it.
    pub(super) fn finish_turn(&mut self, turn: Turn, result: TurnResult) -> Option<Pending> {
        self.close_tools();
        if self.background_tasks() == 0 {
            self.withdraw_all();
        }
        self.permissions.forget_undecided_calls();
        let closed = turn.close(result, |kind| {
            self.step.push(Effect::Emit {
                turn: self.turns,
                kind,
            });
        });
        if closed.ended.usage.is_some() {
            self.account.close(closed.used, closed.has_usage_report);
            self.emit_total();
        } else {
            self.account.close(closed.used, false);
        }
        // In a single-task session, turns that the agent adds can turn success into failure, but
        // not the reverse.
        let is_extra = self.after_turn == AfterTurn::End && closed.origin == Origin::Agent;
        if !(is_extra && closed.ended.outcome.is_success() && self.last_outcome.is_some()) {
            self.last_outcome = Some(closed.ended.outcome.clone());
        }
        let interruption = Interruption::of(&closed.ended.outcome);
        for request in closed.interrupts {
            self.step
                .complete(request, Completion::Interrupted(interruption));
        }
        self.step
            .push(Action::RecordTurn(closed.ended.outcome.clone()));
        self.emit(closed.ended);
        closed.pending
    }

    fn close_tools(&mut self) {
        for result in self.tools.close() {
            self.step.push(Effect::Emit {
                turn: self.turns,
                kind: result.into(),
            });
        }
    }

    /// Emits the session's new total.
    pub(super) fn emit_total(&mut self) {
        let total = self.account.total();
        let (money, tokens) = (total.cost_usd, total.total());
        self.emit(total);
        self.warn_budget_use(money, tokens);
    }

    pub(super) fn end(&mut self, outcome: Outcome, exit: &Exit) {
        self.drop_queue();
        self.close_tools();
        self.withdraw_all();
        self.refuse_open_changes();
        self.life = Life::Ended;
        self.publish_state();
        let usage = Some(self.account.total()).filter(|usage| usage.total().is_some());
        self.emit(Ended {
            outcome,
            exit_code: exit.code,
            signal: exit.signal,
            usage,
        });
    }
}
