//! Defaults of one agent, applied to a spec.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ostler_core::spec::{Limits, Spec, keys};

use super::entry::Entry;
use super::key::{Field, Key, Limit, Measure};
use super::{Config, ConfigError, reference};
use crate::agent::Agent;

/// Defaults of one agent from the files.
pub struct Defaults<'a> {
    config: &'a Config,
    /// The agent's names, most specific first.
    names: Vec<&'a str>,
    agent: Arc<dyn Agent>,
}

impl<'a> Defaults<'a> {
    pub(super) fn new(config: &'a Config, names: Vec<&'a str>, agent: Arc<dyn Agent>) -> Self {
        Self {
            config,
            names,
            agent,
        }
    }

    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Arc<dyn Agent> {
        &self.agent
    }

    /// Returns every value. Those of a more specific name win over those of the agent's own name.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<&'a Field, &'a Entry> {
        let mut all = BTreeMap::new();
        for name in self.names.iter().rev() {
            all.extend(self.config.fields(name));
        }
        all
    }

    /// Resolves a model alias.
    #[must_use]
    pub fn model<'m>(&self, name: &'m str) -> &'m str
    where
        'a: 'm,
    {
        let alias = Field::Alias(name.to_owned());
        self.entries()
            .get(&alias)
            .map_or(name, |entry| entry.value.text())
    }

    /// Returns the model aliases.
    #[must_use]
    pub fn aliases(&self) -> Vec<&'a str> {
        let alias = |field: &'a Field| match field {
            Field::Alias(name) => Some(name.as_str()),
            _ => None,
        };
        self.entries().into_keys().filter_map(alias).collect()
    }

    /// Fills in what the spec leaves open. Returns remarks for the user.
    ///
    /// # Errors
    /// Returns an error if a value refers to a variable that is not set.
    pub fn fill(
        &self,
        spec: &mut Spec,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, ConfigError> {
        let entries = self.entries();
        let given = spec.to_settings();
        let extra_args = std::mem::take(&mut spec.extra_args);
        let mut problems = Vec::new();
        for (field, entry) in &entries {
            let value = &entry.value;
            match field {
                Field::Set(key) if given.get(key).is_none() => {
                    if let Err(error) = spec.set(key, value.list()) {
                        problems.push(entry.problem(&error.why));
                    }
                }
                Field::Model if spec.model.is_none() => {
                    spec.model = Some(value.text().into());
                }
                Field::Command => drop(
                    spec.program
                        .get_or_insert_with(|| PathBuf::from(value.text())),
                ),
                Field::Args => spec.extra_args = value.list().to_vec(),
                Field::Env(name) if !spec.env.contains_key(name) => {
                    match reference::resolve(value.text(), lookup) {
                        Ok(value) => drop(spec.env.insert(name.clone(), value)),
                        Err(error) => problems.push(entry.problem(&error.to_string())),
                    }
                }
                _ => {}
            }
        }
        spec.extra_args.extend(extra_args);
        spec.model = spec.model.take().map(|name| self.model(&name).to_owned());
        if problems.is_empty() {
            Ok(self.config.fill_limits(&*self.agent, spec))
        } else {
            Err(ConfigError(problems))
        }
    }
}

impl Config {
    /// Fills in the limits that are settings of the agent, even if the files do not configure it.
    /// Returns a remark for each limit that the agent does not have.
    pub fn fill_limits(&self, agent: &dyn Agent, spec: &mut Spec) -> Vec<String> {
        let (about, mut remarks) = (agent.about(), Vec::new());
        let entry = |limit| self.entries.get(&Key::Limit(limit));
        // The values were checked when the files were read.
        if let Some(entry) = entry(Limit::MaxTurns).filter(|_| spec.max_turns.is_none()) {
            if about.accepts(keys::MAX_TURNS) {
                spec.max_turns = entry.value.text().parse().ok();
            } else {
                let (key, from) = (&entry.key, &entry.from);
                remarks.push(format!("{key} ({from}): {} has no such limit.", about.name));
            }
        }
        if let Some(entry) = entry(Limit::MaxBudgetUsd).filter(|_| spec.max_budget_usd.is_none()) {
            let budget = entry.value.text().parse().ok();
            if about.accepts(keys::MAX_BUDGET_USD) {
                spec.max_budget_usd = budget;
            } else {
                spec.limits.budget_usd = spec.limits.budget_usd.or(budget);
            }
        }
        remarks
    }

    /// Returns the limits of all agents. Steps and cost are limited per agent: see
    /// [`Defaults::fill`].
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for limit in Limit::ALL {
            let Some(entry) = self.entries.get(&Key::Limit(limit)) else {
                continue;
            };
            let Ok(measure) = limit.measure(entry.value.text()) else {
                continue;
            };
            match (limit, measure) {
                (Limit::Timeout, Measure::Time(time)) => limits.wall = time,
                (Limit::IdleTimeout, Measure::Time(time)) => limits.idle = time,
                (Limit::StartupTimeout, Measure::Time(time)) => limits.startup = time,
                (Limit::MaxTime, Measure::Time(time)) => limits.budget_wall = time,
                (Limit::MaxLogSize, Measure::Size(size)) => limits.event_bytes = size,
                (Limit::MaxRawSize, Measure::Size(size)) => limits.raw_bytes = size,
                (Limit::Grace, Measure::Time(Some(time))) => limits.grace = time,
                (Limit::MaxTokens, Measure::Count(count)) => limits.budget_tokens = Some(count),
                (Limit::MaxMessages, Measure::Count(count)) => {
                    limits.budget_turns = u32::try_from(count).ok();
                }
                _ => {}
            }
        }
        limits
    }
}
