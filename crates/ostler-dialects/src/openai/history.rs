//! What was said so far, as the model is told it again with each request.
//!
//! It holds nothing that the session's events do not say, so that it can be rebuilt from them.

use std::fmt::Write as _;

use ostler_core::event::{TextKind, What};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The caller's.
    User(String),
    /// The model's.
    Assistant {
        /// What it said.
        text: String,
        /// The tools it called.
        calls: Vec<Called>,
    },
    /// What a tool gave.
    Tool {
        /// The call.
        id: String,
        /// What the model is told.
        text: String,
    },
}

/// A tool call that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Called {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: JSON, always.
    pub arguments: String,
}

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(pub(super) Vec<Message>);

impl History {
    /// The messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push(message);
    }

    /// Gives every tool call its result: servers refuse a conversation in which one is missing.
    pub(super) fn settle(&mut self, why: &str) {
        let Some(at) = self.0.iter().rposition(|m| matches!(m, Message::Assistant { .. })) else { return };
        let Message::Assistant { calls, .. } = &self.0[at] else { return };
        let answered =
            |id: &str| self.0[at..].iter().any(|m| matches!(m, Message::Tool { id: known, .. } if known == id));
        let open: Vec<String> = calls.iter().map(|call| call.id.clone()).filter(|id| !answered(id)).collect();
        // Behind the results that are there, and before anything else.
        let place = at + 1 + self.0[at + 1..].iter().take_while(|m| matches!(m, Message::Tool { .. })).count();
        let missing = open.into_iter().map(|id| Message::Tool { id, text: why.to_owned() });
        self.0.splice(place..place, missing);
    }

    /// Rebuilds a conversation from the events of a session, as far as they go.
    pub fn rebuild<'a>(events: impl IntoIterator<Item = &'a What>) -> Self {
        let mut builder = Builder::default();
        for what in events {
            builder.take(what);
        }
        builder.history.settle(LOST);
        builder.history
    }
}

/// What a call without a result is told to have given.
pub(super) const LOST: &str = "no result: the turn ended before the tool did";

/// Puts a conversation together from events.
#[derive(Debug, Default)]
struct Builder {
    history: History,
    /// The message that the last text belonged to.
    message: Option<String>,
    /// Whether the last assistant message can still grow.
    open: bool,
}

impl Builder {
    fn take(&mut self, what: &What) {
        match what {
            What::TurnStarted(turn) => {
                self.history.settle(LOST);
                self.open = false;
                if let Some(prompt) = &turn.prompt {
                    self.history.push(Message::User(prompt.clone()));
                }
            }
            What::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                self.open &= self.message == text.message;
                self.message.clone_from(&text.message);
                self.assistant().0.push_str(&text.text);
            }
            What::ToolCall(call) if call.parent.is_none() => {
                let input = call.input.get();
                let arguments = if input.starts_with('{') { input } else { "{}" };
                let called = Called { id: call.id.clone(), name: call.name.clone(), arguments: arguments.to_owned() };
                self.assistant().1.push(called);
            }
            What::ToolResult(result) => {
                self.open = false;
                self.history.push(Message::Tool { id: result.id.clone(), text: result.output.clone() });
            }
            _ => {}
        }
    }

    /// The assistant message that is being said.
    fn assistant(&mut self) -> (&mut String, &mut Vec<Called>) {
        if !(self.open && matches!(self.history.0.last(), Some(Message::Assistant { .. }))) {
            self.history.push(Message::Assistant { text: String::new(), calls: Vec::new() });
            self.open = true;
        }
        match self.history.0.last_mut() {
            Some(Message::Assistant { text, calls }) => (text, calls),
            _ => unreachable!("it was pushed above"),
        }
    }
}

impl Message {
    /// About how many characters it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::User(text) => text.len(),
            Self::Tool { id, text } => id.len() + text.len(),
            Self::Assistant { text, calls } => {
                text.len() + calls.iter().map(|c| c.id.len() + c.name.len() + c.arguments.len()).sum::<usize>()
            }
        }
    }

    /// As plain text, for a summary.
    pub(super) fn write(&self, to: &mut String) {
        let _ = match self {
            Self::User(text) => writeln!(to, "USER: {text}"),
            Self::Tool { text, .. } => writeln!(to, "TOOL RESULT: {text}"),
            Self::Assistant { text, calls } => {
                let calls =
                    calls.iter().map(|c| format!("\nTOOL CALL: {} {}", c.name, c.arguments)).collect::<String>();
                writeln!(to, "ASSISTANT: {text}{calls}")
            }
        };
    }
}

/// As the API has it.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Message", 3)?;
        match self {
            Self::User(text) => {
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
                map.serialize_field("content", &Some(text).filter(|text| !text.is_empty() || calls.is_empty()))?;
                if !calls.is_empty() {
                    let calls: Vec<_> = calls.iter().map(Wrapped::of).collect();
                    map.serialize_field("tool_calls", &calls)?;
                }
            }
        }
        map.end()
    }
}

/// A call as the API has it.
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
    fn of(call: &'a Called) -> Self {
        Self { id: &call.id, r#type: "function", function: Function { name: &call.name, arguments: &call.arguments } }
    }
}
