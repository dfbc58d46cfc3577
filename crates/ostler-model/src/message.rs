//! Messages to a model and its reply.

use std::borrow::Cow;

use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::usage::Usage;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Content of a message: text or structured data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Any other JSON, such as a list of parts.
    Structured(RawJson),
}

impl Content {
    /// Returns the content as text, with structured data as JSON.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Structured(raw) => Cow::Borrowed(raw.get()),
        }
    }
}

/// Implemented by hand, because raw JSON cannot be deserialized through the buffer that serde uses
/// for untagged enums.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        if !raw.get().starts_with('"') {
            return Ok(Self::Structured(raw));
        }
        serde_json::from_str(raw.get())
            .map(Self::Text)
            .map_err(D::Error::custom)
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<RawJson> for Content {
    fn from(raw: RawJson) -> Self {
        Self::Structured(raw)
    }
}

/// One message of a conversation with a model.
#[must_use]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", try_from = "RawMessage")]
pub enum Message {
    /// Instructions for the whole conversation.
    System {
        /// The content.
        content: Content,
    },
    /// A message from the user.
    User {
        /// The content.
        content: Content,
    },
    /// A message from the model.
    Assistant {
        /// The content.
        content: Content,
        /// Tool calls requested by the model.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolRequest>,
    },
    /// Result of a tool call.
    Tool {
        /// Id of the tool call.
        tool_call_id: String,
        /// The result.
        content: Content,
    },
    /// A message from another participant.
    Other {
        /// Name of the participant.
        name: String,
        /// The content.
        content: Content,
    },
}

impl Message {
    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System {
            content: content.into(),
        }
    }

    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::User {
            content: content.into(),
        }
    }

    /// Creates an assistant message without tool calls.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::Assistant {
            content: content.into(),
            tool_calls: Vec::new(),
        }
    }

    /// Creates a tool result.
    pub fn tool(call: impl Into<String>, content: impl Into<Content>) -> Self {
        Self::Tool {
            tool_call_id: call.into(),
            content: content.into(),
        }
    }

    /// Returns the content.
    #[must_use]
    pub fn content(&self) -> &Content {
        match self {
            Self::System { content }
            | Self::User { content }
            | Self::Assistant { content, .. }
            | Self::Tool { content, .. }
            | Self::Other { content, .. } => content,
        }
    }
}

/// Serialized form of a message.
#[derive(Deserialize)]
struct RawMessage {
    role: String,
    #[serde(default)]
    content: Content,
    #[serde(default)]
    tool_calls: Vec<ToolRequest>,
    #[serde(default)]
    tool_call_id: String,
    #[serde(default)]
    name: String,
}

/// A role that no message has.
#[derive(Debug, thiserror::Error)]
#[error("unknown role {0:?}; expected system, user, assistant, tool or other")]
struct UnknownRole(String);

impl TryFrom<RawMessage> for Message {
    type Error = UnknownRole;

    fn try_from(line: RawMessage) -> Result<Self, UnknownRole> {
        let RawMessage {
            role,
            content,
            tool_calls,
            tool_call_id,
            name,
        } = line;
        match &*role {
            "system" => Ok(Self::System { content }),
            "user" => Ok(Self::User { content }),
            "assistant" => Ok(Self::Assistant {
                content,
                tool_calls,
            }),
            "tool" => Ok(Self::Tool {
                tool_call_id,
                content,
            }),
            "other" => Ok(Self::Other { name, content }),
            _ => Err(UnknownRole(role)),
        }
    }
}

/// A tool call requested by the model. The caller runs it and passes the result with the next
/// messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Id of the call, repeated in its result.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as a JSON object.
    pub args: RawJson,
}

/// A model's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text of the reply; empty if it only calls tools.
    pub content: String,
    /// Requested tool calls, in order.
    pub tool_calls: Vec<ToolRequest>,
    /// Tokens and cost of this reply, per model; empty if not reported.
    pub usage: Vec<Usage>,
    /// Why the reply ended.
    pub stop: Stop,
}

impl Reply {
    /// Converts the reply to a message for the next request.
    pub fn to_message(&self) -> Message {
        Message::Assistant {
            content: Content::Text(self.content.clone()),
            tool_calls: self.tool_calls.clone(),
        }
    }
}

/// Reason why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model finished.
    End,
    /// The model waits for tool results.
    ToolCalls,
    /// The output limit was reached; the reply is incomplete.
    Length,
    /// The model refused to answer.
    Refused,
}

/// The error of a model that did not reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", .outcome.message)]
pub struct ModelError {
    /// The outcome, with a cause that a program can branch on.
    pub outcome: Box<Outcome>,
    /// Usage up to the error.
    pub usage: Vec<Usage>,
}

impl ModelError {
    /// Creates an error with this outcome and no usage.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome: Box::new(outcome),
            usage: Vec::new(),
        }
    }

    /// Returns the outcome's cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.outcome.cause
    }
}
