//! Configuration of agents: layered files, with the origin of each value. Pure: texts and variables
//! are arguments.
//!
//! Later files override earlier ones. Of a file whose author is unknown, such as that of a cloned
//! project, only harmless values are accepted; the others are listed.
//!
//! ```
//! use ostler::Agents;
//! use ostler::config::{Author, Config, Source};
//!
//! let source = |name: &str, text: &str, author| Source {
//!     name: name.into(),
//!     text: text.into(),
//!     dir: "/".into(),
//!     home: None,
//!     author,
//! };
//! let user = source("config.toml", "agent = 'claude'", Author::Trusted);
//! let project = source("ostler.toml", "[agents.claude]\ncommand = './evil'", Author::Unknown);
//! let config = Config::load(&[user, project], &Agents::builtin())?;
//! assert!(config.default_agent().is_some());
//! assert_eq!(config.ignored().len(), 1);
//! # Ok::<(), ostler::config::ConfigError>(())
//! ```

mod check;
mod custom;
mod defaults;
mod entry;
mod key;
mod read;
mod reference;
mod rows;
#[cfg(test)]
mod tests;
mod time;
mod trust;
mod value_error;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ostler_core::clip::head_and_tail;

use crate::agent::{Agent, Agents};

pub use defaults::Defaults;
pub use entry::{Entry, Origin, Value};
pub use key::{Field, Key, Limit, Measure};
pub use ostler_core::near::nearest;
pub use ostler_core::size::{ByteSize, SizeError, SizeLimit};
pub use rows::Row;
pub use time::time;
pub use trust::HARMLESS_SETTINGS;
pub use value_error::ValueError;
pub use webhook::{SecretSource, WEBHOOK_EVENTS, WebhookConfig, WebhookField};

/// The text of a configuration file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name of the file in messages.
    pub name: String,
    /// Content of the file.
    pub text: String,
    /// Directory that relative paths in it are resolved against.
    pub dir: PathBuf,
    /// Directory that `~/` stands for.
    pub home: Option<PathBuf>,
    /// Author of the file.
    pub author: Author,
}

/// Author of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The caller. Every value is accepted.
    Trusted,
    /// The author of a project that the caller trusts. Values about the caller's daemon are not
    /// accepted.
    TrustedProject,
    /// The author of the project. Only harmless values are accepted.
    Unknown,
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, or the other origin of the value.
    pub file: String,
    /// The line, if known.
    pub line: Option<usize>,
    /// The key, and what is wrong with it.
    pub message: String,
}

/// Half of the maximum length of a message. It may quote input of any length.
const HALF_MESSAGE: usize = 300;

/// Maximum number of problems in an error. The rest is only counted.
const MAX_LISTED: usize = 20;

