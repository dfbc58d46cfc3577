//! Token usage of a turn. Agents count the turn, the session or only the last model call, and
//! report caches as part of the input or beside it.

use ostler_core::usage::{Scope, Tokens, Usage};

use super::quirks::{CountScope, Quirks};
use super::wire::{Cost, PromptResponse, Quota, QuotaCounts, TokenCounts};
use crate::lenient::Scalar;

/// Counters of a conversation.
#[derive(Debug)]
pub(super) struct UsageTracker {
    /// Counters of the session at the end of the last turn.
    before: Tokens,
    /// Cost of the session at the start of the turn, if known.
    cost_before: Option<f64>,
    /// Cost of the session so far.
    cost: Option<f64>,
    /// Usage of the model calls of this turn, for an agent that reports each one.
    calls: Option<Tokens>,
}

/// What is known of a turn's model calls.
#[derive(Debug)]
pub(super) struct TurnCalls {
    /// Whether there was only one.
    pub(super) one_call: bool,
    /// The session's model.
    pub(super) model: Option<String>,
}

impl UsageTracker {
    /// Creates the counters. What an earlier process spent on a resumed session is unknown.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            before: Tokens::default(),
            cost_before: None,
            cost: (!resumed).then_some(0.0),
            calls: None,
        }
    }

    /// Starts a turn.
    pub(super) fn begin_turn(&mut self) {
        self.cost_before = self.cost;
        self.calls = None;
    }

    /// Adds the usage of one model call.
    pub(super) fn on_model_call(&mut self, counted: &TokenCounts<'_>, quirks: &Quirks) {
        let new =
            tokens(counted, quirks.counts_overlap).filter(|_| quirks.counts == CountScope::Chunks);
        self.calls = match (self.calls, new) {
            (Some(sum), Some(new)) => Some(sum.plus(&new)),
            (sum, new) => new.or(sum),
        };
    }

    /// Updates the cost of the session so far.
    pub(super) fn on_cost(&mut self, cost: &Cost<'_>, trusted: bool) {
        if !trusted || cost.currency.text().is_some_and(|it| it != "USD") {
            return;
        }
        self.cost = cost
            .amount
            .amount()
            .filter(|amount| amount.is_finite())
            .or(self.cost);
    }

    /// Returns the usage of the turn, as far as the agent reports it.
    pub(super) fn turn_usage(
        &mut self,
        quirks: &Quirks,
        end: &PromptResponse<'_>,
        calls: TurnCalls,
    ) -> Vec<Usage> {
        let TurnCalls { one_call, model } = calls;
        let model = only_model(end).or(model);
        let counted = tokens(&end.usage, quirks.counts_overlap);
        // An interrupted turn has used something, although agents count nothing.
        let used = |it: Option<Tokens>| -> Vec<Usage> {
            let known = it.filter(|it| [it.input, it.cache_read, it.output] != [0; 3]);
            let usage = known.map(|it| Usage::for_turn(model.clone(), it));
            let reported = |it: Usage| {
                if quirks.reports_caches {
                    it
                } else {
                    Usage {
                        cache_read: None,
                        cache_write: None,
                        ..it
                    }
                }
            };
            usage.map(reported).into_iter().collect()
        };
        let mut usage = match quirks.counts {
            CountScope::Unknown => Vec::new(),
            CountScope::Quota => quota(&end.meta.quota),
            CountScope::Turn => used(counted),
            CountScope::Chunks => used(self.calls.take()),
            CountScope::Session => used(counted.map(|it| self.since(it))),
            // The usage of a turn with several calls is unknown.
            CountScope::LastRequest => used(counted.filter(|_| one_call)),
        };
        // Agents that do not know the price report zero, which means unknown.
        let cost = self
            .cost
            .zip(self.cost_before)
            .map(|(now, before)| now - before)
            .filter(|cost| *cost > 0.0);
        if let (Some(cost), true) = (cost, usage.len() <= 1) {
            let known = usage.pop().unwrap_or_else(|| Usage {
                model,
                ..Usage::unknown(Scope::Turn)
            });
            usage.push(known.reported(cost));
        }
        usage
    }

    fn since(&mut self, now: Tokens) -> Tokens {
        let new = now.since(&self.before);
        self.before = now;
        new
    }
}

