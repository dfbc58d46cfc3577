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
        self.0
            .values()
            .filter_map(|part| part.cost_usd)
            .reduce(|a, b| a + b)
    }
}

impl FromIterator<Usage> for PerModel {
    fn from_iter<T: IntoIterator<Item = Usage>>(parts: T) -> Self {
        let mut all = BTreeMap::<_, Usage>::new();
        for part in parts {
            all.entry(part.model.clone())
                .and_modify(|sum| sum.add(&part))
                .or_insert(part);
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
    /// Whether a settled turn came without any numbers.
    incomplete: bool,
}

impl Account {
    pub(super) fn new() -> Self {
        Self {
            settled: Usage::unknown(Scope::Session),
            unsettled: None,
            incomplete: false,
        }
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
        match self.unsettled.take().map(|turn| turn.sum()) {
            Some(Some(sum)) => self.settled.add(&sum),
            Some(None) => self.incomplete = true,
            None => {}
        }
    }

    /// Something was heard about a turn that is over; true when it changed the sum.
    pub(super) fn late(&mut self, usage: &Usage) -> bool {
        let Some(turn) = &mut self.unsettled else {
            return false;
        };
        turn.note(usage);
        usage.scope == Scope::Turn
    }

    /// The session so far.
    pub(super) fn total(&self) -> Usage {
        let mut total = self.settled.clone();
        let mut incomplete = self.incomplete;
        match self.unsettled.as_ref().map(PerModel::sum) {
            Some(Some(sum)) => total.add(&sum),
            Some(None) => incomplete = true,
            None => {}
        }
        match total.cost_usd {
            Some(cost) if incomplete => total.partial(cost),
            _ => total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{CostSource, Tokens};

    fn turn(usage: Option<Usage>) -> PerModel {
        usage.into_iter().collect()
    }

    fn tokens(input: u64) -> Usage {
        Usage::of(
            Some("m".into()),
            Tokens {
                input,
                ..Tokens::default()
            },
        )
    }

    fn cost(account: &Account) -> (Option<f64>, CostSource) {
        let total = account.total();
        (total.cost_usd, total.cost_source)
    }

    #[test]
    fn a_turn_without_a_cost_leaves_a_lower_bound() {
        for unknown in [Some(tokens(2)), None] {
            let mut account = Account::new();
            account.close(turn(Some(tokens(1).reported(0.012))), true);
            assert_eq!(cost(&account), (Some(0.012), CostSource::Reported));
            account.close(turn(unknown), false);
            assert_eq!(cost(&account), (Some(0.012), CostSource::Partial));
            account.close(turn(Some(tokens(4).reported(0.5))), true);
            assert_eq!(cost(&account), (Some(0.512), CostSource::Partial));
        }
        let mut account = Account::new();
        account.close(turn(None), false);
        assert_eq!(cost(&account), (None, CostSource::Unknown));
        // What is said late completes it.
        assert!(account.late(&tokens(1).reported(0.25)));
        assert_eq!(cost(&account), (Some(0.25), CostSource::Reported));
    }
}
