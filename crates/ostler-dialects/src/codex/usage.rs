//! Token usage: converts Codex's counters of a thread to the usage of a turn.

use std::collections::BTreeMap;

use ostler_core::usage::{Tokens, Usage};

use super::wire::{TokenCounts, TokenUsage};

/// Counters of a conversation. A sub-agent has its own thread, whose usage also belongs to the
/// turn.
#[derive(Debug, Default)]
pub(super) struct UsageTracker {
    threads: BTreeMap<String, Thread>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Thread {
    /// Usage at the start of the turn.
    before: Option<Tokens>,
    total: Tokens,
}

impl UsageTracker {
    /// Starts a turn. Earlier usage does not count towards it.
    pub(super) fn begin_turn(&mut self) {
        self.threads
            .values_mut()
            .for_each(|thread| thread.before = Some(thread.total));
    }

    /// Updates the counters of a thread. `in_turn` is false for counters that are repeated when a
    /// thread is resumed.
    pub(super) fn on_counts(&mut self, thread: &str, usage: &TokenUsage<'_>, in_turn: bool) {
        let Some(total) = usage.total.map().map(tokens) else {
            return;
        };
        let last = usage.last.map().map(tokens).unwrap_or_default();
        let known = self.threads.entry(thread.to_owned()).or_default();
        known.total = total;
        // For a thread first seen in a turn, everything except this call was used before the turn.
        known.before =
            Some(
                known
                    .before
                    .unwrap_or(if in_turn { total.since(&last) } else { total }),
            );
    }

    /// Returns the usage of the turn so far, or `None` if none was reported.
    pub(super) fn turn_usage(&self, model: Option<&String>) -> Option<Usage> {
        let in_turn = |thread: &Thread| thread.total.since(&thread.before.unwrap_or_default());
        let sum = self
            .threads
            .values()
            .map(in_turn)
            .reduce(|a, b| a.plus(&b))?;
        (!sum.is_zero()).then(|| Usage::for_turn(model.cloned(), sum))
    }
}

/// Converts Codex's counters to disjoint ones: its input includes tokens read from and written to
/// the cache.
pub(super) fn tokens(counts: &TokenCounts<'_>) -> Tokens {
    let of = |it: &crate::lenient::Scalar<'_>| it.count().unwrap_or(0);
    let (cache_read, cache_write) = (
        of(&counts.cached_input_tokens),
        of(&counts.cache_write_input_tokens),
    );
    Tokens {
        input: of(&counts.input_tokens)
            .saturating_sub(cache_read)
            .saturating_sub(cache_write),
        cache_read,
        cache_write,
        output: of(&counts.output_tokens),
        reasoning: counts.reasoning_output_tokens.count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tracker: &mut UsageTracker, thread: &str, counts: [u64; 2], in_turn: bool) {
        let [total, last] = counts;
        let text = format!(
            r#"{{"total":{{"inputTokens":{total},"cachedInputTokens":1}},"last":{{"inputTokens":{last},"cachedInputTokens":1}}}}"#
        );
        tracker.on_counts(thread, &serde_json::from_str(&text).unwrap(), in_turn);
    }

    fn input(tracker: &UsageTracker) -> Option<u64> {
        tracker.turn_usage(None).and_then(|usage| usage.input)
    }

    #[test]
    fn turn_counts_only_its_own_tokens() {
        let mut tracker = UsageTracker::default();
        report(&mut tracker, "a", [500, 100], false);
        assert_eq!(
            input(&tracker),
            None,
            "counters repeated on resume belong to no turn"
        );
        tracker.begin_turn();
        report(&mut tracker, "a", [600, 100], true);
        report(&mut tracker, "a", [750, 150], true);
        assert_eq!(input(&tracker), Some(250));
        report(&mut tracker, "child", [30, 30], true);
        assert_eq!(
            input(&tracker),
            Some(279),
            "a sub-agent's tokens belong to the turn"
        );
        tracker.begin_turn();
        assert_eq!(input(&tracker), None);
    }

    #[test]
    fn new_thread_counts_only_its_last_call() {
        let mut tracker = UsageTracker::default();
        tracker.begin_turn();
        report(&mut tracker, "a", [900, 100], true);
        assert_eq!(input(&tracker), Some(99), "without the cached one");
    }

    #[test]
    fn counters_become_disjoint() {
        for (text, expected) in [
            (
                r#"{"inputTokens":100,"cachedInputTokens":30,"cacheWriteInputTokens":5,
                    "outputTokens":7,"reasoningOutputTokens":3}"#,
                [65, 30, 5, 7, 3],
            ),
            (
                r#"{"inputTokens":10,"cachedInputTokens":30,"reasoningOutputTokens":0}"#,
                [0, 30, 0, 0, 0],
            ),
        ] {
            let [input, cache_read, cache_write, output, reasoning] = expected;
            let expected = Tokens {
                input,
                cache_read,
                cache_write,
                output,
                reasoning: Some(reasoning),
            };
            assert_eq!(
                tokens(&serde_json::from_str(text).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_turn_without_counters_has_no_usage() {
        let mut tracker = UsageTracker::default();
        assert_eq!(tracker.turn_usage(None), None);
        tracker.on_counts("a", &serde_json::from_str("{}").unwrap(), true);
        assert_eq!(tracker.turn_usage(None), None, "no total");
        report(&mut tracker, "a", [100, 100], true);
        let model = "m".to_owned();
        let usage = tracker.turn_usage(Some(&model)).unwrap();
        assert_eq!((usage.model, usage.input), (Some(model), Some(99)));
    }
}
