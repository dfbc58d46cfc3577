//! Spending of children: what a session's descendants use counts towards its budget.

use std::collections::{BTreeMap, HashMap};

use ostler::session::Charge;
use ostler::{Event, EventKind, Usage};
use ostler_core::usage::Scope;

use super::Manager;

/// What a session has used by itself: earlier turns, and the current one by model.
#[derive(Debug, Default)]
pub(super) struct Meter {
    settled: Charge,
    turn: BTreeMap<Option<String>, Charge>,
}

impl Meter {
    /// Updates the numbers. Returns what the session has used, if the event changed that.
    pub(super) fn on_event(&mut self, event: &Event) -> Option<Charge> {
        let EventKind::Usage(usage) = &event.kind else {
            return None;
        };
        match usage.scope {
            Scope::Turn => drop(self.turn.insert(usage.model.clone(), charge(usage))),
            Scope::Session => {
                self.settled = charge(usage);
                self.turn.clear();
            }
        }
        Some(self.turn.values().copied().fold(self.settled, Charge::plus))
    }
}

fn charge(usage: &Usage) -> Charge {
    Charge {
        cost_usd: usage.cost_usd.unwrap_or_default(),
        tokens: usage.total().unwrap_or_default(),
    }
}

/// Sessions that were started by others, and what they have used.
#[derive(Debug, Default)]
pub(super) struct Families {
    /// Parents of children that have started.
    parents: HashMap<String, String>,
    /// Spending of running parents and children.
    spending: HashMap<String, Spending>,
}

#[derive(Debug, Default)]
struct Spending {
    own: Charge,
    /// Each child with its own children. One that has ended still counts.
    children: HashMap<String, Charge>,
}

impl Spending {
    fn of_children(&self) -> Charge {
        let children = self.children.values().copied();
        children.fold(Charge::default(), Charge::plus)
    }
}

impl Families {
    /// Adds a child that has not started.
    pub(super) fn add(&mut self, parent: &str, child: &str) {
        self.parents.insert(child.to_owned(), parent.to_owned());
        let parent = self.spending.entry(parent.to_owned()).or_default();
        parent.children.insert(child.to_owned(), Charge::default());
    }

    /// Removes a session that has ended. Returns true if it had children.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        self.parents.remove(id);
        let removed = self.spending.remove(id);
        removed.is_some_and(|spending| !spending.children.is_empty())
    }

    /// Returns what a child and its own children have used.
    pub(super) fn used_by(&self, parent: &str, child: &str) -> Charge {
        let parent = self.spending.get(parent);
        let charge = parent.and_then(|parent| parent.children.get(child));
        charge.copied().unwrap_or_default()
    }

    /// Records what a session has used by itself. Returns its ancestors, each with what it is to be
    /// charged.
    fn record(&mut self, id: &str, own: Charge) -> Vec<(String, Charge)> {
        let mut charges = Vec::new();
        let Some(mut parent) = self.parents.get(id).cloned() else {
            return charges;
        };
        let spending = self.spending.entry(id.to_owned()).or_default();
        spending.own = own;
        let (mut child, mut used) = (id.to_owned(), own.plus(spending.of_children()));
        loop {
            let Some(spending) = self.spending.get_mut(&parent) else {
                return charges; // it has ended
            };
            spending.children.insert(child, used);
            let charge = spending.of_children();
            used = spending.own.plus(charge);
            charges.push((parent.clone(), charge));
            let Some(next) = self.parents.get(&parent).cloned() else {
                return charges;
            };
            child = std::mem::replace(&mut parent, next);
        }
    }
}

impl Manager {
    /// Charges the ancestors of a session with what it has used.
    pub(super) fn charge_parents(&self, id: &str, own: Charge) {
        let mut state = self.state();
        for (parent, charge) in state.families.record(id, own) {
            if let Some(live) = state.live.get(&parent) {
                live.remote.charge(charge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(tokens: u64) -> Charge {
        Charge {
            cost_usd: 0.0,
            tokens,
        }
    }

    // Each descendant counts once, at every level above it, and still counts after its end.
    #[test]
    fn a_session_is_charged_for_all_of_its_descendants() {
        let mut families = Families::default();
        families.add("root", "one");
        families.add("root", "two");
        families.add("one", "below");
        let record = |families: &mut Families, id: &str, used: u64| {
            let charges = families.record(id, tokens(used)).into_iter();
            charges.map(|(id, it)| (id, it.tokens)).collect::<Vec<_>>()
        };
        let charged = |pairs: &[(&str, u64)]| {
            let pairs = pairs.iter().map(|(id, n)| ((*id).to_owned(), *n));
            pairs.collect::<Vec<_>>()
        };
        assert_eq!(record(&mut families, "root", 1), []);
        assert_eq!(record(&mut families, "one", 10), charged(&[("root", 10)]));
        assert_eq!(record(&mut families, "two", 100), charged(&[("root", 110)]));
        assert_eq!(
            record(&mut families, "below", 1000),
            charged(&[("one", 1000), ("root", 1110)])
        );
        assert_eq!(record(&mut families, "one", 20), charged(&[("root", 1120)]));
        assert_eq!(families.used_by("root", "one"), tokens(1020));
        assert!(!families.remove("below") && families.remove("one"));
        assert_eq!(
            record(&mut families, "two", 200),
            charged(&[("root", 1220)])
        );
        assert!(families.remove("root"));
        assert_eq!(record(&mut families, "two", 300), []);
    }

    #[test]
    fn the_current_turn_counts_before_it_ends() {
        let used = |scope: Scope, model: &str, tokens: u64| {
            let usage = Usage {
                scope,
                model: Some(model.to_owned()),
                input: Some(tokens),
                ..Usage::unknown(scope)
            };
            Event {
                seq: 1,
                at: ostler_core::event::Timestamp(0),
                session: "s".into(),
                turn: 1,
                kind: usage.into(),
            }
        };
        let mut meter = Meter::default();
        let events = [
            (used(Scope::Turn, "a", 5), 5),
            (used(Scope::Turn, "b", 2), 7),
            (used(Scope::Turn, "a", 6), 8),
            (used(Scope::Session, "", 9), 9),
            (used(Scope::Turn, "a", 1), 10),
        ];
        for (event, sum) in events {
            assert_eq!(meter.on_event(&event), Some(tokens(sum)));
        }
    }
}
