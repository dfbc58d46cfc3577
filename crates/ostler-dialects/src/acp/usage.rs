//! What a turn used: agents count the turn, the session or only the last call of the model, and put caches in or beside.

use ostler_core::usage::{Scope, Tokens, Usage};

use super::quirks::{Counts, Quirks};
use super::wire::{Cost, Counts as Counted, Prompted, Quota, QuotaCounts};
use crate::lenient::{Node, Scalar};

/// What was counted so far.
#[derive(Debug)]
pub(super) struct Spend {
    /// The counters of the session when the last turn ended.
    before: Tokens,
    /// What the session had cost when the turn began, as far as it is known.
    cost_before: Option<f64>,
    /// What the session has cost.
    cost: Option<f64>,
    /// What the calls of the model have used in this turn, of an agent that tells each.
    calls: Option<Tokens>,
}

impl Spend {
    /// What an earlier process spent on a session is not known.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            before: Tokens::default(),
            cost_before: None,
            cost: (!resumed).then_some(0.0),
            calls: None,
        }
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.cost_before = self.cost;
        self.calls = None;
    }

    /// Takes what one call of the model has used.
    pub(super) fn called(&mut self, counted: &Counted<'_>, quirks: &Quirks) {
        let new = tokens(counted, quirks.inside).filter(|_| quirks.counts == Counts::Chunks);
        self.calls = match (self.calls, new) {
            (Some(sum), Some(new)) => Some(sum.plus(&new)),
            (sum, new) => new.or(sum),
        };
    }

    /// Takes what the session has cost so far.
    pub(super) fn money(&mut self, cost: &Node<'_, Cost<'_>>, trusted: bool) {
        let Some(cost) = cost
            .map()
            .filter(|cost| trusted && cost.currency.text().is_none_or(|it| it == "USD"))
        else {
            return;
        };
        self.cost = cost
            .amount
            .amount()
            .filter(|amount| amount.is_finite())
            .or(self.cost);
    }

    /// What the turn used, as far as the agent says it.
    pub(super) fn of_turn(
        &mut self,
        quirks: &Quirks,
        end: &Prompted<'_>,
        (one_call, model): (bool, Option<String>),
    ) -> Vec<Usage> {
        let model = only_model(end).or(model);
        let counted = end.usage.map().and_then(|it| tokens(it, quirks.inside));
        // A turn that was cut short has used something, and agents count nothing.
        let used = |it: Option<Tokens>| -> Vec<Usage> {
            let known = it.filter(|it| [it.input, it.cache_read, it.output] != [0; 3]);
            let usage = known.map(|it| Usage::of(model.clone(), it));
            let told = |it: Usage| {
                if quirks.caches {
                    it
                } else {
                    Usage {
                        cache_read: None,
                        cache_write: None,
                        ..it
                    }
                }
            };
            usage.map(told).into_iter().collect()
        };
        let mut usage = match quirks.counts {
            Counts::Unknown => Vec::new(),
            Counts::Quota => quota(end.meta.map().and_then(|meta| meta.quota.map())),
            Counts::Turn => used(counted),
            Counts::Chunks => {
                let sum = self.calls.take();
                used(sum)
            }
            Counts::Session => {
                let new = counted.map(|it| self.since(it));
                used(new)
            }
            // Of a turn with several calls it is not known.
            Counts::LastRequest => used(counted.filter(|_| one_call)),
        };
        // An agent that knows no price says zero; that is not known either.
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

/// Brings counters into ours, which are disjoint. Whether caches and thoughts are inside, the sum says, if it is there.
fn tokens(counted: &Counted<'_>, inside: bool) -> Option<Tokens> {
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
    let (caches, thinking) = (read.saturating_add(write), thoughts.unwrap_or(0));
    let sum = |parts: &[u64]| {
        parts
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(*part))
    };
    let (caches_inside, thoughts_inside) = match counted.total_tokens.count() {
        Some(total) if total == sum(&[input, output]) => (true, true),
        Some(total) if total == sum(&[input, output, caches, thinking]) => (false, false),
        Some(total) if total == sum(&[input, output, caches]) => (false, true),
        Some(total) if total == sum(&[input, output, thinking]) => (true, false),
        _ => (inside, inside),
    };
    Some(Tokens {
        input: if caches_inside {
            input.saturating_sub(caches)
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

/// The model that a turn was spent on, where the agent says it and there was one only.
fn only_model(end: &Prompted<'_>) -> Option<String> {
    let rows = &end.meta.map()?.quota.map()?.model_usage.0;
    let [row] = rows.as_slice() else { return None };
    row.map()?.model.owned()
}

/// Counters that say nothing about caches.
fn quota(quota: Option<&Quota<'_>>) -> Vec<Usage> {
    let usage = |model: Option<String>, counts: &QuotaCounts<'_>| {
        let (input, output) = (counts.input_tokens.count()?, counts.output_tokens.count()?);
        Some(Usage {
            model,
            input: Some(input),
            output: Some(output),
            ..Usage::unknown(Scope::Turn)
        })
    };
    let Some(quota) = quota else {
        return Vec::new();
    };
    let rows = quota.model_usage.0.iter().filter_map(Node::map);
    let models: Vec<Usage> = rows
        .filter_map(|row| usage(row.model.owned(), row.token_count.map()?))
        .collect();
    if models.is_empty() {
        quota
            .token_count
            .map()
            .and_then(|it| usage(None, it))
            .into_iter()
            .collect()
    } else {
        models
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::quirks::PLAIN;

    fn spent(counts: Counts, turns: &[(&str, bool)]) -> Vec<Vec<[Option<u64>; 5]>> {
        let (mut spend, quirks) = (Spend::new(false), Quirks { counts, ..PLAIN });
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
            let end: Prompted<'_> = serde_json::from_str(json).unwrap();
            spend
                .of_turn(&quirks, &end, (*one, None))
                .into_iter()
                .map(numbers)
                .collect()
        };
        turns.iter().map(turn).collect()
    }

    // Difference 2: the same two calls of a model, as five agents count them.
    #[test]
    fn every_way_to_count_gives_the_turn_or_nothing() {
        const INSIDE: &str = r#"{"usage":{"inputTokens":100,"outputTokens":25,"totalTokens":125,"thoughtTokens":5,"cachedReadTokens":11,"cachedWriteTokens":0}}"#;
        const TWICE: &str = r#"{"usage":{"inputTokens":200,"outputTokens":50,"totalTokens":250,"thoughtTokens":10,"cachedReadTokens":22,"cachedWriteTokens":0}}"#;
        const OUTSIDE: &str = r#"{"usage":{"inputTokens":89,"outputTokens":20,"totalTokens":125,"thoughtTokens":5,"cachedReadTokens":11}}"#;
        const QUOTA: &str = r#"{"_meta":{"quota":{"token_count":{"input_tokens":9,"output_tokens":9},"model_usage":[{"model":"m","token_count":{"input_tokens":100,"output_tokens":25}}]}}}"#;
        const ZERO: &str = r#"{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}"#;
        let one = vec![[Some(89), Some(11), Some(0), Some(25), Some(5)]];
        assert_eq!(
            spent(Counts::Turn, &[(INSIDE, true), (OUTSIDE, false)]),
            [one.clone(), one.clone()]
        );
        assert_eq!(
            spent(Counts::Session, &[(INSIDE, true), (TWICE, true)]),
            [one.clone(), one.clone()]
        );
        assert_eq!(
            spent(
                Counts::LastRequest,
                &[(OUTSIDE, true), (OUTSIDE, false), (ZERO, true)]
            ),
            [one, vec![], vec![]]
        );
        assert_eq!(
            spent(Counts::Quota, &[(QUOTA, false), ("{}", true)]),
            [vec![[Some(100), None, None, Some(25), None]], vec![]]
        );
        assert!(
            spent(Counts::Unknown, &[(INSIDE, true)])
                .concat()
                .is_empty()
        );
    }

    // The calls of one turn; what the next one uses is its own.
    #[test]
    fn calls_that_are_told_one_by_one_are_added_up() {
        let quirks = Quirks {
            counts: Counts::Chunks,
            ..PLAIN
        };
        let call: Counted<'_> = serde_json::from_str(
            r#"{"inputTokens":118,"outputTokens":25,"totalTokens":143,"thoughtTokens":4,"cachedReadTokens":11}"#,
        )
        .unwrap();
        let mut spend = Spend::new(false);
        for calls in [2, 1, 0] {
            spend.begin();
            (0..calls).for_each(|_| spend.called(&call, &quirks));
            let usage = spend.of_turn(&quirks, &Prompted::default(), (calls == 1, None));
            let told = usage
                .first()
                .map(|it| [it.input, it.cache_read, it.output, it.reasoning]);
            let expected = (calls > 0).then_some([107, 11, 25, 4].map(|count| Some(count * calls)));
            assert_eq!(told, expected, "{calls}");
        }
        // Where caches are not told, nothing is said about them.
        let quirks = Quirks {
            counts: Counts::Turn,
            caches: false,
            ..PLAIN
        };
        let end: Prompted<'_> =
            serde_json::from_str(r#"{"usage":{"inputTokens":118,"outputTokens":25}}"#).unwrap();
        let usage = spend.of_turn(&quirks, &end, (true, None));
        assert_eq!((usage[0].input, usage[0].cache_read), (Some(118), None));
    }

    #[test]
    fn money_is_what_was_added_since_the_turn_began() {
        let spent = |resumed: bool, amounts: &[&str]| {
            let mut spend = Spend::new(resumed);
            let turn = |amount: &&str| {
                spend.begin();
                spend.money(&serde_json::from_str(amount).unwrap(), true);
                spend
                    .of_turn(&PLAIN, &Prompted::default(), (true, None))
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
