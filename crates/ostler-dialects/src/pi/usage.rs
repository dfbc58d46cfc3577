//! Tokens and cost: pi reports them with each model message.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::usage::{Tokens, Usage};

use super::wire::{Message, MessageUsage};
use crate::lenient::Scalar;

/// Usage of the turn so far, per model.
#[derive(Debug, Default)]
pub(super) struct UsageTracker {
    models: BTreeMap<Option<String>, ModelUsage>,
}

/// Totals of one model's messages.
#[derive(Debug, Default)]
struct ModelUsage {
    tokens: Tokens,
    cost: f64,
}

impl UsageTracker {
    /// Adds a model message and emits the model's new total. A message without tokens, such as a
    /// failed one, is skipped.
    pub(super) fn on_message(&mut self, message: &Message<'_>, out: &mut Outbox) {
        let tokens = tokens(&message.usage);
        if tokens.is_zero() {
            return;
        }
        let cost = message.usage.cost.total.amount();
        let model = message.model_name();
        let sum = self.models.entry(model.clone()).or_default();
        sum.tokens = sum.tokens.plus(&tokens);
        sum.cost += cost.unwrap_or(0.0);
        out.event(sum.usage(model));
    }

    /// Returns the usage of the turn, per model.
    pub(super) fn total(&self) -> Vec<Usage> {
        let models = self.models.iter();
        models
            .map(|(model, sum)| sum.usage(model.clone()))
            .collect()
    }
}

impl ModelUsage {
    /// Returns the usage. A cost of zero counts as unknown: pi reports zero for every model without
    /// a price.
    fn usage(&self, model: Option<String>) -> Usage {
        let usage = Usage::for_turn(model, self.tokens);
        if self.cost > 0.0 {
            usage.reported(self.cost)
        } else {
            usage
        }
    }
}

/// Converts pi's counters. They are disjoint, and pi does not count reasoning separately.
fn tokens(usage: &MessageUsage<'_>) -> Tokens {
    let count = |counter: &Scalar<'_>| counter.count().unwrap_or(0);
    Tokens {
        input: count(&usage.input),
        cache_read: count(&usage.cache_read),
        cache_write: count(&usage.cache_write),
        output: count(&usage.output),
        reasoning: None,
    }
}
