//! Tokens: what Codex counts over a thread becomes what a turn used.

use std::collections::BTreeMap;

use ostler_core::usage::{Tokens, Usage};

use super::wire::{Counts, TokenUsage};

/// The counters of a conversation. A sub-agent has a thread of its own; what it uses belongs to the turn as well.
#[derive(Debug, Default)]
pub(super) struct Spend {
    threads: BTreeMap<String, Thread>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Thread {
    /// What it had used when the turn began.
    before: Option<Tokens>,
    total: Tokens,
}

impl Spend {
    /// A turn begins: what was used before is not its own.
    pub(super) fn turn_began(&mut self) {
        self.threads
            .values_mut()
            .for_each(|thread| thread.before = Some(thread.total));
    }

    /// Reads the counters of a thread. `in_turn` is false for what is repeated when a thread goes on.
    pub(super) fn hear(&mut self, thread: &str, usage: &TokenUsage<'_>, in_turn: bool) {
        let Some(total) = usage.total.map().map(tokens) else {
            return;
        };
        let last = usage.last.map().map(tokens).unwrap_or_default();
        let known = self.threads.entry(thread.to_owned()).or_default();
        known.total = total;
        // A thread that is heard for the first time in a turn had used before what is not of this call.
        known.before =
            Some(
                known
                    .before
                    .unwrap_or(if in_turn { total.since(&last) } else { total }),
            );
    }

    /// What the turn has used so far; none when nothing was heard.
    pub(super) fn turn(&self, model: Option<&String>) -> Option<Usage> {
        let own = |thread: &Thread| thread.total.since(&thread.before.unwrap_or_default());
        let sum = self.threads.values().map(own).reduce(|a, b| a.plus(&b))?;
        (!sum.is_zero()).then(|| Usage::of(model.cloned(), sum))
    }
}

/// Codex's counters as disjoint ones: its input contains what came from the cache and what went there.
pub(super) fn tokens(counts: &Counts<'_>) -> Tokens {
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

    fn heard(spend: &mut Spend, thread: &str, (total, last): (u64, u64), in_turn: bool) {
        let text = format!(
            r#"{{"total":{{"inputTokens":{total},"cachedInputTokens":1}},"last":{{"inputTokens":{last},"cachedInputTokens":1}}}}"#
        );
        spend.hear(thread, &serde_json::from_str(&text).unwrap(), in_turn);
    }

    fn input(spend: &Spend) -> Option<u64> {
        spend.turn(None).and_then(|usage| usage.input)
    }

    #[test]
    fn a_turn_has_only_its_own_tokens() {
        let mut spend = Spend::default();
        heard(&mut spend, "a", (500, 100), false);
        assert_eq!(
            input(&spend),
            None,
            "what a resumed thread repeats is no turn's"
        );
        spend.turn_began();
        heard(&mut spend, "a", (600, 100), true);
        heard(&mut spend, "a", (750, 150), true);
        assert_eq!(input(&spend), Some(250));
        heard(&mut spend, "child", (30, 30), true);
        assert_eq!(input(&spend), Some(279), "a sub-agent's belong to the turn");
        spend.turn_began();
        assert_eq!(input(&spend), None);
    }

    #[test]
    fn a_thread_that_was_never_heard_of_has_used_before_what_is_not_of_this_call() {
        let mut spend = Spend::default();
        spend.turn_began();
        heard(&mut spend, "a", (900, 100), true);
        assert_eq!(input(&spend), Some(99), "less the cached one");
    }
}
