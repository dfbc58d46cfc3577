//! Typed access to the tables of a file. Every fault is noted with its place, and reading goes on,
//! so that all faults of a file are reported at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::near::suggestion;

use super::tree::{Data, Entry, Node, Position, Problem, ProblemCode};

/// The faults found so far in one file.
pub(crate) struct Findings {
    file: PathBuf,
    pub(crate) problems: Vec<Problem>,
}

impl Findings {
    pub(crate) fn of(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            problems: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        at: Position,
        key: &str,
        code: ProblemCode,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem {
            file: self.file.clone(),
            at: Some(at),
            key: key.to_owned(),
            code,
            message: message.into(),
        });
    }
}

/// A table of a file and the path of keys that leads to it.
#[derive(Clone)]
pub(crate) struct Section<'n> {
    pub(crate) path: String,
    pub(crate) at: Position,
    pub(crate) node: &'n Node,
    entries: &'n [Entry],
}

impl<'n> Section<'n> {
    /// Reads a value as a table.
    pub(crate) fn of(node: &'n Node, path: &str, findings: &mut Findings) -> Option<Self> {
        match &node.data {
            Data::Table(entries) => Some(Self {
                path: path.to_owned(),
                at: node.at,
                node,
                entries,
            }),
            _ => {
                wrong_type(node, path, "a table of keys and values", findings);
                None
            }
        }
    }

    /// Returns the full name of a key.
    pub(crate) fn key(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn entries(&self) -> &'n [Entry] {
        self.entries
    }