/// Converts counters to Ostler's, which are disjoint. The total, if present, shows whether the
/// input includes caches and the output thoughts.
fn tokens(counted: &TokenCounts<'_>, counts_overlap: bool) -> Option<Tokens> {
    let or_none = |count: &Scalar<'_>| count.count().unwrap_or(0);
    let (input, output) = (
        counted.input_tokens.count()?,
        counted.output_tokens.count()?,
    );
    let (read, write) = (
        or_none(&counted.cached_read_tokens),
        or_none(&counted.cached_write_tokens),
    );
    let thoughts = counted.thought_tokens.count();
    let (reports_caches, thinking) = (read.saturating_add(write), thoughts.unwrap_or(0));
    let sum = |parts: &[u64]| {
        parts
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(*part))
    };
    let (caches_inside, thoughts_inside) = match counted.total_tokens.count() {
        Some(total) if total == sum(&[input, output]) => (true, true),
        Some(total) if total == sum(&[input, output, reports_caches, thinking]) => (false, false),
        Some(total) if total == sum(&[input, output, reports_caches]) => (false, true),
        Some(total) if total == sum(&[input, output, thinking]) => (true, false),
        _ => (counts_overlap, counts_overlap),
    };
    Some(Tokens {
        input: if caches_inside {
            input.saturating_sub(reports_caches)
        } else {
            input
        },
        cache_read: read,
        cache_write: write,
        output: if thoughts_inside {
            output
        } else {
            output.saturating_add(thinking)
        },
        reasoning: thoughts,
    })
}

/// Returns the model of a turn, if the agent reports it and there was only one.
fn only_model(end: &PromptResponse<'_>) -> Option<String> {
    let [row] = &*end.meta.quota.model_usage else {
        return None;
    };
    row.model.owned()
}