impl Problem {
    fn new(file: &str, line: Option<usize>, message: String) -> Self {
        // A single line, whatever the input was.
        let message = head_and_tail(message, HALF_MESSAGE).replace('\n', " ");
        Self {
            file: file.to_owned(),
            line,
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(f, "{}{line}: {}", self.file, self.message)
    }
}

/// All problems, one per line. Of very many, only the first are listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct ConfigError(pub Vec<Problem>);

fn listed(problems: &[Problem]) -> String {
    let more = problems.len().saturating_sub(MAX_LISTED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    problems
        .iter()
        .take(MAX_LISTED)
        .map(Problem::to_string)
        .chain(rest)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A value that was ignored, and why.
#[derive(Debug, Clone)]
pub struct Ignored {
    /// The value.
    pub entry: Entry,
    /// Why it was ignored.
    pub why: String,
}

/// The merged layers.
#[derive(Clone, Default)]
pub struct Config {
    agents: Agents,
    entries: BTreeMap<Key, Entry>,
    ignored: Vec<Ignored>,
}

impl Config {
    /// Merges the files, later ones over earlier ones, and validates the result.
    ///
    /// # Errors
    /// Returns an error with all problems, by file and line.
    pub fn load(sources: &[Source], agents: &Agents) -> Result<Self, ConfigError> {
        let mut config = Self {
            agents: agents.clone(),
            ..Self::default()
        };
        let mut problems = Vec::new();
        for source in sources {
            let (entries, wrong) = read::read(source);
            problems.extend(wrong);
            config.merge(entries, source.author);
        }
        problems.extend(config.add_agents(agents));
        problems.extend(config.find_problems(agents));
        problems.sort();
        problems.dedup();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError(problems))
        }
    }

    /// Merges the values of one file over the existing ones.
    fn merge(&mut self, entries: Vec<Entry>, author: Author) {
        // Decided before any value is merged: a file must not clear the way for itself.
        let decisions: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let why = match author {
                    Author::Trusted => None,
                    Author::TrustedProject => trust::daemon_refusal(&entry.key),
                    Author::Unknown => trust::refusal(&entry, &self.entries),
                };
                (entry, why)
            })
            .collect();
        for (entry, why) in decisions {
            self.accept_or_ignore(entry, why);
        }
    }

    fn accept_or_ignore(&mut self, entry: Entry, why: Option<String>) {
        match why {
            Some(why) => self.ignored.push(Ignored { entry, why }),
            None => drop(self.entries.insert(entry.key.clone(), entry)),
        }
    }

    /// Sets a value that comes from a flag or a variable.
    pub fn set(&mut self, key: Key, value: impl Into<String>, from: Origin) {
        let value = Value::Text(value.into());
        self.accept_or_ignore(Entry { key, value, from }, None);
    }

    /// Returns the agent to use if none is given.
    #[must_use]
    pub fn default_agent(&self) -> Option<&Entry> {
        self.entries.get(&Key::Agent)
    }

    /// Returns true if tasks are to run in the daemon, if one is running.
    #[must_use]
    pub fn uses_daemon(&self) -> bool {
        let entry = self.entries.get(&Key::Daemon);
        entry.is_some_and(|entry| entry.value.text() == "true")
    }

    /// Returns the command that the daemon runs when a session needs attention: a program and its
    /// arguments. Only the user's own file can define one.
    #[must_use]
    pub fn notify(&self) -> Option<&[String]> {
        let entry = self.entries.get(&Key::Notify);
        entry.map(|entry| entry.value.list())
    }

    /// Returns all agents, including those that files define. Alternative names are not included;
    /// see [`Config::agent`].
    #[must_use]
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Returns the agent with this name, which may be an alternative name from a file.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.agents.get(self.like(name).unwrap_or(name))
    }

    /// Returns every name of an agent, including alternative ones.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let own = self.agents.iter().map(|agent| agent.about().name);
        let others = self.entries.keys().filter_map(|key| match key {
            Key::AgentField(name, Field::Like) => Some(name.as_str()),
            _ => None,
        });
        own.chain(others).collect()
    }

    /// Returns the names of agents that the files configure.
    #[must_use]
    pub fn configured(&self) -> BTreeSet<&str> {
        self.entries.keys().filter_map(agent_of).collect()
    }

    /// Returns the defaults of the agent with this name.
    #[must_use]
    pub fn defaults(&self, name: &str) -> Option<Defaults<'_>> {
        let (agent, configured) = (self.agent(name)?, self.configured());
        let own = configured.get(name).copied();
        let base = self
            .like(name)
            .or_else(|| configured.get(agent.about().name).copied());
        let mut names: Vec<&str> = own.into_iter().chain(base).collect();
        names.dedup();
        Some(Defaults::new(self, names, agent))
    }

    /// Returns the values that were ignored.
    #[must_use]
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// Returns the value of an agent's field.
    fn field(&self, name: &str, field: Field) -> Option<&Entry> {
        self.entries.get(&Key::AgentField(name.to_owned(), field))
    }

    /// Returns the fields of an agent, with their values.
    fn fields(&self, name: &str) -> impl Iterator<Item = (&Field, &Entry)> {
        self.entries
            .values()
            .filter_map(move |entry| match &entry.key {
                Key::AgentField(own, field) if own == name => Some((field, entry)),
                _ => None,
            })
    }

    /// Returns the agent that a name is an alternative of.
    fn like(&self, name: &str) -> Option<&str> {
        self.field(name, Field::Like)
            .map(|entry| entry.value.text())
    }

    /// Creates the agents that only the files define.
    fn add_agents(&mut self, known: &Agents) -> Vec<Problem> {
        let mut problems = Vec::new();
        for entry in self.entries.values() {
            let Key::AgentField(name, Field::Acp) = &entry.key else {
                continue;
            };
            if known.get(name).is_some() {
                continue; // reported with the other names
            }
            match custom::acp(name, entry.value.list()) {
                Ok(agent) => self.agents.add_last(agent),
                Err(error) => problems.push(entry.problem(&error.to_string())),
            }
        }
        problems
    }
}

/// Returns the name of the agent that a key belongs to.
fn agent_of(key: &Key) -> Option<&str> {
    match key {
        Key::AgentField(name, _) => Some(name),
        Key::Agent | Key::Daemon | Key::Notify | Key::Limit(_) | Key::Webhook(..) => None,
    }
}
