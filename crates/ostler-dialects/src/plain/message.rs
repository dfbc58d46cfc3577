//! The messages that go to a model, and the reply that comes back.

use std::borrow::Cow;

use ostler_core::raw_json::RawJson;
use ostler_core::usage::Usage;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What a message says: text, or something with structure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Words.
    Text(String),
    /// Anything else, as JSON: a list of parts, for example.
    Structured(RawJson),
}

impl Content {
    /// As text: words as they are, anything else as JSON.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Structured(raw) => Cow::Borrowed(raw.get()),
        }
    }
}

/// By hand, since what is kept as it was written cannot be read through a copy, which is how untagged forms are told apart.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", try_from = "Line")]
pub enum Message {
    /// What holds for the whole conversation.
    System {
        /// What it says.
        content: Content,
    },
    /// The user's.
    User {
        /// What it says.
        content: Content,
    },
    /// The model's.
    Assistant {
        /// What it says.
        content: Content,
        /// The tools it called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolRequest>,
    },
    /// What a tool gave.
    Tool {
        /// The call that it answers.
        tool_call_id: String,
        /// What it gave.
        content: Content,
    },
    /// Anybody else's.
    Other {
        /// Whose.
        name: String,
        /// What it says.
        content: Content,
    },
}

impl Message {
    /// A message of the system's.
    #[must_use]
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System {
            content: content.into(),
        }
    }

    /// A message of the user's.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self::User {
            content: content.into(),
        }
    }

    /// A message of the model's, without tool calls.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::Assistant {
            content: content.into(),
            tool_calls: Vec::new(),
        }
    }

    /// What a tool gave.
    #[must_use]
    pub fn tool(call: impl Into<String>, content: impl Into<Content>) -> Self {
        Self::Tool {
            tool_call_id: call.into(),
            content: content.into(),
        }
    }

    /// What it says.
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

/// A message as it is written.
#[derive(Deserialize)]
struct Line {
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

impl TryFrom<Line> for Message {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        let Line {
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
            _ => Err(format!(
                "no message has the role {role:?}; there are: system, user, assistant, tool, other"
            )),
        }
    }
}

/// A tool that the model wants run. Whoever asked the model runs it, and tells it the result with the next messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The call: its result carries it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: a JSON object.
    pub args: RawJson,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it says; empty when it only calls tools.
    pub content: String,
    /// The tools that it wants run, in its order.
    pub tool_calls: Vec<ToolRequest>,
    /// Tokens and cost of this answer, per model; empty when nobody said.
    pub usage: Vec<Usage>,
    /// Why it ended here.
    pub stop: Stop,
}

impl Reply {
    /// The reply as a message for the next request.
    #[must_use]
    pub fn to_message(&self) -> Message {
        Message::Assistant {
            content: Content::Text(self.content.clone()),
            tool_calls: self.tool_calls.clone(),
        }
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model said all it wanted to say.
    End,
    /// It waits for tools.
    ToolCalls,
    /// Its limit on output: what is there is only a part.
    Length,
    /// It refused.
    Refused,
}
