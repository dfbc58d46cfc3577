//! Parts of a reply as they arrive from a model, whatever the model is.

use ostler_core::outcome::Outcome;
use ostler_core::usage::Usage;
use serde::{Deserialize, Serialize};

use crate::calls::Call;

/// One part of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The server's id of the reply.
    Id(String),
    /// The model that replies, as the server names it.
    Model(String),
    /// A piece of the text; empty if the reply begins without one.
    Text(String),
    /// A piece of the model's reasoning.
    Thinking(String),
    /// A piece of the text in which the model refuses to answer.
    Refusal(String),
    /// A tool call, or a piece of one.
    Call(Call),
    /// The whole reply at once. After other parts it only repeats them.
    Whole(Vec<Self>),
    /// Why the reply ended.
    Finish(Finish),
    /// Tokens and cost on one model so far. It replaces earlier numbers of that model.
    Usage(Usage),
    /// The usage is reported with a later reply.
    UsageLater,
    /// The server aborted the reply.
    Aborted(Box<Outcome>),
    /// Nothing follows.
    Done,
}

impl Part {
    /// Returns true if the part belongs to the answer itself, and is not a fact about it.
    pub(crate) fn is_content(&self) -> bool {
        matches!(
            self,
            Self::Text(_)
                | Self::Thinking(_)
                | Self::Refusal(_)
                | Self::Call(_)
                | Self::Whole(_)
                | Self::Finish(_)
        )
    }
}

/// Reason why a reply ended, as a server names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The output limit was reached.
    Length,
    /// A filter of the server withheld the answer.
    ContentFilter,
    /// Any other reason.
    Other(String),
}

impl Finish {
    /// Returns the server's name for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Other(reason) => reason,
        }
    }
}

impl From<String> for Finish {
    fn from(reason: String) -> Self {
        match &*reason {
            "stop" => Self::Stop,
            "tool_calls" => Self::ToolCalls,
            "length" => Self::Length,
            "content_filter" => Self::ContentFilter,
            _ => Self::Other(reason),
        }
    }
}

impl From<Finish> for String {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Other(reason) => reason,
            known => known.as_str().to_owned(),
        }
    }
}
