//! Session budgets: money, tokens, turns and time. At 80% a warning is emitted; at 100% the turn
//! is interrupted and the session ends. What other sessions use on behalf of this one counts too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::account::UsageByModel;
use super::turn::{EndReason, Pending};
use crate::dialect::ToAgent;
use crate::event::{Level, NoticeCode, RefusalCode, RequestKind};
use crate::outcome::{Cause, Outcome};
use crate::spec::AfterTurn;
use crate::usage::{Scope, Usage};

/// Money and tokens that other sessions used on behalf of this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// Cost in US dollars, as far as it is known.
    pub cost_usd: f64,
    /// Number of tokens, as far as it is known.
    pub tokens: u64,
}

impl Charge {
    /// Adds another charge to this sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    /// Adds this charge to the numbers of a session, which may be unknown.
    fn on_top_of(self, money: Option<f64>, tokens: Option<u64>) -> (Option<f64>, Option<u64>) {
        if self == Self::default() {
            return (money, tokens);
        }
        let sum = self.plus(Self {
            cost_usd: money.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
        });
        (Some(sum.cost_usd), Some(sum.tokens))
    }
}

/// Budget warnings that were already emitted.
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
    pub(super) fn on_usage(&mut self, usage: &Usage) {
        let Some(turn) = self.life.turn() else {
            if self.account.record_late(usage) {
                self.emit_total();
                self.end_if_spent();
            }
            return;
        };
        let (money, tokens) = match usage.scope {
            Scope::Turn => self.used_with(&turn.used),
            Scope::Session => (usage.cost_usd, usage.total()),
        };
        self.enforce_budget(money, tokens);
    }

    /// Replaces what others used on behalf of the session.
    pub(super) fn on_charge(&mut self, charge: Charge) {
        self.charged = charge;
        if let Some(turn) = self.life.turn() {
            let (money, tokens) = self.used_with(&turn.used);
            self.enforce_budget(money, tokens);
        } else {
            let total = self.account.total();
            self.warn_budget_use(total.cost_usd, total.total());
            self.end_if_spent();
        }
    }

    /// Returns the money and tokens of the earlier turns and this one.
    fn used_with(&self, turn: &UsageByModel) -> (Option<f64>, Option<u64>) {
        let before = self.account.total();
        let tokens = turn.sum().and_then(|sum| sum.total());
        let money = turn.cost();
        (
            money.map(|cost| before.cost_usd.unwrap_or(0.0) + cost),
            tokens.map(|n| before.total().unwrap_or(0).saturating_add(n)),
        )
    }

    /// Warns about, or interrupts, a turn with these sums of the session.
    fn enforce_budget(&mut self, money: Option<f64>, tokens: Option<u64>) {
        self.warn_budget_use(money, tokens);
        if let Some(outcome) = self.exceeded_budget(money, tokens) {
            self.interrupt_with(outcome);
        }
    }

    fn exceeded_budget(&self, money: Option<f64>, tokens: Option<u64>) -> Option<Outcome> {
        let (money, tokens) = self.charged.on_top_of(money, tokens);
        let who = match self.charged == Charge::default() {
            true => "The session has",
            false => "The session and its children have",
        };
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= limit
        {
            let message = format!("{who} cost ${spent:.4}; the budget is ${limit}.");
            return Some(outcome(message, MORE_MONEY));
        }
        let (tokens, limit) = (tokens?, self.limits.budget_tokens?);
        let message = format!("{who} used {tokens} tokens; the budget is {limit}.");
        (tokens >= limit).then(|| outcome(message, MORE_TOKENS))
    }

    /// Ends a session that waits for messages, once its money or tokens are used up. Returns true
    /// if it did.
    pub(super) fn end_if_spent(&mut self) -> bool {
        let total = self.account.total();
        let spent = self.exceeded_budget(total.cost_usd, total.total());
        let idle = self.after_turn == AfterTurn::Wait
            && !self.in_turn()
            && self.life.is_unescalated()
            && !self.has_ended();
        let Some(outcome) = spent.filter(|_| idle) else {
            return false;
        };
        self.last_outcome = Some(outcome);
        self.close_input();
        true
    }

    /// Interrupts the turn, and ends the session with it.
    fn interrupt_with(&mut self, outcome: Outcome) {
        if let Some(turn) = self.life.turn_mut()
            && turn.pending.is_none()
        {
            let until = self.step.after(self.limits.grace);
            turn.pending = Some(Pending::new(EndReason::Limit(Box::new(outcome)), until));
            self.step.push(ToAgent::Interrupt);
        }
    }

    /// Warns once when 80% of the money or of the tokens are used.
    pub(super) fn warn_budget_use(&mut self, money: Option<f64>, tokens: Option<u64>) {
        let (money, tokens) = self.charged.on_top_of(money, tokens);
        if let (Some(spent), Some(limit)) = (money, self.limits.budget_usd)
            && spent >= 0.8 * limit
            && !std::mem::replace(&mut self.warnings.money, true)
        {
            self.warn_budget(&format!("${spent:.4} of the ${limit} budget is used."));
        }
        if let (Some(tokens), Some(limit)) = (tokens, self.limits.budget_tokens)
            && tokens >= four_fifths(limit)
            && !std::mem::replace(&mut self.warnings.tokens, true)
        {
            self.warn_budget(&format!(
                "{tokens} of the {limit} budgeted tokens are used."
            ));
        }
    }

    fn warn_budget(&mut self, message: &str) {
        self.notice(Level::Warning, NoticeCode::BudgetNear, message);
    }

    /// Returns true if the session may take no further message. In that case the message is
    /// refused, and the session ends unless a turn is in progress or a message is queued.
    pub(super) fn refuse_if_out_of_turns(&mut self) -> bool {
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
                self.warn_budget(&format!("This is message {} of {limit}.", taken + 1));
            }
            return false;
        }
        self.refuse(
            RequestKind::Send,
            RefusalCode::Budget,
            &format!("the session has reached its limit of {limit} messages"),
        );
        if !self.in_turn() && self.queue.is_empty() {
            self.last_outcome = Some(outcome(
                format!("The session has reached its limit of {limit} messages."),
                MORE_TURNS,
            ));
            self.close_input();
        }
        true
    }

    /// Returns when 80% or all of the session's time will have passed.
    pub(super) fn budget_deadline(&self) -> Option<Duration> {
        let (since, limit) = (self.first_turn_at?, self.limits.budget_wall?);
        let part = if self.warnings.time {
            limit
        } else {
            limit.mul_f64(0.8)
        };
        since.checked_add(part).filter(|_| self.is_undisturbed())
    }

    pub(super) fn check_time_budget(&mut self) {
        if self.budget_deadline().is_none_or(|due| due > self.step.now) {
            return;
        }
        let limit = self.limits.budget_wall.unwrap_or_default();
        if !std::mem::replace(&mut self.warnings.time, true) {
            self.warn_budget(&format!("80% of the session's time ({limit:?}) is used."));
        }
        if self.budget_deadline().is_none_or(|due| due > self.step.now) {
            return;
        }
        let outcome = outcome(
            format!("The session has reached its time limit of {limit:?}."),
            MORE_TIME,
        );
        if self.in_turn() {
            self.interrupt_with(outcome);
        } else {
            self.last_outcome = Some(outcome);
            self.close_input();
        }
    }
}

fn four_fifths(whole: u64) -> u64 {
    whole - whole / 5
}