    /// Returns the value of a key, unless it is missing or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        let node = self.entries.iter().find(|entry| entry.key == key);
        let node = &node?.value;
        (node.data != Data::Null).then_some(node)
    }

    /// Returns the place of a key, or of the table if it is missing.
    pub(crate) fn place(&self, key: &str) -> Position {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(self.at, |entry| entry.at)
    }

    /// Notes every key that is not in the list.
    pub(crate) fn only(&self, known: &[&str], findings: &mut Findings) {
        for entry in self.entries {
            if !known.contains(&entry.key.as_str()) {
                let message = format!("unknown key; {}", suggestion(&entry.key, known));
                let key = self.key(&entry.key);
                findings.add(entry.at, &key, ProblemCode::UnknownKey, message);
            }
        }
    }

    /// Notes a fault of a key.
    pub(crate) fn fault(
        &self,
        key: &str,
        code: ProblemCode,
        message: impl Into<String>,
        findings: &mut Findings,
    ) {
        findings.add(self.place(key), &self.key(key), code, message);
    }

    /// Notes that two keys exclude each other, and returns true, if both are set.
    pub(crate) fn exclusive(&self, one: &str, other: &str, findings: &mut Findings) -> bool {
        let both = self.has(one) && self.has(other);
        if both {
            let message = format!("`{one}` and `{other}` exclude each other; remove one of them");
            self.fault(other, ProblemCode::Conflict, message, findings);
        }
        both
    }

    pub(crate) fn section(&self, key: &str, findings: &mut Findings) -> Option<Self> {
        Self::of(self.get(key)?, &self.key(key), findings)
    }

    pub(crate) fn list(&self, key: &str, findings: &mut Findings) -> &'n [Node] {
        let Some(node) = self.get(key) else {
            return &[];
        };
        match &node.data {
            Data::List(items) => items,
            _ => {
                wrong_type(node, &self.key(key), "a list", findings);
                &[]
            }
        }
    }

    pub(crate) fn text(&self, key: &str, findings: &mut Findings) -> Option<String> {
        text(self.get(key)?, &self.key(key), findings)
    }

    /// Returns a text of at most `max` characters that is not empty.
    pub(crate) fn bounded(&self, key: &str, max: usize, findings: &mut Findings) -> Option<String> {
        let text = self.text(key, findings)?;
        let length = text.chars().count();
        if length == 0 || length > max {
            let message = if length == 0 {
                "must not be empty".to_owned()
            } else {
                format!("has {length} characters; at most {max} are allowed")
            };
            self.fault(key, ProblemCode::OutOfBounds, message, findings);
            return None;
        }
        Some(text)
    }

    pub(crate) fn texts(&self, key: &str, findings: &mut Findings) -> Vec<String> {
        let items = self.list(key, findings).iter().enumerate();
        items
            .filter_map(|(index, item)| text(item, &self.item(key, index), findings))
            .collect()
    }

    /// Returns the full name of an item of a list.
    pub(crate) fn item(&self, key: &str, index: usize) -> String {
        format!("{}[{index}]", self.key(key))
    }

    pub(crate) fn text_map(&self, key: &str, findings: &mut Findings) -> BTreeMap<String, String> {
        let Some(section) = self.section(key, findings) else {
            return BTreeMap::new();
        };
        let entries = section.entries.iter().filter_map(|entry| {
            let value = scalar_text(&entry.value);
            if value.is_none() {
                let key = section.key(&entry.key);
                wrong_type(&entry.value, &key, "a text", findings);
            }
            Some((entry.key.clone(), value?))
        });
        entries.collect()
    }

    pub(crate) fn bool(&self, key: &str, findings: &mut Findings) -> Option<bool> {
        let node = self.get(key)?;
        match node.data {
            Data::Bool(value) => Some(value),
            _ => {
                wrong_type(node, &self.key(key), "true or false", findings);
                None
            }
        }
    }

    /// Returns a whole number from `min`.
    pub(crate) fn whole(&self, key: &str, min: u64, findings: &mut Findings) -> Option<u64> {
        let node = self.get(key)?;
        let number = match &node.data {
            Data::Number(number) => number.as_u64(),
            _ => None,
        };
        let number = number.filter(|number| *number >= min);
        if number.is_none() {
            let expected = format!("a whole number from {min}");
            wrong_type(node, &self.key(key), &expected, findings);
        }
        number
    }

    /// Returns a finite number that is at least `min`.
    pub(crate) fn number(&self, key: &str, min: f64, findings: &mut Findings) -> Option<f64> {
        let node = self.get(key)?;
        let number = match &node.data {
            Data::Number(number) => number.as_f64(),
            _ => None,
        };
        let number = number.filter(|number| *number >= min);
        if number.is_none() {
            let expected = format!("a number from {min}");
            wrong_type(node, &self.key(key), &expected, findings);
        }
        number
    }

    /// Returns a duration: milliseconds as a number, or a text such as `90s` or `10m`.
    pub(crate) fn duration(&self, key: &str, findings: &mut Findings) -> Option<Duration> {
        let node = self.get(key)?;
        let duration = match &node.data {
            Data::Number(number) => number.as_u64().map(Duration::from_millis),
            Data::Text(text) => parse_duration(text),
            _ => None,
        };
        match duration {
            Some(duration) if duration.is_zero() => {
                let message = "must be longer than nothing; remove the key for no limit";
                self.fault(key, ProblemCode::OutOfBounds, message, findings);
                None
            }
            Some(duration) if duration < Duration::from_secs(1) => {
                let message = format!(
                    "is less than a second: a number is milliseconds; write \"{}s\" for seconds",
                    duration.as_millis()
                );
                self.fault(key, ProblemCode::OutOfBounds, message, findings);
                None
            }
            Some(duration) => Some(duration),
            None => {
                let expected = "milliseconds, or a text such as \"90s\", \"10m\" or \"1h\"";
                wrong_type(node, &self.key(key), expected, findings);
                None
            }
        }
    }
}

/// Joins a path of keys and a key.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Reads a value as a text.
pub(crate) fn text(node: &Node, path: &str, findings: &mut Findings) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        _ => {
            wrong_type(node, path, "a text (put it in quotes)", findings);
            None
        }
    }
}

/// Returns a scalar as text, as a variable of the environment takes it.
fn scalar_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        Data::Number(number) => Some(number.to_string()),
        Data::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

pub(crate) fn wrong_type(node: &Node, path: &str, expected: &str, findings: &mut Findings) {
    let message = format!("expected {expected}, got {}", node.kind());
    findings.add(node.at, path, ProblemCode::WrongType, message);
}

/// Parses `500ms`, `90s`, `10m`, `1.5h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}
