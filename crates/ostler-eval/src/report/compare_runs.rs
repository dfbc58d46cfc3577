//! Compares two runs. Trials that ran with something different are not mixed unless allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::{RunReport, pair_label};
use crate::stats::{Comparison, compare, counts};
use crate::trial::{TrialIdentity, TrialResult, is_scored};

/// A field of a trial's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityField {
    /// Definition of the case.
    CaseHash,
    /// The commit.
    Commit,
    /// The agent.
    Agent,
    /// The agent's version.
    AgentVersion,
    /// The model, as configured.
    Model,
    /// The model, as the agent reported it.
    ReportedModel,
    /// The prompt.
    PromptHash,
    /// The contender's settings and instructions.
    SettingsHash,
    /// The tier of isolation.
    Isolation,
    /// Ostler's version.
    Ostler,
    /// Whether answers were replayed.
    Replayed,
}

impl IdentityField {
    /// Every field.
    pub const ALL: [Self; 11] = [
        Self::CaseHash,
        Self::Commit,
        Self::Agent,
        Self::AgentVersion,
        Self::Model,
        Self::ReportedModel,
        Self::PromptHash,
        Self::SettingsHash,
        Self::Isolation,
        Self::Ostler,
        Self::Replayed,
    ];

    /// Returns the name of the field.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CaseHash => "case_hash",
            Self::Commit => "commit",
            Self::Agent => "agent",
            Self::AgentVersion => "agent_version",
            Self::Model => "model",
            Self::ReportedModel => "reported_model",
            Self::PromptHash => "prompt_hash",
            Self::SettingsHash => "settings_hash",
            Self::Isolation => "isolation",
            Self::Ostler => "ostler",
            Self::Replayed => "replayed",
        }
    }

    /// Returns true if the field belongs to the contender. Between two contenders it may differ.
    fn is_of_contender(self) -> bool {
        match self {
            Self::Agent
            | Self::AgentVersion
            | Self::Model
            | Self::ReportedModel
            | Self::PromptHash
            | Self::SettingsHash => true,
            Self::CaseHash | Self::Commit | Self::Isolation | Self::Ostler | Self::Replayed => {
                false
            }
        }
    }

    /// Returns the field's value; `None` if the agent did not report it.
    fn of(self, trial: &TrialResult) -> Option<String> {
        let TrialIdentity {
            case: _,
            case_hash,
            commit,
            agent,
            agent_version,
            model,
            reported_model,
            prompt_hash,
            settings_hash,
            isolation,
            ostler,
        } = &trial.identity;
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
        Some(match self {
            Self::CaseHash => case_hash.clone(),
            Self::Commit => commit.clone(),
            Self::Agent => agent.clone(),
            Self::AgentVersion => or_unknown(agent_version),
            Self::Model => or_unknown(model),
            // An agent that died early has not named its model. That is no difference.
            Self::ReportedModel => return reported_model.clone(),
            Self::PromptHash => prompt_hash.clone(),
            Self::SettingsHash => settings_hash.clone(),
            Self::Isolation => isolation.as_str().to_owned(),
            Self::Ostler => ostler.clone(),
            Self::Replayed => trial.replayed.to_string(),
        })
    }

    /// Returns the values that the field has in some trials.
    fn values(self, trials: &[&TrialResult]) -> BTreeSet<String> {
        trials.iter().filter_map(|trial| self.of(trial)).collect()
    }
}

/// Lists values for people.
fn listed(values: BTreeSet<String>) -> String {
    values.into_iter().collect::<Vec<_>>().join(" and ")
}

/// A field that differs between repetitions of one case with one contender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MixedIdentity {
    /// The field.
    pub field: IdentityField,
    /// A case in which it differs.
    pub case: String,
    /// The contender.
    pub contender: String,
    /// Its values.
    pub values: Vec<String>,
}

impl fmt::Display for MixedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            case,
            contender,
            values,
        } = self;
        write!(
            f,
            "{contender}: its trials ran with more than one {}, such as {case} with {}",
            field.as_str(),
            values.join(" and ")
        )
    }
}

impl RunReport {
    /// Returns the fields in which repetitions differ that should be alike, such as the version of
    /// an agent that was upgraded before the run was resumed: one entry per contender and field.
    #[must_use]
    pub fn mixed_identities(&self) -> Vec<MixedIdentity> {
        let mut found = Vec::new();
        for contender in &self.contenders {
            let cases = by_case(&self.trials, &contender.label);
            let fields = IdentityField::ALL.into_iter();
            found.extend(fields.filter_map(|field| {
                let values = cases
                    .iter()
                    .map(|(case, trials)| (case, field.values(trials)));
                let (case, values) = values.into_iter().find(|(_, values)| values.len() > 1)?;
                Some(MixedIdentity {
                    field,
                    case: (*case).to_owned(),
                    contender: contender.label.clone(),
                    values: values.into_iter().collect(),
                })
            }));
        }
        found
    }
}

/// A field that differs between two runs, with an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The field.
    pub field: IdentityField,
    /// A case in which it differs.
    pub case: String,
    /// The contender.
    pub contender: String,
    /// Its value in the first run.
    pub before: String,
    /// Its value in the second run.
    pub after: String,
    /// Number of tasks in which it differs.
    pub tasks: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {} tasks, such as {} with {}: {} → {}",
            self.field.as_str(),
            self.tasks,
            self.case,
            self.contender,
            self.before,
            self.after
        )
    }
}

