//! Assembles streamed tool calls. Servers differ in which fields they omit or repeat (pitfall P63):
//! the id, the index, the name. One index can stand for two calls, and the arguments come in one
//! piece, in many, or not at all.

use ostler_core::raw_json::RawJson;
use serde::de::IgnoredAny;

use super::chunk::{CallChunk, arguments};

/// A tool call received so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    index: Option<u64>,
}

/// Tool calls of one answer, in order of their start.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Total bytes of all arguments.
    size: usize,
    /// Whether the limits were exceeded.
    pub(super) overflowed: bool,
}

/// Maximum bytes of arguments and maximum number of calls in one answer.
const LIMITS: (usize, usize) = (16 * 1024 * 1024, 1000);

impl Calls {
    /// Adds a chunk of a tool call.
    pub(super) fn push(&mut self, chunk: &CallChunk<'_>) {
        let function = chunk.function.map();
        let name = function.map_or(chunk.name.or_empty(), |f| f.name.or_empty());
        let index = chunk.index.count();
        self.add(&Call {
            id: chunk.id.or_empty().to_owned(),
            name: name.to_owned(),
            arguments: arguments(function.map_or(chunk.arguments, |f| f.arguments)),
            index,
        });
    }

    /// Adds a chunk in the legacy function format: one call without id and index.
    pub(super) fn push_function(&mut self, name: &str, arguments: String) {
        self.add(&Call {
            name: name.to_owned(),
            arguments,
            ..Call::default()
        });
    }

    fn add(&mut self, new: &Call) {
        self.size += new.arguments.len();
        let position = self.position(new);
        self.overflowed |=
            self.size > LIMITS.0 || (position.is_none() && self.all.len() >= LIMITS.1);
        match position {
            _ if self.overflowed => {}
            Some(position) => self.all[position].join(new),
            None => self.all.push(new.clone()),
        }
    }

    /// Returns the call that a chunk belongs to, or `None` if it starts a new one.
    fn position(&self, new: &Call) -> Option<usize> {
        // The same id means the same call, unless the index differs or the call starts over.
        let same = |call: &Call| {
            call.id == new.id
                && (call.index == new.index || call.index.is_none() || new.index.is_none())
        };
        if !new.id.is_empty()
            && let Some(same) = self.all.iter().rposition(same)
            && (new.name.is_empty() || !self.all[same].is_complete())
        {
            return Some(same);
        }
        // The latest with that index: if two calls share one, the first is complete once the second
        // has started.
        let candidate = match new.index {
            Some(index) => self
                .all
                .iter()
                .rposition(|call| call.index == Some(index))?,
            None => self.all.len().checked_sub(1)?,
        };
        (!self.all[candidate].ended_by(new)).then_some(candidate)
    }

    /// Returns true if there are no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the calls. A call without a name gets one that no tool has, so that the model gets
    /// an error.
    pub(super) fn finish(self) -> Vec<Call> {
        let is_something = |call: &Call| {
            !(call.name.is_empty() && call.id.is_empty() && call.arguments.is_empty())
        };
        let with_name = |call: Call| {
            if call.name.is_empty() {
                Call {
                    name: "unnamed".into(),
                    ..call
                }
            } else {
                call
            }
        };
        self.all
            .into_iter()
            .filter(is_something)
            .map(with_name)
            .collect()
    }
}

