//! A configured value and its origin.

use std::fmt;
use std::sync::Arc;

use super::key::Key;
use super::{Problem, reference};

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// The origin of the value.
    pub from: Origin,
}

/// A value: a string or a list of strings. Other TOML types are converted to strings.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// A single string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
}

/// Hides the value, which may be a secret.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File {
        /// The file's name.
        name: Arc<str>,
        /// The line.
        line: usize,
    },
    /// A flag on the command line.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// The built-in default.
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
    /// Returns the string; of a list, the first.
    #[must_use]
    pub fn text(&self) -> &str {
        self.list().first().map_or("", String::as_str)
    }

    /// Returns the strings.
    #[must_use]
    pub fn list(&self) -> &[String] {
        match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::List(list) => list,
        }
    }
}

impl Entry {
    /// Returns the value for display.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) if self.key.is_secret() => reference::masked(text),
            Value::Text(text) => text.clone(),
            Value::List(list) => format!("{list:?}"),
        }
    }

    /// Creates a problem with this value.
    pub(super) fn problem(&self, why: &str) -> Problem {
        let message = format!("{}: {why}", self.key);
        match &self.from {
            Origin::File { name, line } => Problem::new(name, Some(*line), message),
            from => Problem::new(&from.to_string(), None, message),
        }
    }
}
