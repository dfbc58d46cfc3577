//! Usage of a turn, per model.

use ostler_core::usage::{CostSource, Tokens, Usage};

use crate::prices::Price;

/// Usage of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct TurnUsage {
    models: Vec<Usage>,
    /// Whether an answer came without token counts.
    pub(crate) incomplete: bool,
    /// Whether usage of an answer is still to be reported with a later one.
    pub(crate) open: bool,
    /// Whether an answer reported its cost but not its tokens.
    uncounted: bool,
}

/// Tokens that count towards the limits of a turn.
pub(crate) struct CountedTokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl TurnUsage {
    /// Adds the usage of one answer. `model` is the one that answered, where the usage has none.
    pub(crate) fn add(&mut self, answer: &[Usage], model: &str, price: Option<Price>) {
        if answer.is_empty() {
            self.incomplete = true;
            return;
        }
        self.open = false;
        for usage in answer {
            if usage.total().is_none() && usage.cost_usd.is_none() {
                self.incomplete = true;
                continue;
            }
            self.uncounted |= usage.total().is_none();
            let name = usage.model.as_deref().unwrap_or(model);
            let usage = Usage {
                model: Some(name.to_owned()),
                ..priced(usage.clone(), price)
            };
            match self
                .models
                .iter_mut()
                .find(|known| known.model == usage.model)
            {
                Some(known) => known.add(&usage),
                None => self.models.push(usage),
            }
        }
    }

    /// Returns true if the cost is known.
    pub(crate) fn is_priced(&self) -> bool {
        let is_whole = |usage: &Usage| {
            matches!(
                usage.cost_source,
                CostSource::Reported | CostSource::Estimated
            )
        };
        !self.incomplete && !self.open && self.models.iter().all(is_whole)
    }

    /// Returns true if tokens are missing.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.incomplete || self.open || self.uncounted
    }

    /// Returns the cost, if known.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.is_priced()
            .then(|| self.models.iter().filter_map(|usage| usage.cost_usd).sum())
    }

    /// Returns the input and output tokens.
    pub(crate) fn tokens(&self) -> CountedTokens {
        let sum = |count: fn(&Usage) -> Option<u64>| {
            let counts = self.models.iter().filter_map(count);
            counts.fold(0, u64::saturating_add)
        };
        CountedTokens {
            input: sum(input_tokens),
            output: sum(|usage| usage.output),
        }
    }

    /// Returns the usage per model.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        // Sums that lack the cost of an answer are lower bounds.
        let lacks = self.incomplete || self.open;
        let shown = |usage: &Usage| match usage.cost_usd {
            Some(known) if lacks => usage.clone().partial(known),
            _ => usage.clone(),
        };
        self.models.iter().map(shown).collect()
    }
}

/// Returns the tokens of the prompt, cached or not, or `None` if no counter is known.
fn input_tokens(usage: &Usage) -> Option<u64> {
    Usage {
        output: None,
        ..usage.clone()
    }
    .total()
}

/// Estimates the cost from a price, if it is unknown and the tokens are not.
pub(crate) fn priced(usage: Usage, price: Option<Price>) -> Usage {
    match price {
        Some(price) if usage.cost_source == CostSource::Unknown && usage.total().is_some() => {
            let cost = price.of(&Tokens {
                input: usage.input.unwrap_or(0),
                cache_read: usage.cache_read.unwrap_or(0),
                cache_write: usage.cache_write.unwrap_or(0),
                output: usage.output.unwrap_or(0),
                reasoning: usage.reasoning,
            });
            usage.estimated(cost)
        }
        _ => usage,
    }
}

#[cfg(test)]
mod tests;
