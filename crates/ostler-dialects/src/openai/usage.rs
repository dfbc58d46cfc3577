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
    /// The sum of what is known; another part is not.
    Partial(f64),
    Unknown,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, Self::Unknown) => Self::Unknown,
            (Self::Reported(a), Self::Reported(b)) => Self::Reported(a + b),
            (Self::Reported(a) | Self::Estimated(a), Self::Reported(b) | Self::Estimated(b)) => {
                Self::Estimated(a + b)
            }
            (a, b) => Self::Partial(a.known().unwrap_or(0.0) + b.known().unwrap_or(0.0)),
        }
    }

    /// The part that is known.
    fn known(self) -> Option<f64> {
        match self {
            Self::Reported(cost) | Self::Estimated(cost) | Self::Partial(cost) => Some(cost),
            Self::Unknown => None,
        }
    }

    /// Returns true if nothing is missing from it.
    fn is_whole(self) -> bool {
        matches!(self, Self::Reported(_) | Self::Estimated(_))
    }
}

impl Bill {
    /// Adds one answer.
    pub(super) fn add(&mut self, model: &str, spent: Option<Spent>, price: Option<Price>) {
        let Some(Spent {
            tokens,
            cost,
            estimate,
            partial,
            counted,
        }) = spent
        else {
            self.incomplete = true;
            return;
        };
        self.open = false;
        self.uncounted |= !counted;
        let cost = match (
            cost,
            partial,
            estimate.or(price.map(|price| price.of(&tokens))),
        ) {
            (Some(said), ..) => Cost::Reported(said),
            (None, Some(partial), _) => Cost::Partial(partial),
            (None, None, Some(estimate)) => Cost::Estimated(estimate),
            (None, None, None) => Cost::Unknown,
        };
        match self.models.iter_mut().find(|part| part.model == model) {
            Some(part) => {
                part.tokens = part.tokens.plus(&tokens);
                part.cost = part.cost.plus(cost);
            }
            None => self.models.push(Part {
                model: model.to_owned(),
                tokens,
                cost,
            }),
        }
    }

    /// Whether what it has cost is known.
    pub(super) fn is_priced(&self) -> bool {
        !self.incomplete && !self.open && self.models.iter().all(|part| part.cost.is_whole())
    }

    /// Whether tokens are missing from it.
    pub(super) fn is_uncounted(&self) -> bool {
        self.incomplete || self.open || self.uncounted
    }

    /// What it has cost, if that is known.
    pub(super) fn cost(&self) -> Option<f64> {
        self.is_priced().then(|| {
            self.models
                .iter()
                .filter_map(|part| part.cost.known())
                .sum()
        })
    }

    /// The tokens that went in and came out.
    pub(super) fn tokens(&self) -> (u64, u64) {
        self.models.iter().fold((0, 0), |(input, output), part| {
            let Tokens {
                input: new,
                cache_read,
                cache_write,
                output: said,
                ..
            } = part.tokens;
            (input + new + cache_read + cache_write, output + said)
        })
    }

    /// The turn's usage per model.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.models
            .iter()
            .map(|part| {
                let usage = Usage::of(Some(part.model.clone()), part.tokens);
                match (part.cost, part.cost.known()) {
                    (_, None) => usage,
                    // What an answer without counts has cost is not in the sum.
                    (_, Some(known)) if self.incomplete || self.open => usage.partial(known),
                    (Cost::Reported(_), Some(cost)) => usage.reported(cost),
                    (Cost::Estimated(_), Some(cost)) => usage.estimated(cost),
                    (_, Some(known)) => usage.partial(known),
                }
            })
            .collect()
    }
}
