//! The way out of a session: stopping, killing, limits that were reached, and the ladder from "please" to SIGKILL.

use std::time::Duration;

use super::turn::{self, Pending};
use super::{Effect, Machine};
use crate::dialect::{Exit, Say, TurnOver};
use crate::event::{Ended, Level, Notice, SessionState};
use crate::outcome::{Cause, Outcome};

/// How far the ending of the agent has gone, and when it goes further.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ladder {
    step: Step,
    pub(super) until: Duration,
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
        if self.spawned.is_none() {
            self.end(
                Outcome::new(Cause::Stopped, "The session was stopped before the agent was started."),
                &Exit::default(),
                fx,
            );
            return;
        }
        let until = now + self.limits.grace;
        match &mut self.open {
            Some(turn) if !matches!(turn.pending, Some(Pending::Stop(_) | Pending::Limit(_))) => {
                turn.pending = Some(Pending::Stop(until));
                fx.push(Effect::Say(Say::Interrupt));
                self.go(SessionState::Stopping, fx);
            }
            Some(_) => {}
            None => self.close_input(now, fx),
        }
    }

    pub(super) fn kill(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        if self.spawned.is_none() {
            self.end(
                Outcome::new(Cause::Stopped, "The session was stopped before the agent was started."),
                &Exit::default(),
                fx,
            );
            return;
        }
        if let Some(turn) = &mut self.open
            && turn.pending.is_none()
        {
            turn.pending = Some(Pending::Stop(now + self.limits.grace));
        }
        if self.ladder.is_none_or(|l| l.step != Step::Killed) {
            self.climb(now, Step::Killed, fx);
        }
    }

    /// Messages that will not be delivered are named, never lost in silence.
    pub(super) fn drop_queue(&mut self, fx: &mut Vec<Effect>) {
        for _ in 0..self.queue.len() {
            self.refuse("send", "the session was stopped before the message was delivered", fx);
        }
        self.queue.clear();
    }

    pub(super) fn startup_deadline(&self) -> Option<Duration> {
        let silent = self.state == SessionState::Starting && self.ladder.is_none();
        silent.then_some(self.spawned? + self.limits.startup?)
    }

    /// Background tasks get as long as a turn.
    pub(super) fn linger_deadline(&self) -> Option<Duration> {
        let waiting = self.open.is_none() && self.ladder.is_none();
        waiting.then_some(self.lingering? + self.limits.wall?)
    }

    pub(super) fn tick(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.linger_deadline().is_some_and(|d| d <= now) {
            let message =
                format!("{} background tasks of the agent did not end in time and are cut off.", self.background);
            self.emit(Notice::new(Level::Warning, "background_cut", message), fx);
            self.close_input(now, fx);
        }
        if self.startup_deadline().is_some_and(|d| d <= now) {
            self.give_up_on_turn(now, turn::startup_limit(&self.limits), fx);
        }
        if let Some(turn) = &mut self.open {
            match turn.due(now, &self.limits) {
                Some(turn::Due::Limit(outcome)) => {
                    turn.pending = Some(Pending::Limit((Box::new(outcome), now + self.limits.grace)));
                    fx.push(Effect::Say(Say::Interrupt));
                }
                Some(turn::Due::NoAnswer(outcome)) => self.give_up_on_turn(now, outcome, fx),
                None => {}
            }
        }
        if let Some(ladder) = self.ladder.filter(|l| l.until <= now) {
            match ladder.step {
                Step::InputClosed => self.climb(now, Step::Terminated, fx),
                Step::Terminated => self.climb(now, Step::Killed, fx),
                Step::Killed => self.abandon(fx),
            }
        }
    }

    /// The agent does not react: its turn ends here, and its process is told to end.
    fn give_up_on_turn(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        if self.open.is_some() {
            self.close_turn(TurnOver::bare(outcome), fx);
        } else {
            self.last = Some(outcome);
        }
        self.drop_queue(fx);
        if self.ladder.is_none() {
            fx.push(Effect::CloseInput);
            self.climb(now, Step::Terminated, fx);
        }
    }

    pub(super) fn close_input(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.ladder.is_none() {
            self.drop_queue(fx);
            self.climb(now, Step::InputClosed, fx);
        }
    }

    fn climb(&mut self, now: Duration, step: Step, fx: &mut Vec<Effect>) {
        self.go(SessionState::Stopping, fx);
        fx.push(match step {
            Step::InputClosed => Effect::CloseInput,
            Step::Terminated => Effect::Terminate,
            Step::Killed => Effect::Kill,
        });
        self.ladder = Some(Ladder { step, until: now + self.limits.grace });
    }

    /// Even SIGKILL did not end it (a process stuck in the kernel): say so, and do not wait for ever.
    fn abandon(&mut self, fx: &mut Vec<Effect>) {
        let message = "The agent's process did not end although it was killed; it may be stuck in the kernel.";
        self.emit(Notice::new(Level::Error, "process_left", message), fx);
        self.exited(&Exit::default(), None, fx);
    }

    pub(super) fn exited(&mut self, exit: &Exit, blame: Option<TurnOver>, fx: &mut Vec<Effect>) {
        if self.spawned.is_none() && self.ladder.is_none() {
            return;
        }
        if self.open.is_some() {
            let over = blame.unwrap_or_else(|| TurnOver::bare(turn::died(exit)));
            self.close_turn(over, fx);
        } else if self.ladder.is_none() {
            self.last = Some(turn::died(exit)); // it went while nobody asked it to
        }
        self.drop_queue(fx);
        let outcome = self.last.take().unwrap_or_else(|| Outcome::new(Cause::Stopped, "The session was stopped."));
        self.end(outcome, exit, fx);
    }

    /// Ends the open turn, if there is one, and says what had been pending on it.
    pub(super) fn close_turn(&mut self, over: TurnOver, fx: &mut Vec<Effect>) -> Option<Pending> {
        let turn = self.open.take()?;
        let (ended, usage, pending) = turn.close(over, |what| {
            fx.push(Effect::Emit { turn: self.turns, what });
        });
        for part in &usage {
            self.usage.add(part);
        }
        if !usage.is_empty() {
            self.emit(self.usage.clone(), fx);
            self.warn_of_budget(self.usage.cost_usd.unwrap_or(0.0), fx);
        }
        self.last = Some(ended.outcome.clone());
        self.emit(ended, fx);
        pending
    }

    pub(super) fn end(&mut self, outcome: Outcome, exit: &Exit, fx: &mut Vec<Effect>) {
        self.drop_queue(fx);
        self.go(SessionState::Ended, fx);
        let usage = self.usage.total().is_some().then(|| self.usage.clone());
        self.emit(Ended { outcome, exit_code: exit.code, signal: exit.signal, usage }, fx);
    }
}
