//! The way out of a session: stopping, killing, limits that were reached, and the ladder from "please" to SIGKILL.

use std::time::Duration;

use super::turn::{self, Pending, Turn};
use super::{Effect, Machine};
use crate::dialect::{Exit, ToAgent, TurnResult};
use crate::event::{Ended, Level, Notice, Origin, SessionState};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;

/// How far the ending of the agent has gone, and when it goes further.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ladder {
    step: Step,
    pub(super) until: Duration,
    pub(super) then: Then,
}

/// What comes after the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The session ends with it.
    End,
    /// The session waits for the next message.
    Sleep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
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
        self.thaw(now, fx); // what stands still can neither hear nor end
        self.end_with_process(fx);
        let until = now.saturating_add(self.limits.grace);
        match &mut self.open {
            Some(turn) if !matches!(turn.pending, Some(Pending::Stop(_) | Pending::Limit(_))) => {
                turn.pending = Some(Pending::Stop(until));
                fx.push(Effect::Send(ToAgent::Interrupt));
                self.go(SessionState::Stopping, fx);
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
        if let Some(turn) = &mut self.open
            && turn.pending.is_none()
        {
            turn.pending = Some(Pending::Stop(now.saturating_add(self.limits.grace)));
        }
        self.stop_lingering();
        if self.ladder.is_none_or(|l| l.step != Step::Killed) {
            self.escalate(now, (Step::Killed, Then::End), fx);
        }
    }

    /// A session whose agent was not started has nothing to end but itself.
    fn ends_unstarted(&mut self, fx: &mut Vec<Effect>) -> bool {
        let unstarted = self.spawned.is_none();
        if unstarted {
            let message = match self.turns {
                0 => "The session was stopped before the agent was started.",
                _ => "The session was stopped.",
            };
            let outcome = self
                .last
                .take()
                .unwrap_or_else(|| Outcome::new(Cause::Stopped, message));
            if self.turns > 0 {
                self.go(SessionState::Stopping, fx); // a process only sleeps: the same way out as with one
            }
            self.end(outcome, &Exit::default(), fx);
        }
        unstarted
    }

    /// A process that was to be followed by another is now the last.
    fn end_with_process(&mut self, fx: &mut Vec<Effect>) {
        if let Some(ladder) = &mut self.ladder {
            ladder.then = Then::End;
            self.go(SessionState::Stopping, fx);
        }
    }

    /// The caller does not wait for the agent's background tasks: the session did not end by itself.
    fn stop_lingering(&mut self) {
        if self.waits_for_background() {
            self.last = Some(turn::background_stopped());
        }
    }

    /// Messages that will not be delivered are named, never lost in silence.
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
        let silent = self.state == SessionState::Starting && self.ladder.is_none();
        // An agent that was asked nothing need not say anything.
        let asked = self
            .open
            .as_ref()
            .filter(|turn| !turn.awake)
            .map(Turn::last_heard)?;
        self.spawned?
            .max(asked)
            .checked_add(self.limits.startup?)
            .filter(|_| silent)
    }

    /// Whether only the agent's background tasks keep the session open.
    pub(super) fn waits_for_background(&self) -> bool {
        self.lingering && self.open.is_none() && self.ladder.is_none()
    }

    /// Background tasks are a part of the task, and its time is theirs.
    pub(super) fn linger_deadline(&self) -> Option<Duration> {
        self.since?
            .checked_add(self.limits.wall?)
            .filter(|_| self.waits_for_background())
    }

    pub(super) fn tick(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.frozen.is_none() {
            self.limits_due(now, fx);
        }
        if let Some(ladder) = self.ladder.filter(|l| l.until <= now) {
            match ladder.step {
                Step::InputClosed => self.escalate(now, (Step::Terminated, ladder.then), fx),
                Step::Terminated => self.escalate(now, (Step::Killed, ladder.then), fx),
                Step::Killed => self.abandon(now, fx),
            }
        }
    }

    fn limits_due(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.changes_due(now, fx);
        self.budget_due(now, fx);
        if self.linger_deadline().is_some_and(|d| d <= now) {
            self.cut_background("did not end in time", fx);
            self.close_input(now, fx);
        }
        if self.startup_deadline().is_some_and(|d| d <= now) {
            self.give_up_on_turn(now, turn::startup_limit(&self.limits), fx);
        }
        self.silence_due(now, fx);
        let may_be_silent = self.may_be_silent();
        if let Some(turn) = &mut self.open {
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

    fn cut_background(&self, why: &str, fx: &mut Vec<Effect>) {
        let message = format!(
            "{} background tasks of the agent {why} and are cut off.",
            self.background
        );
        self.emit(Notice::new(Level::Warning, "background_cut", message), fx);
    }

    /// The agent does not react: its turn ends here, and its process is told to end.
    fn give_up_on_turn(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        let mut pending = None;
        if self.open.is_some() {
            pending = self.close_turn(TurnResult::new(outcome), fx);
        } else {
            self.last = Some(outcome);
        }
        let then = if self.outlives(pending.as_ref()) {
            Then::Sleep
        } else {
            Then::End
        };
        if then == Then::End {
            self.drop_queue(fx);
        }
        if self.ladder.is_none() {
            fx.push(Effect::CloseInput);
            self.escalate(now, (Step::Terminated, then), fx);
        }
    }

    /// Whether the session goes on after a process that did not end its turn: not when the session was to be stopped.
    fn outlives(&self, pending: Option<&Pending>) -> bool {
        self.can_sleep() && matches!(pending, Some(Pending::Interrupt(_)))
    }

    /// The process is to end, and the session to go on.
    pub(super) fn end_process(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.escalate(now, (Step::InputClosed, Then::Sleep), fx);
    }

    /// Ends a process that is of no more use, without waiting for it to notice a closed input.
    pub(super) fn give_up_process(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.spawned.is_some() && self.ladder.is_none() {
            fx.push(Effect::CloseInput);
            self.escalate(now, (Step::Terminated, Then::Sleep), fx);
        }
    }

    pub(super) fn close_input(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.spawned.is_none() && self.ladder.is_none() {
            let outcome = self
                .last
                .take()
                .unwrap_or_else(|| Outcome::new(Cause::Stopped, "The session was stopped."));
            return self.end(outcome, &Exit::default(), fx); // there is no process whose input could be closed
        }
        if self.ladder.is_none_or(|ladder| ladder.then == Then::Sleep) {
            self.drop_queue(fx);
            self.escalate(now, (Step::InputClosed, Then::End), fx);
        }
    }

    fn escalate(&mut self, now: Duration, (step, then): (Step, Then), fx: &mut Vec<Effect>) {
        if then == Then::End {
            self.go(SessionState::Stopping, fx);
        }
        fx.push(match step {
            Step::InputClosed => Effect::CloseInput,
            Step::Terminated => Effect::Terminate,
            Step::Killed => Effect::Kill,
        });
        self.ladder = Some(Ladder {
            step,
            until: now.saturating_add(self.limits.grace),
            then,
        });
    }

    /// Even SIGKILL did not end it (a process stuck in the kernel): say so, and do not wait for ever.
    fn abandon(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        let message = "The agent's process did not end although it was killed; it may be stuck in the kernel.";
        self.emit(Notice::new(Level::Error, "process_left", message), fx);
        self.exited(now, (&Exit::default(), None), fx);
    }

    pub(super) fn exited(
        &mut self,
        now: Duration,
        (exit, blame): (&Exit, Option<TurnResult>),
        fx: &mut Vec<Effect>,
    ) {
        if self.spawned.is_none() && self.ladder.is_none() {
            return;
        }
        let ending = self.is_ending();
        if let Some(turn) = &self.open {
            let over = blame.unwrap_or_else(|| TurnResult::new(turn.cut_off(exit)));
            let pending = self.close_turn(over, fx);
            if matches!(pending, Some(Pending::Limit(_))) {
                self.go(SessionState::Stopping, fx); // it went when it was told to end the turn: no other way out
            }
            if !ending
                && self.can_sleep()
                && !matches!(pending, Some(Pending::Stop(_) | Pending::Limit(_)))
            {
                return self.asleep(now, fx);
            }
        } else if !ending && self.can_sleep() {
            if self.ladder.is_none() && self.capabilities.many_turns {
                self.gone(exit, fx);
            }
            return self.asleep(now, fx);
        } else if self.waits_for_background() && exit.code == Some(0) {
            self.cut_background("had not ended when it went", fx); // its work was done; that is how it went
        } else if self.ladder.is_none() {
            self.last = Some(turn::died(exit)); // it went while nobody asked it to
        }
        self.drop_queue(fx);
        let outcome = self
            .last
            .take()
            .unwrap_or_else(|| Outcome::new(Cause::Stopped, "The session was stopped."));
        self.end(outcome, exit, fx);
    }

    /// Ends the open turn, if there is one, and says what had been pending on it.
    pub(super) fn close_turn(&mut self, over: TurnResult, fx: &mut Vec<Effect>) -> Option<Pending> {
        let turn = self.open.take()?;
        self.close_tools(fx);
        if self.background == 0 {
            self.withdraw_all(fx);
        }
        self.permissions.forget_due();
        let closed = turn.close(over, |kind| {
            fx.push(Effect::Emit {
                turn: self.turns,
                kind,
            });
        });
        if closed.ended.usage.is_some() {
            self.account.close(closed.used, closed.accounted);
            self.tell_total(fx);
        } else {
            self.account.close(closed.used, false);
        }
        // In a task, what the agent does by itself afterwards can spoil the outcome, but not mend it.
        let aside = self.after_turn == AfterTurn::End && closed.origin == Origin::Agent;
        if !(aside && closed.ended.outcome.is_success() && self.last.is_some()) {
            self.last = Some(closed.ended.outcome.clone());
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

    /// The session's sum has changed.
    pub(super) fn tell_total(&mut self, fx: &mut Vec<Effect>) {
        let total = self.account.total();
        let (money, tokens) = (total.cost_usd, total.total());
        self.emit(total, fx);
        self.warn_of_spending(money, tokens, fx);
    }

    pub(super) fn end(&mut self, outcome: Outcome, exit: &Exit, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        self.close_tools(fx);
        self.withdraw_all(fx);
        self.changes_failed(fx);
        self.go(SessionState::Ended, fx);
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
