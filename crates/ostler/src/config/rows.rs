//! The effective configuration for display: every value and its origin.

use std::collections::BTreeSet;

use super::entry::{Entry, Origin};
use super::key::{Field, Key, Limit};
use super::{Config, Defaults};

/// One effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: String,
    /// The value, as far as it may be shown.
    pub value: String,
    /// The origin of the value.
    pub from: Origin,
}

/// Shown instead of a value that may be a secret.
const HIDDEN: &str = "…";

impl Config {
    /// Returns the effective values of this agent, or of all agents that the files configure.
    #[must_use]
    pub fn rows(&self, agent: Option<&str>) -> Vec<Row> {
        let mut rows = vec![match self.default_agent() {
            Some(entry) => row(entry),
            None => default_row(&Key::Agent, "the first one that is ready"),
        }];
        let names = agent.map_or_else(|| self.configured(), |name| BTreeSet::from([name]));
        for name in names {
            let defaults = self.defaults(name);
            rows.extend(
                defaults
                    .iter()
                    .flat_map(|defaults| agent_rows(name, defaults)),
            );
        }
        rows.extend(Limit::ALL.map(|limit| {
            let key = Key::Limit(limit);
            let entry = self.entries.get(&key);
            entry.map_or_else(|| default_row(&key, limit.usual()), row)
        }));
        let daemon = self.entries.get(&Key::Daemon);
        rows.push(daemon.map_or_else(|| default_row(&Key::Daemon, "false"), row));
        let others = self.entries.values();
        rows.extend(
            others
                .filter(|entry| matches!(entry.key, Key::Notify | Key::Webhook(..)))
                .map(row),
        );
        rows
    }
}

fn agent_rows(name: &str, defaults: &Defaults<'_>) -> Vec<Row> {
    let entries = defaults.entries();
    let key = |field: &Field| Key::AgentField(name.to_owned(), field.clone());
    let mut rows: Vec<(Key, Row)> = Vec::new();
    let agent = defaults.agent();
    for (field, entry) in &entries {
        let is_secret = |key: &String| {
            let mut settings = agent.about().settings.iter();
            settings.any(|setting| setting.key == key && setting.is_secret())
        };
        let mut shown = Row {
            key: key(field).to_string(),
            ..row(entry)
        };
        if matches!(field, Field::Set(own) if is_secret(own)) {
            shown.value = HIDDEN.to_owned();
        }
        rows.push((key(field), shown));
    }
    let program = agent.about().probe.map(|probe| probe.program);
    let defaults = [
        (Field::Command, program),
        (Field::Model, Some("the agent's default")),
    ];
    for (field, value) in defaults {
        if let Some(value) = value.filter(|_| !entries.contains_key(&field)) {
            rows.push((key(&field), default_row(&key(&field), value)));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn row(entry: &Entry) -> Row {
    Row {
        key: entry.key.to_string(),
        value: entry.shown(),
        from: entry.from.clone(),
    }
}

fn default_row(key: &Key, value: &str) -> Row {
    Row {
        key: key.to_string(),
        value: value.to_owned(),
        from: Origin::Default,
    }
}
