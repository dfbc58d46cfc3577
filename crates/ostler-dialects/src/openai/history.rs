//! History of the conversation, sent to the model with each request.
//!
//! It contains nothing beyond the session's events, so that it can be rebuilt from them.

use std::fmt::Write as _;

use ostler_core::raw_json::RawJson;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::plain;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A message from the user.
    User(String),
    /// A message on behalf of the user: from verification, a hook or Ostler itself.
    Injected(String),
    /// A message from the model.
    Assistant {
        /// The text.
        text: String,
        /// Tool calls.
        calls: Vec<HistoryCall>,
    },
    /// Result of a tool call.
    Tool {
        /// Id of the call.
        id: String,
        /// The result.
        text: String,
    },
}

/// A tool call in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryCall {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, always valid JSON.
    pub arguments: String,
}

/// History of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(pub(super) Vec<Message>);

impl History {
    /// Returns the messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push(message);
    }

    /// Adds a result to every open tool call: servers reject a conversation in which one is
    /// missing.
    pub(super) fn close_open_calls(&mut self, why: &str) {
        let Some(at) = self
            .0
            .iter()
            .rposition(|m| matches!(m, Message::Assistant { .. }))
        else {
            return;
        };
        let Message::Assistant { calls, .. } = &self.0[at] else {
            return;
        };
        let answered = |id: &str| {
            self.0[at..]
                .iter()
                .any(|m| matches!(m, Message::Tool { id: known, .. } if known == id))
        };
        let open: Vec<String> = calls
            .iter()
            .map(|call| call.id.clone())
            .filter(|id| !answered(id))
            .collect();
        // After the existing results, and before anything else.
        let place = at
            + 1
            + self.0[at + 1..]
                .iter()
                .take_while(|m| matches!(m, Message::Tool { .. }))
                .count();
        let missing = open.into_iter().map(|id| Message::Tool {
            id,
            text: why.to_owned(),
        });
        self.0.splice(place..place, missing);
    }
}

/// Result of a call that got none, as in the session's events.
pub(super) const LOST: &str = "no result: the turn ended";

impl From<&Message> for plain::Message {
    fn from(message: &Message) -> Self {
        let call = |call: &HistoryCall| plain::ToolRequest {
            id: call.id.clone(),
            name: call.name.clone(),
            args: RawJson::parse(&call.arguments)
                .unwrap_or_else(|_| RawJson::of(&serde_json::Map::new())),
        };
        match message {
            Message::User(text) | Message::Injected(text) => Self::user(text.as_str()),
            Message::Tool { id, text } => Self::tool(id.as_str(), text.as_str()),
            Message::Assistant { text, calls } => Self::Assistant {
                content: text.as_str().into(),
                tool_calls: calls.iter().map(call).collect(),
            },
        }
    }
}

impl Message {
    /// Returns the approximate number of characters.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::User(text) | Self::Injected(text) => text.len(),
            Self::Tool { id, text } => id.len() + text.len(),
            Self::Assistant { text, calls } => {
                text.len()
                    + calls
                        .iter()
                        .map(|c| c.id.len() + c.name.len() + c.arguments.len())
                        .sum::<usize>()
            }
        }
    }

    /// Writes the message as plain text, for a summary.
    pub(super) fn write(&self, to: &mut String) {
        let _ = match self {
            Self::User(text) | Self::Injected(text) => writeln!(to, "USER: {text}"),
            Self::Tool { text, .. } => writeln!(to, "TOOL RESULT: {text}"),
            Self::Assistant { text, calls } => {
                let calls = calls
                    .iter()
                    .map(|c| format!("\nTOOL CALL: {} {}", c.name, c.arguments))
                    .collect::<String>();
                writeln!(to, "ASSISTANT: {text}{calls}")
            }
        };
    }
}

/// Serialized in the format of the API.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Message", 3)?;
        match self {
            Self::User(text) | Self::Injected(text) => {
                map.serialize_field("role", "user")?;
                map.serialize_field("content", text)?;
            }
            Self::Tool { id, text } => {
                map.serialize_field("role", "tool")?;
                map.serialize_field("tool_call_id", id)?;
                map.serialize_field("content", text)?;
            }
            Self::Assistant { text, calls } => {
                map.serialize_field("role", "assistant")?;
                map.serialize_field(
                    "content",
                    &Some(text).filter(|text| !text.is_empty() || calls.is_empty()),
                )?;
                if !calls.is_empty() {
                    let calls: Vec<_> = calls.iter().map(Wrapped::of).collect();
                    map.serialize_field("tool_calls", &calls)?;
                }
            }
        }
        map.end()
    }
}

/// A call in the format of the API.
#[derive(Serialize)]
struct Wrapped<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Wrapped<'a> {
    fn of(call: &'a HistoryCall) -> Self {
        Self {
            id: &call.id,
            r#type: "function",
            function: Function {
                name: &call.name,
                arguments: &call.arguments,
            },
        }
    }
}
