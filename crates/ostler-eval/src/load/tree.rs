//! Values of a file with the place of each: the same tree for YAML, TOML and JSON.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Number, Value};

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// Returns the position of a byte offset in a text.
    #[must_use]
    pub fn of_offset(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it starts.
    pub at: Position,
    /// The value.
    pub data: Data,
}

/// The value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Nothing: `null`, `~` or an empty value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the file.
    Table(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns the value as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Table(entries) => Value::Object(table_to_json(entries)),
        }
    }

    /// Returns the kind of value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }

    /// Returns the value of a key, if this is a table that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns a key with its value, if this is a table that has it.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Returns the place of a path such as `config.assertions.max_files`: of its last key that
    /// exists.
    #[must_use]
    pub fn position_of(&self, path: &str) -> Position {
        let (mut at, mut node) = (self.at, self);
        for key in path.split(['.', '[']).map(|key| key.trim_end_matches(']')) {
            let next = match &node.data {
                Data::List(items) => key.parse().ok().and_then(|index: usize| items.get(index)),
                _ => node.entry(key).map(|entry| {
                    at = entry.at;
                    &entry.value
                }),
            };
            let Some(next) = next else { break };
            if matches!(node.data, Data::List(_)) {
                at = next.at;
            }
            node = next;
        }
        at
    }
}

/// Returns the entries of a table as JSON.
#[must_use]
pub fn table_to_json(entries: &[Entry]) -> Map<String, Value> {
    let pairs = entries.iter();
    pairs
        .map(|entry| (entry.key.clone(), entry.value.to_json()))
        .collect()
}

/// What kind of fault a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The file cannot be read.
    Unreadable,
    /// The file is not valid YAML, TOML or JSON.
    Syntax,
    /// A key that does not exist.
    UnknownKey,
    /// A required key is missing.
    MissingKey,
    /// A value of the wrong type.
    WrongType,
    /// A value beyond its bounds, or not in its form.
    OutOfBounds,
    /// A name that does not exist: an agent, an evaluator, a variable.
    UnknownName,
    /// Two values that exclude each other, or a name used twice.
    Conflict,
    /// A path that leaves its directory.
    OutsideDirectory,
    /// Something that is understood and not supported.
    Unsupported,
}

/// A fault in a file of cases: where, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The place in it, if there is one.
    pub at: Option<Position>,
    /// The key, such as `evaluators[1].config.threshold`; empty for the whole file.
    pub key: String,
    /// The kind of fault.
    pub code: ProblemCode,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        if self.key.is_empty() {
            write!(f, ": {}", self.message)
        } else {
            write!(f, ": `{}`: {}", self.key, self.message)
        }
    }
}

/// The faults of one or more files. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