/// Reads counters that do not cover caches.
fn quota(quota: &Quota<'_>) -> Vec<Usage> {
    let usage = |model: Option<String>, counts: &QuotaCounts<'_>| {
        let (input, output) = (counts.input_tokens.count()?, counts.output_tokens.count()?);
        Some(Usage {
            model,
            input: Some(input),
            output: Some(output),
            ..Usage::unknown(Scope::Turn)
        })
    };
    let rows = quota.model_usage.iter();
    let models: Vec<Usage> = rows
        .filter_map(|row| usage(row.model.owned(), &row.token_count))
        .collect();
    if models.is_empty() {
        usage(None, &quota.token_count).into_iter().collect()
    } else {
        models
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::quirks::DEFAULT_QUIRKS;

    fn turn_calls(one_call: bool) -> TurnCalls {
        TurnCalls {
            one_call,
            model: None,
        }
    }

    fn spent(counts: CountScope, turns: &[(&str, bool)]) -> Vec<Vec<[Option<u64>; 5]>> {
        let (mut tracker, quirks) = (
            UsageTracker::new(false),
            Quirks {
                counts,
                ..DEFAULT_QUIRKS
            },
        );
        let numbers = |it: Usage| {
            [
                it.input,
                it.cache_read,
                it.cache_write,
                it.output,
                it.reasoning,
            ]
        };
        let turn = |(json, one): &(&str, bool)| {
            let end: PromptResponse<'_> = serde_json::from_str(json).unwrap();
            tracker
                .turn_usage(&quirks, &end, turn_calls(*one))
                .into_iter()
                .map(numbers)
                .collect()
        };
        turns.iter().map(turn).collect()
    }

    // Difference 2: the same two model calls, as five agents count them.
    #[test]
    fn every_count_scope_yields_the_turn_or_nothing() {
        const INSIDE: &str = r#"{"usage":{"inputTokens":100,"outputTokens":25,"totalTokens":125,"thoughtTokens":5,"cachedReadTokens":11,"cachedWriteTokens":0}}"#;
        const TWICE: &str = r#"{"usage":{"inputTokens":200,"outputTokens":50,"totalTokens":250,"thoughtTokens":10,"cachedReadTokens":22,"cachedWriteTokens":0}}"#;
        const OUTSIDE: &str = r#"{"usage":{"inputTokens":89,"outputTokens":20,"totalTokens":125,"thoughtTokens":5,"cachedReadTokens":11}}"#;
        const QUOTA: &str = r#"{"_meta":{"quota":{"token_count":{"input_tokens":9,"output_tokens":9},"model_usage":[{"model":"m","token_count":{"input_tokens":100,"output_tokens":25}}]}}}"#;
        const ZERO: &str = r#"{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}"#;
        let one = vec![[Some(89), Some(11), Some(0), Some(25), Some(5)]];
        assert_eq!(
            spent(CountScope::Turn, &[(INSIDE, true), (OUTSIDE, false)]),
            [one.clone(), one.clone()]
        );
        assert_eq!(
            spent(CountScope::Session, &[(INSIDE, true), (TWICE, true)]),
            [one.clone(), one.clone()]
        );
        assert_eq!(
            spent(
                CountScope::LastRequest,
                &[(OUTSIDE, true), (OUTSIDE, false), (ZERO, true)]
            ),
            [one, vec![], vec![]]
        );
        assert_eq!(
            spent(CountScope::Quota, &[(QUOTA, false), ("{}", true)]),
            [vec![[Some(100), None, None, Some(25), None]], vec![]]
        );
        assert!(
            spent(CountScope::Unknown, &[(INSIDE, true)])
                .concat()
                .is_empty()
        );
    }

    // Whether the input includes the caches, and the output the thoughts.
    #[test]
    fn the_total_shows_what_the_counts_include() {
        let read = |total: Option<u64>, overlap: bool| {
            let counts = serde_json::json!({
                "inputTokens": 100, "outputTokens": 20, "thoughtTokens": 5,
                "cachedReadTokens": 7, "cachedWriteTokens": 3, "totalTokens": total,
            });
            let counts = counts.to_string();
            let counted: TokenCounts<'_> = serde_json::from_str(&counts).unwrap();
            let tokens = tokens(&counted, overlap).unwrap();
            assert_eq!((tokens.cache_read, tokens.cache_write), (7, 3));
            (tokens.input, tokens.output)
        };
        for (total, expected) in [
            (120, (90, 20)),
            (125, (90, 25)),
            (130, (100, 20)),
            (135, (100, 25)),
        ] {
            for overlap in [true, false] {
                assert_eq!(read(Some(total), overlap), expected, "{total}");
            }
        }
        // Any other total shows nothing.
        for total in [None, Some(121), Some(0)] {
            assert_eq!(read(total, true), (90, 20), "{total:?}");
            assert_eq!(read(total, false), (100, 25), "{total:?}");
        }
    }

    // Calls add up within one turn and do not carry over into the next.
    #[test]
    fn usage_reported_per_call_is_added_up() {
        let quirks = Quirks {
            counts: CountScope::Chunks,
            ..DEFAULT_QUIRKS
        };
        let call: TokenCounts<'_> = serde_json::from_str(
            r#"{"inputTokens":118,"outputTokens":25,"totalTokens":143,"thoughtTokens":4,"cachedReadTokens":11}"#,
        )
        .unwrap();
        let mut tracker = UsageTracker::new(false);
        for calls in [2, 1, 0] {
            tracker.begin_turn();
            (0..calls).for_each(|_| tracker.on_model_call(&call, &quirks));
            let usage =
                tracker.turn_usage(&quirks, &PromptResponse::default(), turn_calls(calls == 1));
            let counted = usage
                .first()
                .map(|it| [it.input, it.cache_read, it.output, it.reasoning]);
            let expected = (calls > 0).then_some([107, 11, 25, 4].map(|count| Some(count * calls)));
            assert_eq!(counted, expected, "{calls}");
        }
        // If caches are not reported, they are unknown.
        let quirks = Quirks {
            counts: CountScope::Turn,
            reports_caches: false,
            ..DEFAULT_QUIRKS
        };
        let end: PromptResponse<'_> =
            serde_json::from_str(r#"{"usage":{"inputTokens":118,"outputTokens":25}}"#).unwrap();
        let usage = tracker.turn_usage(&quirks, &end, turn_calls(true));
        assert_eq!((usage[0].input, usage[0].cache_read), (Some(118), None));
    }

    #[test]
    fn on_cost_is_what_was_added_since_the_turn_began() {
        let spent = |resumed: bool, amounts: &[&str]| {
            let mut tracker = UsageTracker::new(resumed);
            let turn = |amount: &&str| {
                tracker.begin_turn();
                tracker.on_cost(&serde_json::from_str(amount).unwrap(), true);
                tracker
                    .turn_usage(
                        &DEFAULT_QUIRKS,
                        &PromptResponse::default(),
                        turn_calls(true),
                    )
                    .first()
                    .and_then(|it| it.cost_usd)
            };
            amounts.iter().map(turn).collect::<Vec<_>>()
        };
        let (half, one) = (
            r#"{"amount":0.5,"currency":"USD"}"#,
            r#"{"amount":1.0,"currency":"USD"}"#,
        );
        assert_eq!(
            spent(false, &[half, one, one]),
            [Some(0.5), Some(0.5), None]
        );
        assert_eq!(spent(true, &[half, one]), [None, Some(0.5)]);
        assert_eq!(
            spent(
                false,
                &[r#"{"amount":0}"#, r#"{"amount":2,"currency":"EUR"}"#]
            ),
            [None, None]
        );
    }
}
