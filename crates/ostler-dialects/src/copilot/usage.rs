//! Tokens: telemetry reports each model call once.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::usage::{Tokens, Usage};

use super::wire::Attributes;
use crate::lenient::Scalar;

/// Usage of the turn so far, per model.
#[derive(Debug, Default)]
pub(super) struct UsageTracker {
    models: BTreeMap<Option<String>, Tokens>,
    /// Finish reason of the last model call.
    pub(super) finish: Option<String>,
}

impl UsageTracker {
    /// Handles the telemetry of one call. Returns true if it contains token counts.
    pub(super) fn on_model_call(&mut self, call: &Attributes<'_>, out: &mut Outbox) -> bool {
        if call.operation.text() != Some("chat") {
            return false;
        }
        if let Some(reason) = call.finish_reasons.0.first().and_then(Scalar::owned) {
            self.finish = Some(reason);
        }
        let (Some(input), Some(output)) = (call.input.count(), call.output.count()) else {
            return false;
        };
        let (read, write) = (
            call.cache_read.count().unwrap_or(0),
            call.cache_write.count().unwrap_or(0),
        );
        let model = call.answered.owned().or_else(|| call.asked.owned());
        let sum = self.models.entry(model.clone()).or_default();
        *sum = sum.plus(&Tokens {
            // The input count includes cache reads and writes.
            input: input.saturating_sub(read).saturating_sub(write),
            cache_read: read,
            cache_write: write,
            output,
            reasoning: call.reasoning.count(),
        });
        out.event(Usage::for_turn(model, *sum));
        true
    }

    /// Returns the total usage of the turn, per model.
    pub(super) fn total(&self) -> Vec<Usage> {
        self.models
            .iter()
            .map(|(model, tokens)| Usage::for_turn(model.clone(), *tokens))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::usage::Scope;
    use serde_json::{Value, json};

    use super::*;

    fn call(tracker: &mut UsageTracker, change: &Value) -> bool {
        let mut call = json!({
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "asked",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.cache_read.input_tokens": 30,
            "gen_ai.usage.cache_creation.input_tokens": 5,
            "gen_ai.usage.output_tokens": 7,
        });
        for (key, value) in change.as_object().unwrap() {
            call[key] = value.clone();
        }
        let text = call.to_string();
        tracker.on_model_call(
            &serde_json::from_str(&text).unwrap(),
            &mut Outbox::default(),
        )
    }

    #[test]
    fn each_call_counts_once_with_disjoint_counters() {
        let mut tracker = UsageTracker::default();
        assert!(call(&mut tracker, &json!({})));
        let reasoned = json!({"gen_ai.usage.reasoning.output_tokens": 3});
        assert!(call(&mut tracker, &reasoned));
        let tokens = Tokens {
            input: 130,
            cache_read: 60,
            cache_write: 10,
            output: 14,
            reasoning: Some(3),
        };
        assert_eq!(
            tracker.total(),
            [Usage::for_turn(Some("asked".into()), tokens)]
        );
        assert!(call(&mut tracker, &reasoned));
        assert_eq!(tracker.total()[0].reasoning, Some(6));
        assert!(call(
            &mut tracker,
            &json!({"gen_ai.response.model": "answered"})
        ));
        let models: Vec<_> = tracker
            .total()
            .into_iter()
            .map(|usage| usage.model)
            .collect();
        assert_eq!(models, [Some("answered".into()), Some("asked".into())]);
        assert!(
            tracker
                .total()
                .iter()
                .all(|usage| usage.scope == Scope::Turn)
        );
    }

    #[test]
    fn only_a_model_call_with_both_counts_is_counted() {
        let mut tracker = UsageTracker::default();
        assert!(!call(
            &mut tracker,
            &json!({"gen_ai.operation.name": "execute_tool"})
        ));
        assert_eq!(tracker.finish, None);
        for missing in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
            let change = json!({missing: null, "gen_ai.response.finish_reasons": ["length"]});
            assert!(!call(&mut tracker, &change), "{missing}");
            assert_eq!(tracker.finish.as_deref(), Some("length"));
        }
        assert_eq!(tracker.total(), []);
        assert!(call(&mut tracker, &json!({})));
        assert_eq!(
            tracker.finish.as_deref(),
            Some("length"),
            "kept without a new one"
        );
    }

    #[test]
    fn absurd_counts_do_not_overflow() {
        let mut tracker = UsageTracker::default();
        let most = json!({
            "gen_ai.usage.input_tokens": u64::MAX,
            "gen_ai.usage.output_tokens": u64::MAX,
            "gen_ai.usage.reasoning.output_tokens": u64::MAX,
        });
        assert!(call(&mut tracker, &most) && call(&mut tracker, &most));
        let total = &tracker.total()[0];
        assert_eq!(
            (total.output, total.reasoning),
            (Some(u64::MAX), Some(u64::MAX))
        );
    }
}
