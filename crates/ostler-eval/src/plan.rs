//! Plan of a run: which trials it has, in which order, frozen when the run is created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::case::{Case, Contender, Isolation, Suite};
use crate::identity::case_hash;
use crate::trial::TrialKey;

/// The plan of a run, stored with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the suite.
    pub suite: String,
    /// The cases, with the hashes of their definitions.
    pub cases: Vec<PlannedCase>,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Requested isolation.
    pub isolation: Option<Isolation>,
    /// Whether agents use the user's home directory.
    pub share_login: bool,
    /// What the program around the evaluation needs to load the suite again.
    pub inputs: Value,
}

/// A case of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCase {
    /// Its name.
    pub name: String,
    /// Hash of its definition.
    pub hash: String,
    /// Labels of the contenders that run it.
    pub contenders: Vec<String>,
}

/// A suite that cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A case has no agent.
    #[error("the case {0:?} names no agent; add one to the case or the suite, or use `--agent`")]
    NoAgent(String),
    /// Two contenders have the same label.
    #[error("two agents have the label {0:?}; give each its own `label`")]
    SameLabel(String),
    /// Two cases have the same name.
    #[error("two cases have the name {0:?}; rename one")]
    SameCase(String),
    /// No trial is left.
    #[error("no trial is left: no case matches the filter")]
    Empty,
    /// A filter cannot be parsed.
    #[error("filter {pattern:?}: {why}")]
    BadFilter {
        /// The filter.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// A case is missing, or has another definition than when the run was created.
    #[error("the case {0:?} has changed since the run was created; start a new run")]
    Changed(String),
}

/// Selects trials by patterns on `case` or `case/contender`.
#[derive(Debug, Clone)]
pub struct TrialFilter(Option<GlobSet>);

impl TrialFilter {
    /// Parses patterns such as `parser-*` or `*/codex`. Without any, every trial is selected.
    ///
    /// # Errors
    /// If a pattern is not valid.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, PlanError> {
        if patterns.is_empty() {
            return Ok(Self(None));
        }
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let text = pattern.as_ref();
            let bad = |error: globset::Error| PlanError::BadFilter {
                pattern: text.to_owned(),
                why: error.kind().to_string(),
            };
            set.add(Glob::new(text).map_err(bad)?);
        }
        let bad = |error: globset::Error| PlanError::BadFilter {
            pattern: String::new(),
            why: error.to_string(),
        };
        Ok(Self(Some(set.build().map_err(bad)?)))
    }

    /// Returns true if a trial is selected.
    #[must_use]
    pub fn selects(&self, case: &str, contender: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|set| set.is_match(case) || set.is_match(format!("{case}/{contender}")))
    }
}

impl Plan {
    /// Plans a suite.
    ///
    /// # Errors
    /// If a case has no agent, names are not unique, or nothing is selected.
    pub fn new(suite: &Suite, filter: &TrialFilter) -> Result<Self, PlanError> {
        let mut names = BTreeSet::new();
        let mut contenders: BTreeMap<String, Contender> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        let mut cases = Vec::new();
        for contender in &suite.contenders {
            add(&mut contenders, &mut order, contender)?;
        }
        for case in &suite.cases {
            if !names.insert(&case.name) {
                return Err(PlanError::SameCase(case.name.clone()));
            }
            let own = case.agent.as_ref().filter(|_| suite.contenders.is_empty());
            if let Some(own) = own {
                add(&mut contenders, &mut order, own)?;
            }
            let labels: Vec<String> = match own {
                Some(own) => vec![own.label.clone()],
                None => suite.contenders.iter().map(|it| it.label.clone()).collect(),
            };
            if labels.is_empty() {
                return Err(PlanError::NoAgent(case.name.clone()));
            }
            let selected = labels.into_iter();
            let selected: Vec<String> = selected
                .filter(|label| filter.selects(&case.name, label))
                .collect();
            if !selected.is_empty() {
                cases.push(PlannedCase {
                    name: case.name.clone(),
                    hash: case_hash(case),
                    contenders: selected,
                });
            }
        }
        if cases.is_empty() || suite.repetitions == 0 {
            return Err(PlanError::Empty);
        }
        let contenders = order.iter().filter_map(|label| contenders.remove(label));
        Ok(Self {
            suite: suite.name.clone(),
            cases,
            contenders: contenders.collect(),
            repetitions: suite.repetitions,
            seed: suite.seed,
            isolation: suite.isolation,
            share_login: false,
            inputs: Value::Null,
        })
    }

