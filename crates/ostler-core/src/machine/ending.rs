//! The end of a session: stop, kill, limits, and the escalation from closing stdin to SIGKILL.

use std::time::Duration;

use super::turn::{self, Pending, Turn};
use super::{Effect, Machine};
use crate::dialect::{Exit, ToAgent, TurnResult};
use crate::event::{Ended, Level, Notice, Origin, SessionState};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;

/// How far the agent's process has been asked to end, and when the next step is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escalation {
    step: EscalationStep,
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
pub(super) enum EscalationStep {
    InputClosed,
    Terminated,
    Killed,
}

impl Machine {
    pub(super) fn stop(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        if self.ends_unstarted(fx) {
            return;
        }
        self.thaw(now, fx); // a suspended process can neither receive anything nor exit
        self.end_with_process(fx);
        let until = now.saturating_add(self.limits.grace);
        match &mut self.current_turn {
            Some(turn) if !matches!(turn.pending, Some(Pending::Stop(_) | Pending::Limit(_))) => {
                turn.pending = Some(Pending::Stop(until));
                fx.push(Effect::Send(ToAgent::Interrupt));
                self.set_state(SessionState::Stopping, fx);
            }
            Some(_) => {}
            None => {
                self.stop_lingering();
                self.close_input(now, fx);
            }
        }
    }

    pub(super) fn kill(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        if self.ends_unstarted(fx) {
            return;
        }
        self.thaw(now, fx);
        self.end_with_process(fx);
        if let Some(turn) = &mut self.current_turn
            && turn.pending.is_none()
        {
            turn.pending = Some(Pending::Stop(now.saturating_add(self.limits.grace)));
        }
        self.stop_lingering();
        if self
            .escalation
            .is_none_or(|escalation| escalation.step != EscalationStep::Killed)
        {
            self.escalate(now, (EscalationStep::Killed, AfterExit::EndSession), fx);
        }
    }

