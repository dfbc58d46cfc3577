//! Session budgets: money, tokens, turns and time. At 80 % a warning is emitted; at 100 % the turn
//! is interrupted and the session ends.

use std::time::Duration;

use super::turn::Pending;
use super::{Effect, Machine};
use crate::dialect::ToAgent;
use crate::event::{Level, Notice, SessionState};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;
use crate::usage::{Scope, Usage};

/// Warnings that were emitted.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    money: bool,
    tokens: bool,
    turns: bool,
    time: bool,
}

fn outcome(message: String, hint: &str) -> Outcome {
    Outcome::new(Cause::Budget, message).hint(hint)
}

const MORE_MONEY: &str = "Raise the budget (--max-budget-usd), or choose a smaller task.";
const MORE_TOKENS: &str = "Raise the budget (--max-tokens), or choose a smaller task.";
const MORE_TURNS: &str = "Allow more messages (--max-messages), or start another session.";
const MORE_TIME: &str = "Allow more time (--max-time), or start another session.";

impl Machine {
    pub(super) fn on_usage(&mut self, now: Duration, usage: &Usage, fx: &mut Vec<Effect>) {
        let Some(turn) = &self.current_turn else {
            if self.account.record_late(usage) {
                self.emit_total(fx);
                self.end_if_spent(now, fx);
            }
            return;
        };
        let before = self.account.total();
        let (money, tokens) = match usage.scope {
            Scope::Turn => {
                let tokens = turn.used.sum().and_then(|sum| sum.total());
                let money = turn
                    .used
                    .cost()
                    .map(|cost| before.cost_usd.unwrap_or(0.0) + cost);
                (
                    money,
                    tokens.map(|n| before.total().unwrap_or(0).saturating_add(n)),
                )
            }
            Scope::Session => (usage.cost_usd, usage.total()),
        };
        self.warn_budget_use(money, tokens, fx);
        if let Some(outcome) = self.exceeded_budget(money, tokens) {
            self.interrupt_with(now, outcome, fx);
        }
    }

    fn exceeded_budget(&self, money: Option<f64>, tokens: Option<u64>) -> Option<Outcome> {
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= limit
        {
            let message = format!("The session has cost ${spent:.4}; the budget is ${limit}.");
            return Some(outcome(message, MORE_MONEY));
        }
        let (tokens, limit) = (tokens?, self.limits.budget_tokens?);
        let message = format!("The session has used {tokens} tokens; the budget is {limit}.");
        (tokens >= limit).then(|| outcome(message, MORE_TOKENS))
    }

    /// Ends a session that waits for messages, once its money or tokens are used up. Returns true
    /// if it did.
    pub(super) fn end_if_spent(&mut self, now: Duration, fx: &mut Vec<Effect>) -> bool {
        let total = self.account.total();
        let spent = self.exceeded_budget(total.cost_usd, total.total());
        let idle = self.after_turn == AfterTurn::Wait
            && self.current_turn.is_none()
            && self.escalation.is_none();
        let Some(outcome) = spent.filter(|_| idle && self.state != SessionState::Ended) else {
            return false;
        };
        self.last_outcome = Some(outcome);
        self.close_input(now, fx);
        true
    }

    /// Interrupts the turn, and ends the session with it.
    fn interrupt_with(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.current_turn
            && turn.pending.is_none()
        {
            turn.pending = Some(Pending::Limit((
                Box::new(outcome),
                now.saturating_add(self.limits.grace),
            )));
            fx.push(Effect::Send(ToAgent::Interrupt));
        }
    }

    /// Warns once when 80 % of the money or of the tokens are used.
    pub(super) fn warn_budget_use(
        &mut self,
        money: Option<f64>,
        tokens: Option<u64>,
        fx: &mut Vec<Effect>,
    ) {
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= 0.8 * limit
            && !std::mem::replace(&mut self.warnings.money, true)
        {
            self.warn_budget(&format!("${spent:.4} of the ${limit} budget is used."), fx);
        }
        if let (Some(tokens), Some(limit)) = (tokens, self.limits.budget_tokens)
            && tokens >= four_fifths(limit)
            && !std::mem::replace(&mut self.warnings.tokens, true)
        {
            self.warn_budget(
                &format!("{tokens} of the {limit} budgeted tokens are used."),
                fx,
            );
        }
    }

    fn warn_budget(&self, message: &str, fx: &mut Vec<Effect>) {
        self.emit(Notice::new(Level::Warning, "budget_near", message), fx);
    }

    /// Returns true if the session may take no further message. In that case the message is
    /// refused, and the session ends unless a turn is in progress or a message is queued.
    pub(super) fn refuse_if_out_of_turns(&mut self, now: Duration, fx: &mut Vec<Effect>) -> bool {
        let Some(limit) = self.limits.budget_turns else {
            return false;
        };
        let taken = self
            .turns
            .saturating_add(u32::try_from(self.queue.len()).unwrap_or(u32::MAX));
        if taken < limit {
            if u64::from(taken) + 1 >= four_fifths(limit.into())
                && !std::mem::replace(&mut self.warnings.turns, true)
            {
                self.warn_budget(&format!("This is message {} of {limit}.", taken + 1), fx);
            }
            return false;
        }
        self.refuse(
            ("send", "budget"),
            &format!("the session has reached its limit of {limit} messages"),
            fx,
        );
        if self.current_turn.is_none() && self.queue.is_empty() {
            self.last_outcome = Some(outcome(
                format!("The session has reached its limit of {limit} messages."),
                MORE_TURNS,
            ));
            self.close_input(now, fx);
        }
        true
    }

    /// Returns when 80 % or all of the session's time will have passed.
    pub(super) fn budget_deadline(&self) -> Option<Duration> {
        let (since, limit) = (self.first_turn_at?, self.limits.budget_wall?);
        let part = if self.warnings.time {
            limit
        } else {
            limit.mul_f64(0.8)
        };
        let is_ending = self
            .current_turn
            .as_ref()
            .is_some_and(|turn| turn.pending.is_some());
        since
            .checked_add(part)
            .filter(|_| self.escalation.is_none() && !is_ending)
    }

    pub(super) fn check_time_budget(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.budget_deadline().is_none_or(|due| due > now) {
            return;
        }
        let limit = self.limits.budget_wall.unwrap_or_default();
        if !std::mem::replace(&mut self.warnings.time, true) {
            self.warn_budget(
                &format!("80 % of the session's time ({limit:?}) is used."),
                fx,
            );
        }
        if self.budget_deadline().is_none_or(|due| due > now) {
            return;
        }
        let outcome = outcome(
            format!("The session has reached its time limit of {limit:?}."),
            MORE_TIME,
        );
        if self.current_turn.is_some() {
            self.interrupt_with(now, outcome, fx);
        } else {
            self.last_outcome = Some(outcome);
            self.close_input(now, fx);
        }
    }
}

fn four_fifths(whole: u64) -> u64 {
    whole - whole / 5
}
