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
        // The input count includes cache reads and writes.
        sum.input += input.saturating_sub(read).saturating_sub(write);
        sum.cache_read += read;
        sum.cache_write += write;
        sum.output += output;
        sum.reasoning = call.reasoning.count().map_or(sum.reasoning, |more| {
            Some(sum.reasoning.unwrap_or(0) + more)
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
