//! Budgets of a session: money, tokens, turns, time. At four fifths a warning, at the end the turn is interrupted and the
//! session ended.

use std::time::Duration;

use super::turn::Pending;
use super::{Effect, Machine};
use crate::dialect::ToAgent;
use crate::event::{Level, Notice, SessionState};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;
use crate::usage::{Scope, Usage};

/// Which warnings were given.
#[derive(Debug, Default)]
pub(super) struct Warned {
    money: bool,
    tokens: bool,
    turns: bool,
    time: bool,
}

fn outcome(message: String, hint: &str) -> Outcome {
    Outcome::new(Cause::Budget, message).hint(hint)
}

const MORE_MONEY: &str = "Raise the budget (--max-budget-usd), or give a smaller task.";
const MORE_TOKENS: &str = "Raise the budget (--max-tokens), or give a smaller task.";
const MORE_TURNS: &str = "Allow more messages (--max-messages), or begin another session.";
const MORE_TIME: &str = "Allow the session more time (--max-time), or begin another one.";

impl Machine {
    pub(super) fn used(&mut self, now: Duration, usage: &Usage, fx: &mut Vec<Effect>) {
        let Some(turn) = &self.open else {
            if self.account.late(usage) {
                self.tell_total(fx);
                self.is_spent(now, fx);
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
        self.warn_of_spending(money, tokens, fx);
        if let Some(outcome) = self.overspent(money, tokens) {
            self.interrupt_for(now, outcome, fx);
        }
    }

    fn overspent(&self, money: Option<f64>, tokens: Option<u64>) -> Option<Outcome> {
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= limit
        {
            let message = format!("${spent:.4} are spent, the budget is ${limit}.");
            return Some(outcome(message, MORE_MONEY));
        }
        let (tokens, limit) = (tokens?, self.limits.budget_tokens?);
        let message = format!("The session has used {tokens} tokens, the budget is {limit}.");
        (tokens >= limit).then(|| outcome(message, MORE_TOKENS))
    }

    /// Whether nothing is left for another turn; if so, a session that waits for messages ends here.
    pub(super) fn is_spent(&mut self, now: Duration, fx: &mut Vec<Effect>) -> bool {
        let total = self.account.total();
        let spent = self.overspent(total.cost_usd, total.total());
        let idle =
            self.after_turn == AfterTurn::Wait && self.open.is_none() && self.ladder.is_none();
        let Some(outcome) = spent.filter(|_| idle && self.state != SessionState::Ended) else {
            return false;
        };
        self.last = Some(outcome);
        self.close_input(now, fx);
        true
    }

    /// The turn ends for this reason, and with it the session.
    fn interrupt_for(&mut self, now: Duration, outcome: Outcome, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.open
            && turn.pending.is_none()
        {
            turn.pending = Some(Pending::Limit((
                Box::new(outcome),
                now.saturating_add(self.limits.grace),
            )));
            fx.push(Effect::Send(ToAgent::Interrupt));
        }
    }

    /// Once four fifths of the money or the tokens are spent, a warning, once each.
    pub(super) fn warn_of_spending(
        &mut self,
        money: Option<f64>,
        tokens: Option<u64>,
        fx: &mut Vec<Effect>,
    ) {
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= 0.8 * limit
            && !std::mem::replace(&mut self.warned.money, true)
        {
            self.budget_near(
                &format!("${spent:.4} of the budget of ${limit} is spent."),
                fx,
            );
        }
        if let (Some(tokens), Some(limit)) = (tokens, self.limits.budget_tokens)
            && tokens >= fifths(limit)
            && !std::mem::replace(&mut self.warned.tokens, true)
        {
            self.budget_near(
                &format!("{tokens} of the budget of {limit} tokens are used."),
                fx,
            );
        }
    }

    fn budget_near(&self, message: &str, fx: &mut Vec<Effect>) {
        self.emit(Notice::new(Level::Warning, "budget_near", message), fx);
    }

    /// Whether another message is more than the session may take; if so, it is refused and the session ends.
    pub(super) fn is_out_of_turns(&mut self, now: Duration, fx: &mut Vec<Effect>) -> bool {
        let Some(limit) = self.limits.budget_turns else {
            return false;
        };
        let taken = self
            .turns
            .saturating_add(u32::try_from(self.queue.len()).unwrap_or(u32::MAX));
        if taken < limit {
            if u64::from(taken) + 1 >= fifths(limit.into())
                && !std::mem::replace(&mut self.warned.turns, true)
            {
                self.budget_near(&format!("This is message {} of {limit}.", taken + 1), fx);
            }
            return false;
        }
        self.refuse(
            ("send", "budget"),
            &format!("the session may take {limit} messages, and has"),
            fx,
        );
        if self.open.is_none() && self.queue.is_empty() {
            self.last = Some(outcome(
                format!("The session has taken {limit} messages, as many as it may."),
                MORE_TURNS,
            ));
            self.close_input(now, fx);
        }
        true
    }

    /// The next moment at which the session's time is four fifths gone, or gone.
    pub(super) fn budget_deadline(&self) -> Option<Duration> {
        let (since, limit) = (self.since?, self.limits.budget_wall?);
        let part = if self.warned.time {
            limit
        } else {
            limit.mul_f64(0.8)
        };
        let is_ending = self
            .open
            .as_ref()
            .is_some_and(|turn| turn.pending.is_some());
        since
            .checked_add(part)
            .filter(|_| self.ladder.is_none() && !is_ending)
    }

    pub(super) fn budget_due(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.budget_deadline().is_none_or(|due| due > now) {
            return;
        }
        let limit = self.limits.budget_wall.unwrap_or_default();
        if !std::mem::replace(&mut self.warned.time, true) {
            self.budget_near(
                &format!("Four fifths of the session's time ({limit:?}) are gone."),
                fx,
            );
        }
        if self.budget_deadline().is_none_or(|due| due > now) {
            return;
        }
        let outcome = outcome(
            format!("The session's time of {limit:?} is over."),
            MORE_TIME,
        );
        if self.open.is_some() {
            self.interrupt_for(now, outcome, fx);
        } else {
            self.last = Some(outcome);
            self.close_input(now, fx);
        }
    }
}

fn fifths(whole: u64) -> u64 {
    whole - whole / 5
}
