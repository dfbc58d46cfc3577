//! Session usage: settled turns, and the last one while reports about it may still arrive.

use std::collections::BTreeMap;

use crate::usage::{Scope, Usage};

/// Usage of a turn by model, with the latest numbers of each.
#[derive(Debug, Clone, Default)]
pub(super) struct UsageByModel(BTreeMap<Option<String>, Usage>);

impl UsageByModel {
    /// Records the latest numbers of a turn on a model. Numbers of a whole session are ignored.
    pub(super) fn record(&mut self, usage: &Usage) {
        if usage.scope == Scope::Turn {
            self.0.insert(usage.model.clone(), usage.clone());
        }
    }

    /// Returns the sum over all models, or `None` if there are no numbers.
    pub(super) fn sum(&self) -> Option<Usage> {
        (!self.0.is_empty()).then(|| {
            let mut sum = Usage::unknown(Scope::Turn);
            self.0.values().for_each(|part| sum.add(part));
            sum
        })
    }

    /// Returns the cost so far, or `None` if no cost was reported.
    pub(super) fn cost(&self) -> Option<f64> {
        self.0
            .values()
            .filter_map(|part| part.cost_usd)
            .reduce(|a, b| a + b)
    }
}

impl FromIterator<Usage> for UsageByModel {
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

/// Usage of a session.
#[derive(Debug)]
pub(super) struct Account {
    settled: Usage,
    /// The last turn, if it was closed before the agent reported its usage: a later report still
    /// counts.
    unsettled: Option<UsageByModel>,
    /// Whether a settled turn had no numbers at all.
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

    /// Closes a turn. `whole` says that the agent reported the usage of the entire turn.
    pub(super) fn close(&mut self, turn: UsageByModel, whole: bool) {
        self.settle();
        self.unsettled = Some(turn);
        if whole {
            self.settle();
        }
    }

    /// Settles the last turn, because the next one starts: later numbers belong to that one.
    pub(super) fn settle(&mut self) {
        match self.unsettled.take().map(|turn| turn.sum()) {
            Some(Some(sum)) => self.settled.add(&sum),
            Some(None) => self.incomplete = true,
            None => {}
        }
    }

    /// Records a late report about a closed turn. Returns true if it changed the sum.
    pub(super) fn record_late(&mut self, usage: &Usage) -> bool {
        let Some(turn) = &mut self.unsettled else {
            return false;
        };
        turn.record(usage);
        usage.scope == Scope::Turn
    }

    /// Returns the usage of the session so far.
    pub(super) fn total(&self) -> Usage {
        let mut total = self.settled.clone();
        let mut incomplete = self.incomplete;
        match self.unsettled.as_ref().map(UsageByModel::sum) {
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

    fn turn(usage: Option<Usage>) -> UsageByModel {
        usage.into_iter().collect()
    }

    fn tokens(input: u64) -> Usage {
        Usage::for_turn(
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
        // A late report completes it.
        assert!(account.record_late(&tokens(1).reported(0.25)));
        assert_eq!(cost(&account), (Some(0.25), CostSource::Reported));
    }

    #[test]
    fn the_latest_numbers_of_each_model_count() {
        let on = |model: &str, input, cost| Usage {
            model: Some(model.into()),
            ..tokens(input).reported(cost)
        };
        let mut turn = UsageByModel::default();
        assert!(turn.sum().is_none() && turn.cost().is_none());
        turn.record(&on("a", 1, 0.25));
        turn.record(&on("a", 3, 0.5));
        turn.record(&on("b", 4, 2.0));
        turn.record(&Usage {
            scope: Scope::Session,
            ..on("c", 100, 100.0)
        });
        let sum = turn.sum().unwrap();
        assert_eq!(
            (sum.input, sum.model, sum.scope),
            (Some(7), None, Scope::Turn)
        );
        assert_eq!((sum.cost_usd, turn.cost()), (Some(2.5), Some(2.5)));
    }

    #[test]
    fn reports_of_one_model_in_one_result_are_added() {
        let turn: UsageByModel = [tokens(1).reported(0.5), tokens(2).reported(0.25)]
            .into_iter()
            .collect();
        let sum = turn.sum().unwrap();
        assert_eq!((sum.input, sum.cost_usd), (Some(3), Some(0.75)));
        assert_eq!(sum.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_late_report_counts_until_the_next_turn_starts() {
        let late = tokens(5);
        let mut account = Account::new();
        assert!(!account.record_late(&late), "no turn yet");
        account.close(turn(Some(tokens(1))), true);
        assert!(!account.record_late(&late), "the turn was reported whole");
        assert_eq!(account.total().input, Some(1));
        account.close(turn(Some(tokens(2))), false);
        assert_eq!(
            account.total().input,
            Some(3),
            "counted before it is settled"
        );
        assert!(
            account.record_late(&late),
            "replaces the numbers of the turn"
        );
        assert_eq!(account.total().input, Some(6));
        let session = Usage {
            scope: Scope::Session,
            ..tokens(100)
        };
        assert!(!account.record_late(&session), "not about the turn");
        account.settle();
        assert!(!account.record_late(&late));
        assert_eq!(account.total().input, Some(6));
        assert_eq!(account.total().scope, Scope::Session);
    }

    #[test]
    fn a_settled_turn_without_numbers_leaves_a_lower_bound() {
        let mut account = Account::new();
        account.close(turn(None), false);
        account.settle();
        assert!(!account.record_late(&tokens(1)));
        account.close(turn(Some(tokens(1).reported(0.5))), true);
        assert_eq!(cost(&account), (Some(0.5), CostSource::Partial));
    }
}
