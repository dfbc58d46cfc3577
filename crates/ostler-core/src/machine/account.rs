//! What a session has used: the turns that are settled, and the last one as long as more can be heard about it.

use std::collections::BTreeMap;

use crate::usage::{Scope, Usage};

/// A turn's usage per model, the last word each.
#[derive(Debug, Clone, Default)]
pub(super) struct PerModel(BTreeMap<Option<String>, Usage>);

impl PerModel {
    /// Takes the latest numbers of a turn on a model; those of a session are no turn's.
    pub(super) fn note(&mut self, usage: &Usage) {
        if usage.scope == Scope::Turn {
            self.0.insert(usage.model.clone(), usage.clone());
        }
    }

    /// The sum over the models; none when nothing was heard.
    pub(super) fn sum(&self) -> Option<Usage> {
        (!self.0.is_empty()).then(|| {
            let mut sum = Usage::unknown(Scope::Turn);
            self.0.values().for_each(|part| sum.add(part));
            sum
        })
    }

    /// The cost that was heard so far; none when nobody said any.
    pub(super) fn cost(&self) -> Option<f64> {
        self.0.values().filter_map(|part| part.cost_usd).reduce(|a, b| a + b)
    }
}

impl FromIterator<Usage> for PerModel {
    fn from_iter<T: IntoIterator<Item = Usage>>(parts: T) -> Self {
        let mut all = BTreeMap::<_, Usage>::new();
        for part in parts {
            all.entry(part.model.clone()).and_modify(|sum| sum.add(&part)).or_insert(part);
        }
        Self(all)
    }
}

/// The usage of a session.
#[derive(Debug)]
pub(super) struct Account {
    settled: Usage,
    /// The last turn, when it was closed before the agent gave its account: a later word about it still counts.
    unsettled: Option<PerModel>,
}

impl Account {
    pub(super) fn new() -> Self {
        Self { settled: Usage::unknown(Scope::Session), unsettled: None }
    }

    /// A turn is closed. `whole` when the numbers are the agent's account of all of it.
    pub(super) fn close(&mut self, turn: PerModel, whole: bool) {
        self.settle();
        self.unsettled = Some(turn);
        if whole {
            self.settle();
        }
    }

    /// Another turn begins: what is heard from now on is about that one.
    pub(super) fn settle(&mut self) {
        if let Some(sum) = self.unsettled.take().and_then(|turn| turn.sum()) {
            self.settled.add(&sum);
        }
    }

    /// Something was heard about a turn that is over; true when it changed the sum.
    pub(super) fn late(&mut self, usage: &Usage) -> bool {
        let Some(turn) = &mut self.unsettled else { return false };
        turn.note(usage);
        usage.scope == Scope::Turn
    }

    /// The session so far.
    pub(super) fn total(&self) -> Usage {
        let mut total = self.settled.clone();
        if let Some(sum) = self.unsettled.as_ref().and_then(PerModel::sum) {
            total.add(&sum);
        }
        total
    }
}
