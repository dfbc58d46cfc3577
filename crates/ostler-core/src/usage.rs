//! Token usage and cost: disjoint counters, counted once, absent where unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens and cost of a turn or session. The counters are disjoint: their sum is what was
/// processed.
#[must_use]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// What the numbers cover. A later event with the same scope and model replaces an earlier one.
    pub scope: Scope,
    /// The model; null when several were used.
    pub model: Option<String>,
    /// Input tokens not read from a cache.
    pub input: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_write: Option<u64>,
    /// Output tokens, including reasoning.
    pub output: Option<u64>,
    /// Reasoning tokens, a part of the output.
    pub reasoning: Option<u64>,
    /// Cost in US dollars; a lower bound if `cost_source` is `partial`.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from.
    pub cost_source: CostSource,
}

/// What the numbers of a [`Usage`] cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The turn so far.
    Turn,
    /// The session so far.
    Session,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The agent reported it.
    Reported,
    /// Computed from a price list.
    Estimated,
    /// Known only in part: the cost is a lower bound.
    Partial,
    /// Unknown, which is not zero.
    Unknown,
}

impl Usage {
    /// Creates a usage without any known number.
    pub fn unknown(scope: Scope) -> Self {
        Self {
            scope,
            model: None,
            input: None,
            cache_read: None,
            cache_write: None,
            output: None,
            reasoning: None,
            cost_usd: None,
            cost_source: CostSource::Unknown,
        }
    }

    /// Creates a usage of one turn on one model, with unknown cost.
    pub fn for_turn(model: Option<String>, tokens: Tokens) -> Self {
        Self {
            model,
            input: Some(tokens.input),
            cache_read: Some(tokens.cache_read),
            cache_write: Some(tokens.cache_write),
            output: Some(tokens.output),
            reasoning: tokens.reasoning,
            ..Self::unknown(Scope::Turn)
        }
    }

    /// Sets a cost that the agent reported.
    pub fn reported(mut self, cost_usd: f64) -> Self {
        self.cost_usd = Some(cost_usd);
        self.cost_source = CostSource::Reported;
        self
    }

    /// Sets a cost computed from a price list.
    pub fn estimated(mut self, cost_usd: f64) -> Self {
        self.cost_usd = Some(cost_usd);
        self.cost_source = CostSource::Estimated;
        self
    }

    /// Sets a cost that covers only a part of the usage.
    pub fn partial(mut self, cost_usd: f64) -> Self {
        self.cost_usd = Some(cost_usd);
        self.cost_source = CostSource::Partial;
        self
    }

    /// Adds `other` to this sum. A counter that is unknown on one side is taken from the other. The
    /// cost stays `reported` only if both parts are, and becomes a lower bound if one part is
    /// unknown.
    pub fn add(&mut self, other: &Self) {
        let first = *self == Self::unknown(self.scope);
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.model = if first || self.model == other.model {
            other.model.clone()
        } else {
            None
        };
        self.input = sum(self.input, other.input);
        self.cache_read = sum(self.cache_read, other.cache_read);
        self.cache_write = sum(self.cache_write, other.cache_write);
        self.output = sum(self.output, other.output);
        self.reasoning = sum(self.reasoning, other.reasoning);
        self.cost_source = match (first, self.cost_source, other.cost_source) {
            (true, _, source) => source,
            (false, a, b) if a == b => a,
            (
                false,
                CostSource::Reported | CostSource::Estimated,
                CostSource::Reported | CostSource::Estimated,
            ) => CostSource::Estimated,
            _ => CostSource::Partial,
        };
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }

    /// Returns the sum of all tokens, or `None` if no counter is known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        [self.input, self.cache_read, self.cache_write, self.output]
            .into_iter()
            .flatten()
            .reduce(u64::saturating_add)
    }
}

/// Token counters of one message, or of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens not read from a cache.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Reasoning tokens, a part of the output, if known.
    pub reasoning: Option<u64>,
}

impl Tokens {
    /// Returns true if every counter is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.input == 0 && self.cache_read == 0 && self.cache_write == 0 && self.output == 0
    }

    /// Returns the difference from `earlier`, which turns a cumulative counter into that of one
    /// turn.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            cache_read: self.cache_read.saturating_sub(earlier.cache_read),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
            output: self.output.saturating_sub(earlier.output),
            reasoning: self
                .reasoning
                .map(|r| r.saturating_sub(earlier.reasoning.unwrap_or(0))),
        }
    }

    /// Returns the sum of two counters.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
            reasoning: match (self.reasoning, other.reasoning) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            },
        }
    }
}

/// Sums up the messages of a turn while it runs. An agent repeats a message's counters on several
/// lines as they grow; the last values per message id count.
#[derive(Debug, Default)]
pub struct Messages {
    by_id: BTreeMap<String, Tokens>,
}

impl Messages {
    /// Records a message's current counters.
    pub fn note(&mut self, id: &str, tokens: Tokens) {
        match self.by_id.get_mut(id) {
            // An output count never shrinks: a line that repeats the value from the start of the
            // message is outdated.
            Some(known) => {
                *known = Tokens {
                    output: tokens.output.max(known.output),
                    ..tokens
                }
            }
            None => {
                self.by_id.insert(id.to_owned(), tokens);
            }
        }
    }

    /// Returns the sum over all messages.
    #[must_use]
    pub fn total(&self) -> Tokens {
        self.by_id
            .values()
            .fold(Tokens::default(), |sum, t| sum.plus(t))
    }

    /// Removes all messages, for the next turn.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }
}

#[cfg(test)]
mod tests;
