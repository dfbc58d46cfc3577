//! Usage of a turn, per model.

use ostler_core::usage::{Tokens, Usage};

use super::prices::Price;
use super::reply::ReplyUsage;

/// Usage of a turn so far.
#[derive(Debug, Default)]
pub(super) struct TurnUsage {
    models: Vec<Part>,
    /// Whether an answer came without token counts.
    pub(super) incomplete: bool,
    /// Whether usage of an answer is still to be reported with a later one.
    pub(super) open: bool,
    /// Whether an answer reported its cost but not its tokens.
    uncounted: bool,
}

#[derive(Debug)]
struct Part {
    model: String,
    tokens: Tokens,
    cost: Cost,
}

/// A cost, or why it is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cost {
    Reported(f64),
    Estimated(f64),
    /// Sum of the known parts; another part is unknown.
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

    /// Returns the known part.
    fn known(self) -> Option<f64> {
        match self {
            Self::Reported(cost) | Self::Estimated(cost) | Self::Partial(cost) => Some(cost),
            Self::Unknown => None,
        }
    }

    /// Returns true if no part is unknown.
    fn is_whole(self) -> bool {
        matches!(self, Self::Reported(_) | Self::Estimated(_))
    }
}

impl TurnUsage {
    /// Adds one answer.
    pub(super) fn add(&mut self, model: &str, usage: Option<ReplyUsage>, price: Option<Price>) {
        let Some(ReplyUsage {
            tokens,
            cost,
            estimate,
            partial,
            counted,
        }) = usage
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
            (Some(cost_usd), ..) => Cost::Reported(cost_usd),
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

    /// Returns true if the cost is known.
    pub(super) fn is_priced(&self) -> bool {
        !self.incomplete && !self.open && self.models.iter().all(|part| part.cost.is_whole())
    }

    /// Returns true if tokens are missing.
    pub(super) fn is_uncounted(&self) -> bool {
        self.incomplete || self.open || self.uncounted
    }

    /// Returns the cost, if known.
    pub(super) fn cost(&self) -> Option<f64> {
        self.is_priced().then(|| {
            self.models
                .iter()
                .filter_map(|part| part.cost.known())
                .sum()
        })
    }

    /// Returns the input and output tokens.
    pub(super) fn tokens(&self) -> (u64, u64) {
        self.models.iter().fold((0, 0), |(input, output), part| {
            let Tokens {
                input: new,
                cache_read,
                cache_write,
                output: cost_usd,
                ..
            } = part.tokens;
            (input + new + cache_read + cache_write, output + cost_usd)
        })
    }

    /// Returns the usage per model.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.models
            .iter()
            .map(|part| {
                let usage = Usage::for_turn(Some(part.model.clone()), part.tokens);
                match (part.cost, part.cost.known()) {
                    (_, None) => usage,
                    // The sum lacks the cost of answers without counts.
                    (_, Some(known)) if self.incomplete || self.open => usage.partial(known),
                    (Cost::Reported(_), Some(cost)) => usage.reported(cost),
                    (Cost::Estimated(_), Some(cost)) => usage.estimated(cost),
                    (_, Some(known)) => usage.partial(known),
                }
            })
            .collect()
    }
}
