//! Reports of a run: for the terminal, Markdown, JSON, JUnit and HTML.
//!
//! Everything is computed from a [`RunReport`], which holds only results. No report needs the files
//! of a trial, except for what the caller passes to the HTML report.

use std::collections::BTreeMap;

use crate::case::Contender;
use crate::stats::{Comparison, ContenderSummary, compare, counts, summarize};
use crate::trial::{Blame, TrialKey, TrialResult, Verdict};

mod compare_runs;
mod format;
mod html;
mod html_trial;
mod human;
mod json;
mod junit;
mod markdown;
mod result_line;
mod table;

pub use compare_runs::{
    CompareError, IdentityField, Mismatch, MixedIdentity, RunComparison, compare_runs, lock,
    mismatches,
};
pub use html::html;
pub use html_trial::{SafeHtml, TrialDetail, conversation};
pub use human::{comparison as human_comparison, human};
pub use json::json;
pub use junit::junit;
pub use markdown::{comparison as markdown_comparison, markdown};
pub use result_line::result_line;

/// The results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    /// Id of the run.
    pub run: String,
    /// Name of the suite.
    pub suite: String,
    /// The contenders, in the order of the suite.
    pub contenders: Vec<Contender>,
    /// The accepted results.
    pub trials: Vec<TrialResult>,
    /// Every trial of the plan.
    pub planned: Vec<TrialKey>,
    /// Trials without a result whose last attempt was cancelled.
    pub cancelled: Vec<TrialKey>,
    /// Seed of the run, for the bootstrap.
    pub seed: u64,
    /// When the run started: RFC 3339, if known.
    pub started_at: Option<String>,
}

/// Returns the name of a comparison of two contenders.
fn pair_label(before: &str, after: &str) -> String {
    if before == after {
        before.to_owned()
    } else {
        format!("{before} → {after}")
    }
}

/// What one cell of the table of tasks and contenders shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Trials that passed.
    pub passed: u32,
    /// Trials that failed.
    pub failed: u32,
    /// Trials that could not be judged because of an evaluator.
    pub errored: u32,
    /// Trials that do not count: infrastructure, cancelled, skipped.
    pub neutral: u32,
    /// Trials without a result.
    pub missing: u32,
}

impl Cell {
    /// Share of scored trials that passed.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        let scored = self.passed + self.failed + self.errored;
        (scored > 0).then(|| f64::from(self.passed) / f64::from(scored))
    }
}

impl RunReport {
    /// Returns the figures of every contender.
    #[must_use]
    pub fn summaries(&self) -> Vec<ContenderSummary> {
        let of = |contender: &Contender| {
            let own = |keys: &[TrialKey]| {
                let own = keys.iter().filter(|it| it.contender == contender.label);
                own.count() as u64
            };
            let numbers = (own(&self.planned), own(&self.cancelled));
            summarize(contender, &self.trials, numbers)
        };
        self.contenders.iter().map(of).collect()
    }

    /// Returns the cases in the order of the plan; those of results that are not planned follow.
    #[must_use]
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        let planned = self.planned.iter().map(|key| key.case.as_str());
        let results = self.trials.iter().map(|trial| trial.key.case.as_str());
        let mut seen = std::collections::BTreeSet::new();
        cases.extend(planned.chain(results).filter(|case| seen.insert(*case)));
        cases
    }

    /// Returns the table of tasks and contenders.
    #[must_use]
    pub fn cells(&self) -> BTreeMap<(&str, &str), Cell> {
        let mut cells: BTreeMap<(&str, &str), Cell> = BTreeMap::new();
        let mut done = std::collections::BTreeSet::new();
        for trial in &self.trials {
            done.insert(&trial.key);
            let key = (trial.key.case.as_str(), trial.key.contender.as_str());
            let cell = cells.entry(key).or_default();
            let neutral = matches!(trial.blame, Some(Blame::Infrastructure | Blame::Cancelled));
            match trial.verdict {
                Verdict::Passed => cell.passed += 1,
                Verdict::Skipped => cell.neutral += 1,
                _ if neutral => cell.neutral += 1,
                Verdict::Failed => cell.failed += 1,
                Verdict::Errored => cell.errored += 1,
            }
        }
        for key in self.planned.iter().filter(|key| !done.contains(key)) {
            let cell = cells.entry((key.case.as_str(), key.contender.as_str()));
            cell.or_default().missing += 1;
        }
        cells
    }

    /// Returns the number of planned trials without a result.
    #[must_use]
    pub fn missing(&self) -> usize {
        let done: std::collections::BTreeSet<&TrialKey> =
            self.trials.iter().map(|trial| &trial.key).collect();
        self.planned
            .iter()
            .filter(|key| !done.contains(key))
            .count()
    }

    /// Returns the trials by case, contender and repetition, in the order of the plan.
    #[must_use]
    pub fn ordered(&self) -> Vec<&TrialResult> {
        let cases = self.cases();
        let labels: Vec<&str> = self.contenders.iter().map(|it| it.label.as_str()).collect();
        let place = |list: &[&str], name: &str| list.iter().position(|it| *it == name);
        let mut trials: Vec<&TrialResult> = self.trials.iter().collect();
        trials.sort_by_key(|trial| {
            let key = &trial.key;
            let case = place(&cases, &key.case);
            (case, place(&labels, &key.contender), key.repetition)
        });
        trials
    }

    /// Returns every other contender compared with the first one, on the tasks that both have.
    #[must_use]
    pub fn comparisons(&self) -> Vec<(String, Comparison)> {
        let Some((first, others)) = self.contenders.split_first() else {
            return Vec::new();
        };
        let before = counts(&self.trials, &first.label);
        let compared = others.iter().filter_map(|other| {
            let after = counts(&self.trials, &other.label);
            let compared = compare(&before, &after, self.seed)?;
            Some((pair_label(&first.label, &other.label), compared))
        });
        compared.collect()
    }

    /// Returns the contender of a label.
    #[must_use]
    pub fn contender(&self, label: &str) -> Option<&Contender> {
        self.contenders.iter().find(|it| it.label == label)
    }
}
