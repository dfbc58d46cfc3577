//! Journal of a worker: which items it has run, and what they cost today.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ostler_core::event::Timestamp;
use serde::{Deserialize, Serialize};

/// Number of items that are remembered at least. An item expires after a day anyway.
const MAX_ITEMS: usize = 50_000;

/// Cost of the attempts of one day.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Spending {
    /// Days since 1970, in UTC.
    day: i64,
    /// By id of the item.
    usd: BTreeMap<String, f64>,
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    items: File,
    /// The items since the file was last shortened, the oldest first.
    order: Vec<String>,
    run: BTreeSet<String>,
    spending: Spending,
    spending_file: PathBuf,
    /// What attempts under way may cost, by id of the item.
    reserved: BTreeMap<String, f64>,
}

impl Journal {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let path = state.join("items");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let order: Vec<String> = text.lines().map(str::to_owned).collect();
        let spending_file = state.join("spending.json");
        let spending = fs::read(&spending_file).ok();
        let spending = spending.and_then(|text| serde_json::from_slice(&text).ok());
        let mut journal = Self {
            run: order.iter().cloned().collect(),
            order,
            items: append_to(&path)?,
            path,
            spending: spending.unwrap_or_default(),
            spending_file,
            reserved: BTreeMap::new(),
        };
        journal.shorten()?;
        Ok(journal)
    }

    /// Forgets the oldest items once there are twice as many as needed.
    fn shorten(&mut self) -> io::Result<()> {
        if self.order.len() < 2 * MAX_ITEMS {
            return Ok(());
        }
        self.order.drain(..self.order.len() - MAX_ITEMS);
        let draft = self.path.with_extension("draft");
        fs::write(&draft, self.order.join("\n") + "\n")?;
        fs::rename(&draft, &self.path)?;
        self.items = append_to(&self.path)?;
        self.run = self.order.iter().cloned().collect();
        Ok(())
    }

    pub(super) fn has_run(&self, item: &str) -> bool {
        self.run.contains(item)
    }

    /// Remembers an item before it is run.
    pub(super) fn remember(&mut self, item: &str) -> io::Result<()> {
        self.items.write_all(format!("{item}\n").as_bytes())?;
        self.run.insert(item.to_owned());
        self.order.push(item.to_owned());
        self.shorten()
    }

    /// Reserves what an attempt may cost, until it is released.
    pub(super) fn reserve(&mut self, item: &str, usd: f64) {
        self.reserved.insert(item.to_owned(), usd);
    }

    /// Ends a reservation: only what was booked counts from now on.
    pub(super) fn release(&mut self, item: &str) {
        self.reserved.remove(item);
    }

    /// Returns today's cost in US dollars, with what attempts under way may still cost.
    pub(super) fn committed_usd(&self, now: Timestamp) -> f64 {
        let is_today = self.spending.day == day(now);
        let booked = |item: &String| match is_today {
            true => self.spending.usd.get(item).copied().unwrap_or(0.0),
            false => 0.0,
        };
        let reserved = self.reserved.iter();
        let more: f64 = reserved
            .map(|(item, usd)| (usd - booked(item)).max(0.0))
            .sum();
        self.spent_usd(now) + more
    }

    /// Returns today's cost in US dollars.
    pub(super) fn spent_usd(&self, now: Timestamp) -> f64 {
        match self.spending.day == day(now) {
            true => self.spending.usd.values().sum(),
            false => 0.0,
        }
    }

    /// Books the cost of an attempt so far.
    pub(super) fn book(&mut self, item: &str, usd: f64, now: Timestamp) {
        if self.spending.day != day(now) {
            self.spending = Spending {
                day: day(now),
                usd: BTreeMap::new(),
            };
        }
        let booked = self.spending.usd.entry(item.to_owned()).or_default();
        *booked = booked.max(usd);
        let draft = self.spending_file.with_extension("draft");
        let written = serde_json::to_vec(&self.spending)
            .map_err(io::Error::other)
            .and_then(|text| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &self.spending_file));
        if let Err(error) = written {
            tracing::warn!(%error, "today's cost is not stored");
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn day(now: Timestamp) -> i64 {
    now.0.div_euclid(24 * 3600 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_the_cost_of_a_day_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp(5 * 24 * 3600 * 1000 + 7);
        let mut journal = Journal::open(dir.path()).unwrap();
        journal.remember("a").unwrap();
        journal.book("a", 1.0, now);
        journal.book("a", 3.0, now);
        journal.book("a", 2.0, now);
        journal.book("b", 0.5, now);
        let journal = Journal::open(dir.path()).unwrap();
        assert!(journal.has_run("a") && !journal.has_run("b"));
        assert!((journal.spent_usd(now) - 3.5).abs() < 1e-9);
        let tomorrow = Timestamp(now.0 + 24 * 3600 * 1000);
        assert!(journal.spent_usd(tomorrow).abs() < 1e-9);
    }

    #[test]
    fn attempts_under_way_count_with_what_they_may_cost() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp(5 * 24 * 3600 * 1000);
        let mut journal = Journal::open(dir.path()).unwrap();
        let is = |journal: &Journal, usd: f64| (journal.committed_usd(now) - usd).abs() < 1e-9;
        journal.reserve("a", 1.0);
        journal.reserve("b", 1.0);
        assert!(is(&journal, 2.0));
        journal.book("a", 0.25, now);
        assert!(is(&journal, 2.0), "part of what was reserved");
        journal.book("b", 1.5, now);
        assert!(is(&journal, 2.5), "more than was reserved");
        journal.release("a");
        assert!(is(&journal, 1.75));
        journal.release("b");
        assert!(is(&journal, 1.75) && is(&Journal::open(dir.path()).unwrap(), 1.75));
    }

    #[test]
    fn old_items_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let lines = |count: usize| (0..count).map(|number| format!("{number}\n"));
        let text: String = lines(2 * MAX_ITEMS - 1).collect();
        fs::write(dir.path().join("items"), text).unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        assert!(journal.has_run("0"));
        journal.remember("new").unwrap();
        assert!(!journal.has_run("0") && journal.has_run("new"));
        journal.remember("newer").unwrap();
        let text = fs::read_to_string(dir.path().join("items")).unwrap();
        assert_eq!(text.lines().count(), MAX_ITEMS + 1);
        let journal = Journal::open(dir.path()).unwrap();
        assert!(journal.has_run("newer") && journal.has_run("99998"));
    }
}
