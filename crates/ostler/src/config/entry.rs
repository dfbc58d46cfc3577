//! One value of a configuration, and where it comes from.

use std::fmt;
use std::sync::Arc;

use super::key::Key;
use super::{Problem, reference};

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Value,
    /// Where it comes from.
    pub from: Origin,
}

/// A value: a text or a list of texts. What else TOML has is a text here.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// One.
    Text(String),
    /// Any number.
    List(Vec<String>),
}

/// It may be a secret.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File {
        /// Its name.
        name: Arc<str>,
        /// The line.
        line: usize,
    },
    /// A flag of the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Value {
    /// The text; of a list, the first.
    #[must_use]
    pub fn text(&self) -> &str {
        self.list().first().map_or("", String::as_str)
    }

    /// The texts.
    #[must_use]
    pub fn list(&self) -> &[String] {
        match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::List(list) => list,
        }
    }
}

impl Entry {
    /// The value as it may be shown.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) if self.key.is_secret() => reference::masked(text),
            Value::Text(text) => text.clone(),
            Value::List(list) => format!("{list:?}"),
        }
    }

    /// A problem with it.
    pub(super) fn problem(&self, why: &str) -> Problem {
        let message = format!("{}: {why}", self.key);
        match &self.from {
            Origin::File { name, line } => Problem::new(name, Some(*line), message),
            from => Problem::new(&from.to_string(), None, message),
        }
    }
}
