//! What a turn has used so far, per model.

use ostler_core::usage::{Tokens, Usage};

use super::prices::Price;
use super::reply::Spent;

/// What a turn has used so far.
#[derive(Debug, Default)]
pub(super) struct Bill {
    models: Vec<Part>,
    /// Whether an answer came without its counts.
    pub(super) incomplete: bool,
    /// Whether what an answer used is told with a later one.
    pub(super) open: bool,
    /// Whether an answer said what it cost, and not its tokens.
    uncounted: bool,
}

#[derive(Debug)]
struct Part {
    model: String,
    tokens: Tokens,
    cost: Cost,
}

/// A sum of money, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cost {
    Reported(f64),
    Estimated(f64),
    Unknown,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Reported(a), Self::Reported(b)) => Self::Reported(a + b),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Reported(a) | Self::Estimated(a), Self::Reported(b) | Self::Estimated(b)) => Self::Estimated(a + b),
        }
    }
}

impl Bill {
    /// Adds one answer.
    pub(super) fn add(&mut self, model: &str, spent: Option<Spent>, price: Option<Price>) {
        let Some(Spent { tokens, cost, estimate, counted }) = spent else {
            self.incomplete = true;
            return;
        };
        self.open = false;
        self.uncounted |= !counted;
        let cost = match (cost, estimate.or(price.map(|price| price.of(&tokens)))) {
            (Some(said), _) => Cost::Reported(said),
            (None, Some(estimate)) => Cost::Estimated(estimate),
            (None, None) => Cost::Unknown,
        };
        match self.models.iter_mut().find(|part| part.model == model) {
            Some(part) => {
                part.tokens = part.tokens.plus(&tokens);
                part.cost = part.cost.plus(cost);
            }
            None => self.models.push(Part { model: model.to_owned(), tokens, cost }),
        }
    }

    /// Whether what it has cost is known.
    pub(super) fn is_priced(&self) -> bool {
        !self.incomplete && !self.open && self.models.iter().all(|part| part.cost != Cost::Unknown)
    }

    /// Whether tokens are missing from it.
    pub(super) fn is_uncounted(&self) -> bool {
        self.incomplete || self.open || self.uncounted
    }

    /// What it has cost, if that is known.
    pub(super) fn cost(&self) -> Option<f64> {
        let known = |part: &Part| match part.cost {
            Cost::Reported(cost) | Cost::Estimated(cost) => cost,
            Cost::Unknown => 0.0,
        };
        self.is_priced().then(|| self.models.iter().map(known).sum())
    }

    /// The tokens that went in and came out.
    pub(super) fn tokens(&self) -> (u64, u64) {
        self.models.iter().fold((0, 0), |(input, output), part| {
            let Tokens { input: new, cache_read, cache_write, output: said, .. } = part.tokens;
            (input + new + cache_read + cache_write, output + said)
        })
    }

    /// The turn's usage per model.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.models
            .iter()
            .map(|part| {
                let usage = Usage::of(Some(part.model.clone()), part.tokens);
                match part.cost {
                    // What an answer without counts has cost is not in the sum.
                    _ if self.incomplete || self.open => usage,
                    Cost::Reported(cost) => usage.reported(cost),
                    Cost::Estimated(cost) => usage.estimated(cost),
                    Cost::Unknown => usage,
                }
            })
            .collect()
    }
}