impl Call {
    /// Creates a complete call.
    pub(super) fn of(id: &str, name: &str, arguments: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            index: None,
        }
    }

    /// Returns true if a chunk that could belong to this call starts a new one.
    fn ended_by(&self, new: &Self) -> bool {
        if new.name.is_empty() {
            // Only arguments, or an id that comes late or changes with every chunk.
            return false;
        }
        let other_id = !new.id.is_empty() && !self.id.is_empty();
        let other_name = !self.name.is_empty() && new.name != self.name;
        // A repeated name is either a server that repeats it, or a second call of the same tool.
        other_id || other_name || self.is_complete()
    }

    /// Parses the arguments: an object, or nothing, which means an empty one.
    ///
    /// # Errors
    /// Returns why they are not an object.
    pub(super) fn input(&self) -> Result<RawJson, String> {
        let text = self.arguments.trim();
        if text.is_empty() {
            return Ok(RawJson::of(&serde_json::Map::new()));
        }
        match RawJson::parse(text) {
            Ok(raw) if text.starts_with('{') => Ok(raw),
            Ok(_) => Err("something else was given".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_complete(&self) -> bool {
        self.arguments.ends_with('}') && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn join(&mut self, new: &Self) {
        if self.id.is_empty() {
            self.id.clone_from(&new.id);
        }
        if self.name.is_empty() {
            self.name.clone_from(&new.name);
        }
        self.index = self.index.or(new.index);
        self.arguments.push_str(&new.arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shape = (
        &'static str,
        &'static [&'static str],
        &'static [(&'static str, &'static str, &'static str)],
    );

    const A: &str = r#"{"path":"a"}"#;
    const B: &str = r#"{"path":"b"}"#;
    const BOTH: &[(&str, &str, &str)] = &[("1", "read", A), ("2", "read", B)];
    const BOTH_WITHOUT_ID: &[(&str, &str, &str)] = &[("", "read", A), ("", "read", B)];

    /// Chunks that servers send, and the resulting calls (id, name, arguments).
    #[rustfmt::skip]
    const SHAPES: &[Shape] = &[
        ("the standard: id and name first, then pieces", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"path\":"}}"#,
            r#"{"index":0,"function":{"arguments":"\"a\"}"}}"#,
            r#"{"index":1,"id":"2","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH),
        ("no id", &[
            r#"{"index":0,"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
            r#"{"index":1,"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH_WITHOUT_ID),
        ("no index", &[
            r#"{"id":"1","function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"function":{"arguments":"\"a\"}"}}"#,
            r#"{"id":"2","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH),
        ("neither id nor index", &[
            r#"{"function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"function":{"arguments":"\"a\"}"}}"#,
            r#"{"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH_WITHOUT_ID),
        ("two calls with one index", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
            r#"{"index":0,"id":"2","function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"index":0,"function":{"arguments":"\"b\"}"}}"#,
        ], BOTH),
        ("two calls with one index and no id", &[
            r#"{"index":0,"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
            r#"{"index":0,"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH_WITHOUT_ID),
        ("interleaved", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":""}}"#,
            r#"{"index":1,"id":"2","function":{"name":"read","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"path\":"}}"#,
            r#"{"index":1,"function":{"arguments":"{\"path\":"}}"#,
            r#"{"index":1,"function":{"arguments":"\"b\"}"}}"#,
            r#"{"index":0,"function":{"arguments":"\"a\"}"}}"#,
        ], BOTH),
        ("id and name repeated with every piece", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":"\"a\"}"}}"#,
            r#"{"index":1,"id":"2","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH),
        ("another id with every piece", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"index":0,"id":"x","function":{"arguments":"\"a\"}"}}"#,
            r#"{"index":1,"id":"2","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], BOTH),
        ("the name repeated, no id", &[
            r#"{"index":0,"function":{"name":"read","arguments":"{\"path\":"}}"#,
            r#"{"index":0,"function":{"name":"read","arguments":"\"a\"}"}}"#,
        ], &[("", "read", A)]),
        ("the id comes late", &[
            r#"{"index":0,"function":{"name":"read"}}"#,
            r#"{"index":0,"id":"1","function":{"arguments":"{\"path\":\"a\"}"}}"#,
        ], &[("1", "read", A)]),
        ("no arguments", &[
            r#"{"index":0,"id":"1","function":{"name":"list"}}"#,
            r#"{"index":1,"id":"2","function":{"name":"list","arguments":null}}"#,
            r#"{"index":2,"id":"3","function":{"name":"list","arguments":""}}"#,
        ], &[("1", "list", ""), ("2", "list", ""), ("3", "list", "")]),
        ("arguments as an object", &[
            r#"{"id":"1","function":{"name":"read","arguments":{"path":"a"}}}"#,
        ], &[("1", "read", A)]),
        ("no function around them", &[
            r#"{"id":"1","name":"read","arguments":"{\"path\":\"a\"}"}"#,
        ], &[("1", "read", A)]),
        ("an index that is a word, a null id", &[
            r#"{"index":"0","id":null,"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
        ], &[("", "read", A)]),
        ("no name at all", &[r#"{"index":0,"function":{"arguments":"{}"}}"#], &[("", "unnamed", "{}")]),
        ("nothing at all", &[r#"{"index":0,"function":{}}"#], &[]),
        ("two calls with one id", &[
            r#"{"index":0,"id":"1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
            r#"{"index":1,"id":"1","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], &[("1", "read", A), ("1", "read", B)]),
        ("two calls with one id and no index", &[
            r#"{"id":"1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
            r#"{"id":"1","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
        ], &[("1", "read", A), ("1", "read", B)]),
    ];

    // P63
    #[test]
    fn every_form_of_streamed_tool_calls_is_assembled() {
        for (shape, chunks, wanted) in SHAPES {
            let mut calls = Calls::default();
            for chunk in *chunks {
                calls.push(&serde_json::from_str(chunk).unwrap());
            }
            let calls = calls.finish();
            let found: Vec<_> = calls
                .iter()
                .map(|c| (&*c.id, &*c.name, &*c.arguments))
                .collect();
            assert_eq!(found, *wanted, "{shape}");
        }
    }
}