    /// Returns the trials in their order: each repetition as a whole before the next, and shuffled
    /// by the seed within it, so that a run that is cut short is balanced.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialKey> {
        let mut random = SplitMix(self.seed);
        let mut all = Vec::new();
        for repetition in 1..=self.repetitions {
            let mut round: Vec<TrialKey> = Vec::new();
            for case in &self.cases {
                round.extend(case.contenders.iter().map(|contender| TrialKey {
                    case: case.name.clone(),
                    contender: contender.clone(),
                    repetition,
                }));
            }
            for last in (1..round.len()).rev() {
                round.swap(last, random.below(last + 1));
            }
            all.extend(round);
        }
        all
    }

    /// Returns the cases of a suite that was loaded again, by name.
    ///
    /// # Errors
    /// If a case of the plan is missing or has changed.
    pub fn match_cases(&self, suite: &Suite) -> Result<BTreeMap<String, Arc<Case>>, PlanError> {
        let mut found = BTreeMap::new();
        for planned in &self.cases {
            let case = suite.cases.iter().find(|case| case.name == planned.name);
            let case = case.filter(|case| case_hash(case) == planned.hash);
            let case = case.ok_or_else(|| PlanError::Changed(planned.name.clone()))?;
            found.insert(case.name.clone(), Arc::new(case.clone()));
        }
        Ok(found)
    }
}

/// Adds a contender, unless the same one is known.
fn add(
    known: &mut BTreeMap<String, Contender>,
    order: &mut Vec<String>,
    contender: &Contender,
) -> Result<(), PlanError> {
    match known.get(&contender.label) {
        Some(other) if other == contender => Ok(()),
        Some(_) => Err(PlanError::SameLabel(contender.label.clone())),
        None => {
            order.push(contender.label.clone());
            known.insert(contender.label.clone(), contender.clone());
            Ok(())
        }
    }
}

/// A small generator of reproducible numbers.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Source, TrialLimits};

    fn contender(label: &str) -> Contender {
        Contender {
            label: label.to_owned(),
            agent: "one".to_owned(),
            model: None,
            settings: BTreeMap::new(),
            prompt: None,
            instructions: None,
        }
    }

    fn case(name: &str, agent: Option<&str>) -> Case {
        Case {
            name: name.to_owned(),
            description: None,
            file: "case.yaml".into(),
            source: Source::Empty,
            prompt: "do it".to_owned(),
            agent: agent.map(contender),
            expected: None,
            evaluators: Vec::new(),
            pre_execution: Vec::new(),
            post_evaluation: Vec::new(),
            limits: TrialLimits::default(),
            mounts: None,
            workspace: crate::case::WorkspaceSettings::default(),
            exports: Vec::new(),
        }
    }

    fn suite(cases: Vec<Case>, contenders: &[&str]) -> Suite {
        Suite {
            name: "s".to_owned(),
            cases,
            contenders: contenders.iter().copied().map(contender).collect(),
            repetitions: 2,
            jobs: None,
            budget_usd: None,
            seed: 7,
            isolation: None,
        }
    }

    fn all() -> TrialFilter {
        TrialFilter::new::<&str>(&[]).unwrap()
    }

    #[test]
    fn every_combination_is_a_trial_once_and_the_seed_decides_the_order() {
        let suite = suite(vec![case("a", None), case("b", None)], &["x", "y", "z"]);
        let plan = Plan::new(&suite, &all()).unwrap();
        let trials = plan.trials();
        let unique: BTreeSet<_> = trials.iter().collect();
        assert_eq!((trials.len(), unique.len()), (12, 12));
        assert!(trials[..6].iter().all(|trial| trial.repetition == 1));
        assert_eq!(trials, plan.trials());
        let other = Plan { seed: 8, ..plan };
        assert_ne!(trials, other.trials());
    }

    #[test]
    fn a_case_without_contenders_runs_its_own_agent() {
        let own = suite(vec![case("a", Some("mine")), case("b", Some("mine"))], &[]);
        let plan = Plan::new(&own, &all()).unwrap();
        assert_eq!((plan.contenders.len(), plan.trials().len()), (1, 4));
        let none = suite(vec![case("a", None)], &[]);
        assert_eq!(
            Plan::new(&none, &all()),
            Err(PlanError::NoAgent("a".to_owned()))
        );
    }

    #[test]
    fn filters_select_cases_and_contenders() {
        let suite = suite(vec![case("ab", None), case("b", None)], &["x", "y"]);
        for (pattern, count) in [("a*", 4), ("b/x", 2), ("*/y", 4), ("*", 8)] {
            let plan = Plan::new(&suite, &TrialFilter::new(&[pattern]).unwrap()).unwrap();
            assert_eq!(plan.trials().len(), count, "{pattern}");
        }
        let none = TrialFilter::new(&["zz"]).unwrap();
        assert_eq!(Plan::new(&suite, &none), Err(PlanError::Empty));
        assert!(TrialFilter::new(&["[a"]).is_err());
    }

    #[test]
    fn a_changed_case_is_not_resumed() {
        let mut changed = suite(vec![case("a", None)], &["x"]);
        let plan = Plan::new(&changed, &all()).unwrap();
        assert_eq!(plan.match_cases(&changed).unwrap().len(), 1);
        changed.cases[0].prompt = "do something else".to_owned();
        assert_eq!(
            plan.match_cases(&changed),
            Err(PlanError::Changed("a".to_owned()))
        );
    }
}
