//! History of the conversation, sent to the model with each request.
//!
//! It contains nothing beyond the session's events, so that it can be rebuilt from them.

use std::fmt::Write as _;

use crate::message::{Message, ToolRequest};

/// One message of the history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A message from the user.
    User(String),
    /// A message on behalf of the user: from verification, a hook or Ostler itself.
    Injected(String),
    /// A message from the model.
    Assistant {
        /// The text.
        text: String,
        /// Tool calls.
        calls: Vec<ToolRequest>,
    },
    /// Result of a tool call.
    Tool {
        /// Id of the call.
        id: String,
        /// The result.
        text: String,
    },
}

/// History of a conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History(pub(crate) Vec<Entry>);

impl History {
    /// Returns the messages, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.0.iter().map(Message::from)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Adds a result to every open tool call: servers reject a conversation in which one is
    /// missing.
    pub(crate) fn close_open_calls(&mut self, why: &str) {
        let Some(at) = self
            .0
            .iter()
            .rposition(|m| matches!(m, Entry::Assistant { .. }))
        else {
            return;
        };
        let Entry::Assistant { calls, .. } = &self.0[at] else {
            return;
        };
        let answered = |id: &str| {
            self.0[at..]
                .iter()
                .any(|m| matches!(m, Entry::Tool { id: known, .. } if known == id))
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
                .take_while(|m| matches!(m, Entry::Tool { .. }))
                .count();
        let missing = open.into_iter().map(|id| Entry::Tool {
            id,
            text: why.to_owned(),
        });
        self.0.splice(place..place, missing);
    }
}

/// Result of a call that got none, as in the session's events.
pub(crate) const LOST: &str = "no result: the turn ended";

impl From<&Entry> for Message {
    fn from(entry: &Entry) -> Self {
        match entry {
            Entry::User(text) | Entry::Injected(text) => Self::user(text.as_str()),
            Entry::Tool { id, text } => Self::tool(id.as_str(), text.as_str()),
            Entry::Assistant { text, calls } => Self::Assistant {
                content: text.as_str().into(),
                tool_calls: calls.clone(),
            },
        }
    }
}

impl Entry {
    /// Returns the approximate number of characters.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::User(text) | Self::Injected(text) => text.len(),
            Self::Tool { id, text } => id.len() + text.len(),
            Self::Assistant { text, calls } => {
                text.len()
                    + calls
                        .iter()
                        .map(|c| c.id.len() + c.name.len() + c.args.get().len())
                        .sum::<usize>()
            }
        }
    }

    /// Writes the message as plain text, for a summary.
    pub(crate) fn write(&self, to: &mut String) {
        let _ = match self {
            Self::User(text) | Self::Injected(text) => writeln!(to, "USER: {text}"),
            Self::Tool { text, .. } => writeln!(to, "TOOL RESULT: {text}"),
            Self::Assistant { text, calls } => {
                let calls = calls
                    .iter()
                    .map(|c| format!("\nTOOL CALL: {} {}", c.name, c.args.get()))
                    .collect::<String>();
                writeln!(to, "ASSISTANT: {text}{calls}")
            }
        };
    }
}