    /// Ends a session whose agent has no process. Returns true if it did.
    fn ends_unstarted(&mut self, fx: &mut Vec<Effect>) -> bool {
        let unstarted = self.spawned_at.is_none();
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
                // The process only sleeps: same states as with a process.
                self.set_state(SessionState::Stopping, fx);
            }
            self.end(outcome, &Exit::default(), fx);
        }
        unstarted
    }

    /// Makes the session end with the process that is being ended.
    fn end_with_process(&mut self, fx: &mut Vec<Effect>) {
        if let Some(escalation) = &mut self.escalation {
            escalation.after_exit = AfterExit::EndSession;
            self.set_state(SessionState::Stopping, fx);
        }
    }

    /// Records that the caller stopped the session while it waited for background tasks.
    fn stop_lingering(&mut self) {
        if self.waits_for_background() {
            self.last_outcome = Some(turn::background_stopped());
        }
    }

    /// Refuses every queued message, so that none is lost silently.
    pub(super) fn drop_queue(&mut self, fx: &mut Vec<Effect>) {
        for _ in 0..self.queue.len() {
            self.refuse(
                ("send", "ending"),
                "the session was stopped before the message was delivered",
                fx,
            );
        }
        self.queue.clear();
    }

    pub(super) fn startup_deadline(&self) -> Option<Duration> {
        let silent = self.state == SessionState::Starting && self.escalation.is_none();
        // Without a prompt, the agent need not print anything.
        let asked = self
            .current_turn
            .as_ref()
            .filter(|turn| !turn.awake)
            .map(Turn::last_heard)?;
        self.spawned_at?
            .max(asked)
            .checked_add(self.limits.startup?)
            .filter(|_| silent)
    }

    /// Returns true if only the agent's background tasks hold the session open.
    pub(super) fn waits_for_background(&self) -> bool {
        self.lingering && self.current_turn.is_none() && self.escalation.is_none()
    }

    /// Returns when background tasks run out of time. They are part of the task and count towards
    /// its time limit.
    pub(super) fn linger_deadline(&self) -> Option<Duration> {
        self.first_turn_at?
            .checked_add(self.limits.wall?)
            .filter(|_| self.waits_for_background())
    }

    pub(super) fn tick(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.frozen_since.is_none() {
            self.check_limits(now, fx);
        }
        if let Some(escalation) = self.escalation.filter(|escalation| escalation.until <= now) {
            match escalation.step {
                EscalationStep::InputClosed => {
                    self.escalate(now, (EscalationStep::Terminated, escalation.after_exit), fx);
                }
                EscalationStep::Terminated => {
                    self.escalate(now, (EscalationStep::Killed, escalation.after_exit), fx);
                }
                EscalationStep::Killed => self.abandon(now, fx),
            }
        }
    }

    fn check_limits(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.check_change_timeouts(now, fx);
        self.check_time_budget(now, fx);
        if self.linger_deadline().is_some_and(|d| d <= now) {
            self.report_background_cut("did not end in time", fx);
            self.close_input(now, fx);
        }
        if self.startup_deadline().is_some_and(|d| d <= now) {
            self.give_up_on_turn(now, turn::startup_limit(&self.limits), fx);
        }
        self.check_heartbeat(now, fx);
        let may_be_silent = self.may_be_silent();
        if let Some(turn) = &mut self.current_turn {
            match turn.due(now, &self.limits, may_be_silent) {
                Some(turn::Due::Limit(outcome)) => {
                    turn.pending = Some(Pending::Limit((
                        Box::new(outcome),
                        now.saturating_add(self.limits.grace),
                    )));
                    fx.push(Effect::Send(ToAgent::Interrupt));
                }
                Some(turn::Due::NoAnswer(outcome)) => self.give_up_on_turn(now, outcome, fx),
                None => {}
            }
        }
    }

    fn report_background_cut(&self, why: &str, fx: &mut Vec<Effect>) {
        let message = format!(
            "{} background tasks of the agent {why} and were cut off.",
            self.background_tasks
        );
        self.emit(Notice::new(Level::Warning, "background_cut", message), fx);
    }

    /// Ends the turn of an agent that does not respond, and terminates its process.
    fn give_up_on_turn(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        let mut pending = None;
        if self.current_turn.is_some() {
            pending = self.close_turn(TurnResult::new(outcome), fx);
        } else {
            self.last_outcome = Some(outcome);
        }
        let after_exit = if self.survives_process(pending.as_ref()) {
            AfterExit::Sleep
        } else {
            AfterExit::EndSession
        };
        if after_exit == AfterExit::EndSession {
            self.drop_queue(fx);
        }
        if self.escalation.is_none() {
            fx.push(Effect::CloseInput);
            self.escalate(now, (EscalationStep::Terminated, after_exit), fx);
        }
    }

    /// Returns true if the session survives a process that did not end its turn, because only the
    /// turn was interrupted.
    fn survives_process(&self, pending: Option<&Pending>) -> bool {
        self.can_sleep() && matches!(pending, Some(Pending::Interrupt(_)))
    }

    /// Ends the process; the session continues.
    pub(super) fn end_process(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.escalate(now, (EscalationStep::InputClosed, AfterExit::Sleep), fx);
    }

    /// Terminates a process that is of no further use, without waiting for it to notice its closed
    /// stdin.
    pub(super) fn terminate_process(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.spawned_at.is_some() && self.escalation.is_none() {
            fx.push(Effect::CloseInput);
            self.escalate(now, (EscalationStep::Terminated, AfterExit::Sleep), fx);
        }
    }

    pub(super) fn close_input(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.spawned_at.is_none() && self.escalation.is_none() {
            let outcome = self
                .last_outcome
                .take()
                .unwrap_or_else(|| Outcome::new(Cause::Stopped, "The session was stopped."));
            return self.end(outcome, &Exit::default(), fx); // no process, so no stdin to close
        }
        if self
            .escalation
            .is_none_or(|escalation| escalation.after_exit == AfterExit::Sleep)
        {
            self.drop_queue(fx);
            self.escalate(
                now,
                (EscalationStep::InputClosed, AfterExit::EndSession),
                fx,
            );
        }
    }

    fn escalate(
        &mut self,
        now: Duration,
        (step, after_exit): (EscalationStep, AfterExit),
        fx: &mut Vec<Effect>,
    ) {
        if after_exit == AfterExit::EndSession {
            self.set_state(SessionState::Stopping, fx);
        }
        fx.push(match step {
            EscalationStep::InputClosed => Effect::CloseInput,
            EscalationStep::Terminated => Effect::Terminate,
            EscalationStep::Killed => Effect::Kill,
        });
        self.escalation = Some(Escalation {
            step,
            until: now.saturating_add(self.limits.grace),
            after_exit,
        });
    }

    /// Gives up on a process that survived SIGKILL (stuck in the kernel), instead of waiting
    /// forever.
    fn abandon(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        let message = "The agent's process survived SIGKILL; it may be stuck in the kernel.";
        self.emit(Notice::new(Level::Error, "process_left", message), fx);
        self.on_exited(now, (&Exit::default(), None), fx);
    }

    pub(super) fn on_exited(
        &mut self,
        now: Duration,
        (exit, blame): (&Exit, Option<TurnResult>),
        fx: &mut Vec<Effect>,
    ) {
        if self.spawned_at.is_none() && self.escalation.is_none() {
            return;
        }
        let ending = self.is_ending();
        if let Some(turn) = &self.current_turn {
            let result = blame.unwrap_or_else(|| TurnResult::new(turn.exit_outcome(exit)));
            let pending = self.close_turn(result, fx);
            if matches!(pending, Some(Pending::Limit(_))) {
                self.set_state(SessionState::Stopping, fx); // it exited when asked to end the turn
            }
            if !ending
                && self.can_sleep()
                && !matches!(pending, Some(Pending::Stop(_) | Pending::Limit(_)))
            {
                return self.enter_sleep(now, fx);
            }
        } else if !ending && self.can_sleep() {
            if self.escalation.is_none() && self.capabilities.many_turns {
                self.report_unexpected_exit(exit, fx);
            }
            return self.enter_sleep(now, fx);
        } else if self.waits_for_background() && exit.code == Some(0) {
            // Its work was done, so the exit is not a failure.
            self.report_background_cut("were still running when it exited", fx);
        } else if self.escalation.is_none() {
            self.last_outcome = Some(turn::agent_died(exit)); // it was not asked to exit
        }
        self.drop_queue(fx);
        let outcome = self
            .last_outcome
            .take()
            .unwrap_or_else(|| Outcome::new(Cause::Stopped, "The session was stopped."));
        self.end(outcome, exit, fx);
    }

    /// Ends the current turn, if there is one, and returns what was pending on it.
    pub(super) fn close_turn(
        &mut self,
        result: TurnResult,
        fx: &mut Vec<Effect>,
    ) -> Option<Pending> {
        let turn = self.current_turn.take()?;
        self.close_tools(fx);
        if self.background_tasks == 0 {
            self.withdraw_all(fx);
        }
        self.permissions.forget_undecided_calls();
        let closed = turn.close(result, |kind| {
            fx.push(Effect::Emit {
                turn: self.turns,
                kind,
            });
        });
        if closed.ended.usage.is_some() {
            self.account.close(closed.used, closed.has_usage_report);
            self.emit_total(fx);
        } else {
            self.account.close(closed.used, false);
        }
        // In a single-task session, turns that the agent adds can turn success into failure, but
        // not the reverse.
        let is_extra = self.after_turn == AfterTurn::End && closed.origin == Origin::Agent;
        if !(is_extra && closed.ended.outcome.is_success() && self.last_outcome.is_some()) {
            self.last_outcome = Some(closed.ended.outcome.clone());
        }
        self.emit(closed.ended, fx);
        closed.pending
    }

    fn close_tools(&mut self, fx: &mut Vec<Effect>) {
        for result in self.tools.close() {
            fx.push(Effect::Emit {
                turn: self.turns,
                kind: result.into(),
            });
        }
    }

    /// Emits the session's new total.
    pub(super) fn emit_total(&mut self, fx: &mut Vec<Effect>) {
        let total = self.account.total();
        let (money, tokens) = (total.cost_usd, total.total());
        self.emit(total, fx);
        self.warn_budget_use(money, tokens, fx);
    }

    pub(super) fn end(&mut self, outcome: Outcome, exit: &Exit, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        self.close_tools(fx);
        self.withdraw_all(fx);
        self.refuse_open_changes(fx);
        self.set_state(SessionState::Ended, fx);
        let usage = Some(self.account.total()).filter(|usage| usage.total().is_some());
        self.emit(
            Ended {
                outcome,
                exit_code: exit.code,
                signal: exit.signal,
                usage,
            },
            fx,
        );
    }
}
