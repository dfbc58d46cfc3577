//! Assembles streamed tool calls. Servers differ in which fields they omit or repeat (pitfall P63):
//! the id, the index, the name. One index can stand for two calls, and the arguments come in one
//! piece, in many, or not at all.

use ostler_core::raw_json::RawJson;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::message::ToolRequest;

/// A tool call, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Position among the calls of the reply, by which a server tells its pieces apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Id of the call; empty if the model assigned none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Arguments, as JSON text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
}

/// Tool calls of one answer, in order of their start.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: Vec<Call>,
    /// Total bytes of all arguments.
    size: usize,
    /// Whether the limits were exceeded.
    pub(crate) overflowed: bool,
}

/// Maximum bytes of arguments in one answer.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of calls in one answer.
const MAX_CALLS: usize = 1000;

impl Calls {
    /// Adds a piece of a tool call.
    pub(crate) fn push(&mut self, new: Call) {
        self.size += new.arguments.len();
        let position = self.position(&new);
        self.overflowed |=
            self.size > MAX_BYTES || (position.is_none() && self.all.len() >= MAX_CALLS);
        match position {
            _ if self.overflowed => {}
            Some(position) => self.all[position].join(new),
            None => self.all.push(new),
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
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the calls. A call without a name gets one that no tool has, so that the model gets
    /// an error.
    pub(crate) fn finish(self) -> Vec<Call> {
        let is_something = |call: &Call| {
            !(call.name.is_empty() && call.id.is_empty() && call.arguments.is_empty())
        };
        let with_name = |mut call: Call| {
            if call.name.is_empty() {
                call.name = "unnamed".into();
            }
            call
        };
        self.all
            .into_iter()
            .filter(is_something)
            .map(with_name)
            .collect()
    }
}

/// Why the arguments of a call are not an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAnObject {
    /// They are not JSON.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    /// They are other JSON.
    #[error("something else was given")]
    OtherJson,
}

impl Call {
    /// Creates a complete call.
    pub(crate) fn of(id: &str, name: &str, arguments: &str) -> Self {
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
    pub(crate) fn input(&self) -> Result<RawJson, NotAnObject> {
        let text = self.arguments.trim();
        if text.is_empty() {
            return Ok(RawJson::empty_object());
        }
        match RawJson::parse(text)? {
            raw if text.starts_with('{') => Ok(raw),
            _ => Err(NotAnObject::OtherJson),
        }
    }

    /// Converts the call for a caller that runs it. Arguments that are not an object are passed on,
    /// so that the tool reports the error. `n` is the call's number in the reply.
    pub(crate) fn into_request(self, n: usize) -> ToolRequest {
        let args = self
            .input()
            .unwrap_or_else(|_| RawJson::string(&self.arguments));
        let id = if self.id.is_empty() {
            format!("call_{n}")
        } else {
            self.id
        };
        ToolRequest {
            id,
            name: self.name,
            args,
        }
    }

    fn is_complete(&self) -> bool {
        self.arguments.ends_with('}') && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn join(&mut self, new: Self) {
        if self.id.is_empty() {
            self.id = new.id;
        }
        if self.name.is_empty() {
            self.name = new.name;
        }
        self.index = self.index.or(new.index);
        self.arguments.push_str(&new.arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::decode;
    use crate::part::Part;

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
                let payload = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{chunk}]}}}}]}}"#);
                for part in decode(&payload).unwrap() {
                    if let Part::Call(call) = part {
                        calls.push(call);
                    }
                }
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
