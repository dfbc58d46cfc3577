//! Configuration of agents: what files say, in layers, with where each value comes from. Pure: texts and variables come in.

mod check;
mod custom;
mod defaults;
mod entry;
mod key;
mod near;
mod read;
mod reference;
mod rows;
#[cfg(test)]
mod tests;
mod time;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ostler_core::clip::head_and_tail;

use crate::agent::{Agent, Agents};

pub use defaults::Defaults;
pub use entry::{Entry, Origin, Value};
pub use key::{Field, Key, Limit, Measure};
pub use near::nearest;
pub use ostler_core::size::{parse as size, parse_limit as size_limit};
pub use rows::Row;
pub use time::time;
pub use trust::HARMLESS_SETTINGS;

/// A file, read.
#[derive(Debug, Clone)]
pub struct Source {
    /// How it is called in messages.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// What paths in it are relative to.
    pub dir: PathBuf,
    /// What `~/` stands for in it.
    pub home: Option<PathBuf>,
    /// Who wrote it.
    pub author: Author,
}

/// Who wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The caller, or somebody whom the caller trusts: everything is taken.
    Trusted,
    /// Whoever wrote the project: only what can do no harm is taken.
    Unknown,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, or what else gave the value.
    pub file: String,
    /// The line, if it is known.
    pub line: Option<usize>,
    /// The key, and what is wrong with it.
    pub message: String,
}

/// Half of the longest message. What was written is told in it, and may be of any length.
const HALF_A_MESSAGE: usize = 300;

/// So many problems are told; the others are counted.
const TOLD: usize = 20;

impl Problem {
    fn new(file: &str, line: Option<usize>, message: String) -> Self {
        // One line, whatever was written.
        let message = head_and_tail(message, HALF_A_MESSAGE).replace('\n', " ");
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

/// Everything that is wrong, one problem per line; of very many, the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct ConfigError(pub Vec<Problem>);

fn listed(problems: &[Problem]) -> String {
    let more = problems.len().saturating_sub(TOLD);
    let rest = (more > 0).then(|| format!("and {more} more"));
    problems
        .iter()
        .take(TOLD)
        .map(Problem::to_string)
        .chain(rest)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A value that was not taken, and why.
#[derive(Debug, Clone)]
pub struct Ignored {
    /// What was written.
    pub entry: Entry,
    /// Why it is not taken.
    pub why: String,
}

/// What all layers say together.
#[derive(Clone, Default)]
pub struct Config {
    agents: Agents,
    entries: BTreeMap<Key, Entry>,
    ignored: Vec<Ignored>,
}

impl Config {
    /// Puts the files over each other, the later over the earlier, and checks what comes out.
    ///
    /// # Errors
    /// Names everything that is wrong, by file and line.
    pub fn load(sources: &[Source], agents: &Agents) -> Result<Self, ConfigError> {
        let mut config = Self {
            agents: agents.clone(),
            entries: BTreeMap::new(),
            ignored: Vec::new(),
        };
        let mut problems = Vec::new();
        for source in sources {
            let (entries, wrong) = read::read(source);
            problems.extend(wrong);
            config.lay(entries, source.author);
        }
        problems.extend(config.add_agents(agents));
        problems.extend(config.faults(agents));
        problems.sort();
        problems.dedup();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError(problems))
        }
    }

    /// Puts one file's values over what is there.
    fn lay(&mut self, entries: Vec<Entry>, author: Author) {
        // Decided before any of them is in: a file must not make room for itself.
        let judged: Vec<_> = entries
            .into_iter()
            .map(|entry| match author {
                Author::Trusted => (entry, None),
                Author::Unknown => {
                    let why = trust::refusal(&entry, &self.entries);
                    (entry, why)
                }
            })
            .collect();
        for (entry, why) in judged {
            self.take(entry, why);
        }
    }

    fn take(&mut self, entry: Entry, why: Option<String>) {
        match why {
            Some(why) => self.ignored.push(Ignored { entry, why }),
            None => drop(self.entries.insert(entry.key.clone(), entry)),
        }
    }

    /// A value that was given elsewhere than in a file: by a flag, or a variable.
    pub fn give(&mut self, key: Key, value: impl Into<String>, from: Origin) {
        self.entries.insert(
            key.clone(),
            Entry {
                key,
                value: Value::Text(value.into()),
                from,
            },
        );
    }

    /// The agent to use when none is named.
    #[must_use]
    pub fn default_agent(&self) -> Option<&Entry> {
        self.entries.get(&Key::Agent)
    }

    /// Every agent there is, those of the files included. Other names of agents are not among them: see [`Config::agent`].
    #[must_use]
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// The agent that goes by this name, its own or another that a file gives it.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.agents.get(self.behind(name))
    }

    /// Every name that an agent goes by.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let own = self.agents.iter().map(|agent| agent.name());
        let others = self.entries.keys().filter_map(|key| match key {
            Key::Of(name, Field::Like) => Some(name.as_str()),
            _ => None,
        });
        own.chain(others).collect()
    }

    /// The names of agents that the files say something of.
    #[must_use]
    pub fn configured(&self) -> BTreeSet<&str> {
        self.entries.keys().filter_map(of).collect()
    }

    /// What holds for the agent of this name, where nothing else is said.
    #[must_use]
    pub fn defaults(&self, name: &str) -> Option<Defaults<'_>> {
        let (own, agent) = (
            self.entries
                .keys()
                .find_map(|key| of(key).filter(|own| *own == name)),
            self.agent(name)?,
        );
        let like = self
            .entries
            .get(&Key::Of(name.to_owned(), Field::Like))
            .map(|entry| entry.value.text());
        let base = like.or_else(|| {
            self.entries
                .keys()
                .find_map(|key| of(key).filter(|base| *base == agent.name()))
        });
        let mut names: Vec<&str> = own.into_iter().chain(base).collect();
        names.dedup();
        Some(Defaults::new(self, names, agent))
    }

    /// What was not taken.
    #[must_use]
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// The agent's own name behind one of its names.
    fn behind<'a>(&'a self, name: &'a str) -> &'a str {
        let like = self.entries.get(&Key::Of(name.to_owned(), Field::Like));
        like.map_or(name, |entry| entry.value.text())
    }

    /// Makes the agents that only a file knows.
    fn add_agents(&mut self, known: &Agents) -> Vec<Problem> {
        let mut problems = Vec::new();
        for entry in self.entries.values() {
            let Key::Of(name, Field::Acp) = &entry.key else {
                continue;
            };
            if known.get(name).is_some() {
                continue; // told with the other names
            }
            match custom::acp(name, entry.value.list()) {
                Ok(agent) => self.agents.add_last(agent),
                Err(why) => problems.push(entry.problem(&why)),
            }
        }
        problems
    }
}

/// The name of the agent that a key is about.
fn of(key: &Key) -> Option<&str> {
    match key {
        Key::Of(name, _) => Some(name),
        Key::Agent | Key::Limit(_) => None,
    }
}