/// Why two runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Something that must be equal differs.
    #[error(
        "the runs differ in more than their results: {}; allow it with --allow-difference {}",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        .0.iter().map(|it| it.field.as_str()).collect::<Vec<_>>().join(",")
    )]
    Mismatch(Vec<Mismatch>),
    /// No contender has a task in both runs.
    #[error("no contender has a task in both runs; name one of each run with `--pair A=B`")]
    NothingInCommon,
    /// A label that a run does not have.
    #[error("run {run} has no contender {label:?}; it has {known}")]
    UnknownContender {
        /// The run.
        run: String,
        /// The label.
        label: String,
        /// The labels of the run.
        known: String,
    },
}

/// Two runs, contender by contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// Id of the first run.
    pub before: String,
    /// Id of the second run.
    pub after: String,
    /// Label and comparison of each contender that both runs have.
    pub contenders: Vec<(String, Comparison)>,
    /// Differences that were allowed.
    pub mismatches: Vec<Mismatch>,
}

/// Returns the fields of the identity that differ between trials of the same case and contender, in
/// any repetition. `pairs` are the labels to compare: of the first run and of the second. Two
/// different contenders may have different agents, models, prompts and settings.
#[must_use]
pub fn mismatches(
    before: &[TrialResult],
    after: &[TrialResult],
    pairs: &[(String, String)],
) -> Vec<Mismatch> {
    let mut found: BTreeMap<IdentityField, Mismatch> = BTreeMap::new();
    for (one, other) in pairs {
        let (own, others) = (by_case(before, one), by_case(after, other));
        for (case, trials) in &own {
            let Some(counterparts) = others.get(case) else {
                continue;
            };
            let fields = IdentityField::ALL.into_iter();
            for field in fields.filter(|field| one == other || !field.is_of_contender()) {
                let (a, b) = (field.values(trials), field.values(counterparts));
                if a == b || a.is_empty() || b.is_empty() {
                    continue;
                }
                let mismatch = found.entry(field).or_insert(Mismatch {
                    field,
                    case: (*case).to_owned(),
                    contender: one.clone(),
                    before: listed(a),
                    after: listed(b),
                    tasks: 0,
                });
                mismatch.tasks += 1;
            }
        }
    }
    found.into_values().collect()
}

/// Returns the scored trials of a contender by case. Others count in no comparison, and a trial
/// that was never set up has no complete identity.
fn by_case<'a>(trials: &'a [TrialResult], label: &str) -> BTreeMap<&'a str, Vec<&'a TrialResult>> {
    let mut cases: BTreeMap<&str, Vec<&TrialResult>> = BTreeMap::new();
    let own = trials.iter().filter(|it| it.key.contender == label);
    let own = own.filter(|it| is_scored(it));
    for trial in own {
        cases.entry(&trial.key.case).or_default().push(trial);
    }
    cases
}

/// Returns the fields that differ between two runs, all of which are in `allowed`.
///
/// # Errors
/// A field differs and is not allowed.
pub fn lock(
    before: &RunReport,
    after: &RunReport,
    pairs: &[(String, String)],
    allowed: &[IdentityField],
) -> Result<Vec<Mismatch>, CompareError> {
    let mismatches = mismatches(&before.trials, &after.trials, pairs);
    let refused = mismatches.iter().filter(|it| !allowed.contains(&it.field));
    let refused: Vec<Mismatch> = refused.cloned().collect();
    if refused.is_empty() {
        Ok(mismatches)
    } else {
        Err(CompareError::Mismatch(refused))
    }
}

impl RunReport {
    /// Returns the pairs of labels that this run and a later one have in common.
    #[must_use]
    pub fn common_labels(&self, after: &RunReport) -> Vec<(String, String)> {
        let own = self.contenders.iter().map(|it| &it.label);
        let common = own.filter(|label| after.contender(label).is_some());
        common.map(|label| (label.clone(), label.clone())).collect()
    }

    fn require_contender(&self, label: &str) -> Result<(), CompareError> {
        if self.contender(label).is_some() {
            return Ok(());
        }
        let known = self.contenders.iter().map(|it| it.label.as_str());
        Err(CompareError::UnknownContender {
            run: self.run.clone(),
            label: label.to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        })
    }
}

/// Compares the second run with the first. `labels` pairs contenders; without any, those with the
/// same label are compared. Both runs may be the same. Fields in `allowed` may differ.
///
/// # Errors
/// A field of the identity differs and is not allowed, a label is unknown, or nothing can be
/// compared.
pub fn compare_runs(
    before: &RunReport,
    after: &RunReport,
    labels: &[(String, String)],
    allowed: &[IdentityField],
) -> Result<RunComparison, CompareError> {
    let pairs: Vec<(String, String)> = if labels.is_empty() {
        before.common_labels(after)
    } else {
        labels.to_vec()
    };
    for (one, other) in &pairs {
        before.require_contender(one)?;
        after.require_contender(other)?;
    }
    let mismatches = lock(before, after, &pairs, allowed)?;
    let contenders: Vec<(String, Comparison)> = pairs
        .iter()
        .filter_map(|(one, other)| {
            let sides = (counts(&before.trials, one), counts(&after.trials, other));
            let compared = compare(&sides.0, &sides.1, after.seed)?;
            Some((pair_label(one, other), compared))
        })
        .collect();
    if contenders.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    Ok(RunComparison {
        before: before.run.clone(),
        after: after.run.clone(),
        contenders,
        mismatches,
    })
}
