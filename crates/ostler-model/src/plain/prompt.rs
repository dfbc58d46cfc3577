//! Formats messages and tools as one prompt.

use std::fmt::Write as _;

use ostler_core::spec::ToolOffer;
use serde::Serialize;

use crate::message::{Message, ToolRequest};

/// Instructions for calling a tool.
const FORMAT: &str = "To use tools, answer with one fenced block of JSON in exactly this form, and nothing after it:\n\
```json\n\
{\"tool_calls\": [{\"name\": \"<the tool>\", \"id\": \"<a new id>\", \"args\": {<its arguments>}}]}\n\
```\n\
Calls that do not depend on each other can stand in one list. The results come with the next message. \
These are the only tools there are. If you need none, answer in plain text without such a block.";

/// Returns the text placed before the conversation if there are tools: the list, and how to call
/// them.
#[must_use]
pub fn tool_preamble(tools: &[ToolOffer]) -> String {
    let list = serde_json::to_string_pretty(tools).unwrap_or_default();
    format!("Available tools:\n{list}\n\n{FORMAT}")
}

/// Formats the conversation as one text: each message with a label above it, separated by blank
/// lines.
#[must_use]
pub fn write_messages(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        // Writing to a string cannot fail.
        let _ = match message {
            Message::System { .. } => write!(text, "[System]"),
            Message::User { .. } => write!(text, "[User]"),
            Message::Assistant { .. } => write!(text, "[Assistant]"),
            Message::Tool { tool_call_id, .. } => write!(text, "[Tool Result ({tool_call_id})]"),
            Message::Other { name, .. } => write!(text, "[{name}]"),
        };
        text.push('\n');
        match message {
            Message::Assistant {
                content,
                tool_calls,
            } => text.push_str(&write_reply(&content.as_text(), tool_calls)),
            other => text.push_str(&other.content().as_text()),
        }
    }
    text
}

/// Formats a reply the way the model is asked to write it.
#[must_use]
pub fn write_reply(content: &str, calls: &[ToolRequest]) -> String {
    #[derive(Serialize)]
    struct Block<'a> {
        tool_calls: &'a [ToolRequest],
    }
    if calls.is_empty() {
        return content.to_owned();
    }
    let gap = if content.is_empty() { "" } else { "\n\n" };
    let block = serde_json::to_string(&Block { tool_calls: calls }).unwrap_or_default();
    format!("{content}{gap}```json\n{block}\n```")
}
