//! Tokens and cost of a turn, from whichever of four sources is most complete.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::usage::{Messages, Tokens, Usage};

use super::wire::{self, ClaudeLine};
use crate::lenient::{Node, Scalar, Table};

/// Usage counters of a session.
#[derive(Debug, Default)]
pub(super) struct UsageTracker {
    /// Messages of the current turn, per model ("" if unknown).
    live: BTreeMap<String, Messages>,
    /// Latest counters of each message. The end of a message repeats only the output count.
    latest: BTreeMap<String, Tokens>,
    /// Id and model of messages that have not ended. Their final output count is unknown.
    open: BTreeSet<(String, String)>,
    /// Session counters per model at the last result.
    before: PerModel,
    /// Session cost at the last result.
    cost_before: f64,
    /// Model of the session.
    model: Option<String>,
    /// Whether the session counters may include an earlier process. A resumed session carries them
    /// over, and the amount is unknown until the first result.
    inherited: bool,
}

impl UsageTracker {
    /// Creates empty counters. `resumed` is true if the session continues an earlier one.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            inherited: resumed,
            ..Self::default()
        }
    }

    /// Sets the model that the agent reported.
    pub(super) fn set_model(&mut self, model: Option<&str>) {
        self.model = model.map(str::to_owned);
    }

    /// Updates the counters of a message.
    pub(super) fn update(&mut self, id: &str, model: Option<&str>, counted: &wire::Tokens<'_>) {
        let latest = self.latest.entry(id.to_owned()).or_default();
        let tokens = counts(counted, latest);
        *latest = tokens;
        let model = model.unwrap_or_default().to_owned();
        self.open.insert((id.to_owned(), model.clone()));
        self.live.entry(model).or_default().note(id, tokens);
    }

    /// Records the final counters of a message.
    pub(super) fn ended(&mut self, id: &str, model: Option<&str>, counted: &wire::Tokens<'_>) {
        self.update(id, model, counted);
        self.open
            .remove(&(id.to_owned(), model.unwrap_or_default().to_owned()));
    }

    /// Emits the usage of the current turn so far for a model.
    pub(super) fn emit_live(&self, model: Option<&str>, out: &mut Outbox) {
        if let Some(messages) = self.live.get(model.unwrap_or_default()) {
            out.event(Usage::for_turn(model.map(str::to_owned), messages.total()));
        }
    }

    /// Takes the usage of a turn that ended without a `result`. Its cost is unknown.
    pub(super) fn unfinished(&mut self) -> Vec<Usage> {
        self.latest.clear();
        let open = std::mem::take(&mut self.open);
        std::mem::take(&mut self.live)
            .into_iter()
            .map(|(model, messages)| (model, messages.total()))
            .filter(|(_, tokens)| !tokens.is_zero())
            .map(|(model, tokens)| {
                let cut_short = open.iter().any(|(_, of)| *of == model);
                let usage = Usage::for_turn(Some(model).filter(|it| !it.is_empty()), tokens);
                Usage {
                    output: usage.output.filter(|_| !cut_short),
                    ..usage
                }
            })
            .collect()
    }

    /// Returns the usage of the turn at its `result`.
    ///
    /// Uses the first source that is available: the turn's own counters per model, the growth of
    /// the session counters, the main loop's counters, or the counters of the individual messages.
    /// The growth and the cost are unknown at the first result of a resumed session.
    pub(super) fn of_result(&mut self, line: &ClaudeLine<'_>) -> Vec<Usage> {
        let turn = per_model(&line.model_usage_since_last_result);
        let session = per_model(&line.model_usage);
        let comparable = !std::mem::take(&mut self.inherited);
        let growth = session
            .clone()
            .filter(|_| comparable)
            .map(|now| self.growth(&now));
        let cost = line
            .total_cost_usd
            .amount()
            .filter(|_| comparable)
            .map(|now| (now - self.cost_before).max(0.0));
        if let Some(mut session) = session {
            session.shrink_to_fit(); // it stays while the session is idle
            self.before = session;
        }
        self.cost_before = line.total_cost_usd.amount().unwrap_or(self.cost_before);
        let by_message = self.unfinished();
        if let Some(models) = turn.or(growth).filter(|models| !models.is_empty()) {
            return models
                .into_iter()
                .map(|(model, (tokens, cost))| Usage::for_turn(Some(model), tokens).reported(cost))
                .collect();
        }
        let main = Some(counts(&line.usage, &Tokens::default())).filter(|tokens| !tokens.is_zero());
        match main.map(|tokens| Usage::for_turn(self.model.clone(), tokens)) {
            Some(usage) => {
                vec![cost.map_or_else(|| usage.clone(), |cost| usage.clone().reported(cost))]
            }
            None => by_message,
        }
    }

    fn growth(&self, now: &[(String, (Tokens, f64))]) -> PerModel {
        now.iter()
            .map(|(model, (tokens, cost))| {
                let known = self.before.iter().rfind(|(known, _)| known == model);
                let (before, cost_before) = known.map(|(_, it)| *it).unwrap_or_default();
                (
                    model.clone(),
                    (tokens.since(&before), (cost - cost_before).max(0.0)),
                )
            })
            .filter(|(_, (tokens, cost))| !tokens.is_zero() || *cost > 0.0)
            .collect()
    }
}

/// Tokens and cost of each model.
type PerModel = Vec<(String, (Tokens, f64))>;

/// Parses a table of counters per model and skips models without usage. Returns `None` if the table
/// is absent.
fn per_model(table: &Table<'_, Node<'_, wire::ModelUsage<'_>>>) -> Option<PerModel> {
    let rows = table
        .0
        .as_ref()?
        .iter()
        .filter_map(|(model, row)| Some((model.to_string(), row.map()?)));
    let counted = rows.map(|(model, row)| {
        let tokens = Tokens {
            input: count(&row.input_tokens),
            cache_read: count(&row.cache_read_input_tokens),
            cache_write: count(&row.cache_creation_input_tokens),
            output: count(&row.output_tokens),
            reasoning: row.thinking_tokens.count(),
        };
        (model, (tokens, row.cost_usd.amount().unwrap_or(0.0)))
    });
    Some(
        counted
            .filter(|(_, (tokens, cost))| !tokens.is_zero() || *cost > 0.0)
            .collect(),
    )
}

/// Reads counts; those that are missing stay as before.
fn counts(usage: &wire::Tokens<'_>, before: &Tokens) -> Tokens {
    let or = |it: &Scalar<'_>, before: u64| it.count().unwrap_or(before);
    let reasoning = usage.output_tokens_details.thinking_tokens.count();
    Tokens {
        input: or(&usage.input_tokens, before.input),
        cache_read: or(&usage.cache_read_input_tokens, before.cache_read),
        cache_write: or(&usage.cache_creation_input_tokens, before.cache_write),
        output: or(&usage.output_tokens, before.output),
        reasoning: reasoning.or(before.reasoning),
    }
}

fn count(it: &Scalar<'_>) -> u64 {
    it.count().unwrap_or(0)
}

#[cfg(test)]
mod tests;
