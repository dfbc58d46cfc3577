//! A request for one reply.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// A request for one reply: the conversation so far and the available tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Name of the model.
    pub model: String,
    /// The conversation, with the system prompt first.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOffer>,
    /// JSON schema of the answer, if it is to be structured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<RawJson>,
}
