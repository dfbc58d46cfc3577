//! Tokens and cost of a turn, from whichever of four places tells most.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::usage::{Messages, Tokens, Usage};

use super::wire::{self, Line};
use crate::lenient::{Node, Scalar, Table};

/// What was spent.
#[derive(Debug, Default)]
pub(super) struct Spend {
    /// Messages of the turn under way, per model ("" is unknown).
    live: BTreeMap<String, Messages>,
    /// What a message counted when it began. Its end repeats only the output.
    begun: BTreeMap<String, Tokens>,
    /// Messages whose end was not heard: id and model. Their output is not known, only that there was some.
    open: BTreeSet<(String, String)>,
    /// The session's counters per model at the last result.
    before: BTreeMap<String, (Tokens, f64)>,
    /// The session's cost at the last result.
    cost_before: f64,
    /// The model of the session.
    usual: Option<String>,
    /// Whether the session's counters may hold an earlier process's: a resumed session brings them along, and until the
    /// first result nobody knows how much that is.
    inherited: bool,
}

impl Spend {
    /// Nothing yet. `resumed` when the session is an earlier one.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            inherited: resumed,
            ..Self::default()
        }
    }

    /// The agent said which model it uses.
    pub(super) fn usual_model(&mut self, model: Option<&str>) {
        self.usual = model.map(str::to_owned);
    }

    /// Takes a message's counters as they stand now.
    pub(super) fn note(&mut self, id: &str, model: Option<&str>, counted: &wire::Tokens<'_>) {
        let begun = self.begun.entry(id.to_owned()).or_default();
        let tokens = Tokens {
            input: counted.input_tokens.count().unwrap_or(begun.input),
            cache_read: counted
                .cache_read_input_tokens
                .count()
                .unwrap_or(begun.cache_read),
            cache_write: counted
                .cache_creation_input_tokens
                .count()
                .unwrap_or(begun.cache_write),
            output: counted.output_tokens.count().unwrap_or(begun.output),
            reasoning: reasoning(counted).or(begun.reasoning),
        };
        *begun = tokens;
        let model = model.unwrap_or_default().to_owned();
        self.open.insert((id.to_owned(), model.clone()));
        self.live.entry(model).or_default().note(id, tokens);
    }

    /// A message ended: its counters are final.
    pub(super) fn ended(&mut self, id: &str, model: Option<&str>, counted: &wire::Tokens<'_>) {
        self.note(id, model, counted);
        self.open
            .remove(&(id.to_owned(), model.unwrap_or_default().to_owned()));
    }

    /// Tells what the turn has used so far on a model.
    pub(super) fn live(&self, model: Option<&str>, out: &mut Outbox) {
        if let Some(messages) = self.live.get(model.unwrap_or_default()) {
            out.event(Usage::of(model.map(str::to_owned), messages.total()));
        }
    }

    /// What a turn used that never came to its `result`. The cost is unknown.
    pub(super) fn unfinished(&mut self) -> Vec<Usage> {
        self.begun.clear();
        let open = std::mem::take(&mut self.open);
        std::mem::take(&mut self.live)
            .into_iter()
            .map(|(model, messages)| (model, messages.total()))
            .filter(|(_, tokens)| !tokens.is_zero())
            .map(|(model, tokens)| {
                let cut_short = open.iter().any(|(_, of)| *of == model);
                let usage = Usage::of(Some(model).filter(|it| !it.is_empty()), tokens);
                Usage {
                    output: usage.output.filter(|_| !cut_short),
                    ..usage
                }
            })
            .collect()
    }

    /// What the turn used, at its `result`. The first of these that holds anything: the turn's own counters per model, the
    /// growth of the session's, the main loop's counters, and what was heard message by message. The growth, and the cost
    /// with it, is unknown at the first result of a resumed session.
    pub(super) fn of_result(&mut self, line: &Line<'_>) -> Vec<Usage> {
        let own = per_model(&line.model_usage_since_last_result);
        let session = per_model(&line.model_usage);
        let comparable = !std::mem::take(&mut self.inherited);
        let grown = session
            .clone()
            .filter(|_| comparable)
            .map(|now| self.grown(&now));
        let cost = line
            .total_cost_usd
            .amount()
            .filter(|_| comparable)
            .map(|now| (now - self.cost_before).max(0.0));
        if let Some(session) = session {
            self.before = session.into_iter().collect();
        }
        self.cost_before = line.total_cost_usd.amount().unwrap_or(self.cost_before);
        let heard = self.unfinished();
        if let Some(models) = own.or(grown).filter(|models| !models.is_empty()) {
            return models
                .into_iter()
                .map(|(model, (tokens, cost))| Usage::of(Some(model), tokens).reported(cost))
                .collect();
        }
        let main = line
            .usage
            .map()
            .map(main_loop)
            .filter(|tokens| !tokens.is_zero());
        match main.map(|tokens| Usage::of(self.usual.clone(), tokens)) {
            Some(usage) => {
                vec![cost.map_or_else(|| usage.clone(), |cost| usage.clone().reported(cost))]
            }
            None => heard,
        }
    }

    fn grown(&self, now: &[(String, (Tokens, f64))]) -> Vec<(String, (Tokens, f64))> {
        now.iter()
            .map(|(model, (tokens, cost))| {
                let (before, paid) = self.before.get(model).copied().unwrap_or_default();
                (
                    model.clone(),
                    (tokens.since(&before), (cost - paid).max(0.0)),
                )
            })
            .filter(|(_, (tokens, cost))| !tokens.is_zero() || *cost > 0.0)
            .collect()
    }
}

type PerModel = Vec<(String, (Tokens, f64))>;

/// A table of counters per model, without the models that did nothing; none when the line has no such table.
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

fn main_loop(usage: &wire::Tokens<'_>) -> Tokens {
    Tokens {
        input: count(&usage.input_tokens),
        cache_read: count(&usage.cache_read_input_tokens),
        cache_write: count(&usage.cache_creation_input_tokens),
        output: count(&usage.output_tokens),
        reasoning: reasoning(usage),
    }
}

fn reasoning(usage: &wire::Tokens<'_>) -> Option<u64> {
    usage
        .output_tokens_details
        .map()
        .and_then(|details| details.thinking_tokens.count())
}

fn count(it: &Scalar<'_>) -> u64 {
    it.count().unwrap_or(0)
}
