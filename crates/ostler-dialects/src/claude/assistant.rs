//! `assistant`: one block of the model's message per line, or a failure of the model's service dressed up as one.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Text, TextKind, ToolCall};
use ostler_core::raw_json::RawJson;

use super::conversation::{ClaudeConversation, unknown};
use super::user;
use super::wire::{Block, Line};
use crate::lenient::Content;

/// The agent's word for a service that cannot be reached. It stands in `api_error`; `error` says `server_error` then.
pub(super) const CONNECTION_FAILED: &str = "connection_failed";

/// Reads an `assistant` line.
pub(super) fn hear(talk: &mut ClaudeConversation, line: &Line<'_>, raw: &str, out: &mut Outbox) {
    let Some(message) = line.message.map() else {
        unknown(raw, "an assistant line without a message", out);
        return;
    };
    if let (Some(id), Some(tokens)) = (message.id.text(), message.usage.map()) {
        talk.spend.note(id, message.model.text(), tokens);
    }
    if line.error.text().is_some() {
        talk.turn.api_error = line
            .api_error
            .owned()
            .filter(|it| it == CONNECTION_FAILED)
            .or_else(|| line.error.owned());
    }
    match &message.content {
        Content::Text(text) => say(talk, line, (TextKind::Reply, text), out),
        Content::None => unknown(raw, "an assistant message without content", out),
        Content::Blocks(blocks) => {
            for block in blocks {
                let Some(block) = block.map() else {
                    unknown(raw, "a block that is no object", out);
                    continue;
                };
                if !hear_block(talk, line, block, out) {
                    unknown(
                        raw,
                        &format!("a block of type {:?}", block.kind.or_empty()),
                        out,
                    );
                }
            }
        }
    }
}

/// Reads one block; false when it is of no kind known here, or lacks what its kind needs.
fn hear_block(
    talk: &mut ClaudeConversation,
    line: &Line<'_>,
    block: &Block<'_>,
    out: &mut Outbox,
) -> bool {
    match (
        block.kind.or_empty(),
        block.text.text(),
        block.thinking.text(),
    ) {
        ("text", Some(text), _) => say(talk, line, (TextKind::Reply, text), out),
        ("thinking", _, Some(text)) => say(talk, line, (TextKind::Thinking, text), out),
        // The latter two are tools that the service itself runs.
        ("tool_use" | "server_tool_use" | "mcp_tool_use", ..) => {
            let (Some(id), Some(name)) = (block.id.owned(), block.name.text()) else {
                return false;
            };
            let name = talk.server.shown(name);
            if talk.turn.tools.insert(id.clone(), name.clone()).is_none() {
                let input = block.input.map_or_else(RawJson::null, RawJson::keep);
                out.event(ToolCall {
                    id,
                    name,
                    input,
                    parent: line.parent_tool_use_id.owned(),
                });
            }
        }
        ("redacted_thinking", ..) => {
            out.notice(
                Level::Debug,
                "redacted_thinking",
                "A part of the model's reasoning is withheld.",
            );
        }
        (kind, ..) if kind.ends_with("tool_result") => {
            return user::tool_result(talk, line, block, out);
        }
        _ => return false,
    }
    true
}

fn say(
    talk: &ClaudeConversation,
    line: &Line<'_>,
    (kind, text): (TextKind, &str),
    out: &mut Outbox,
) {
    if line.error.text().is_some() {
        // The service's error in the shape of an answer. It is none, and must not become part of one.
        out.notice(Level::Error, "api_error", text);
        return;
    }
    let message = line.message.map().and_then(|message| message.id.owned());
    let streamed = message
        .as_ref()
        .is_some_and(|id| talk.turn.streamed.has(id, kind));
    if !streamed && !text.is_empty() {
        out.event(Text {
            kind,
            text: text.to_owned(),
            delta: false,
            message,
            parent: line.parent_tool_use_id.owned(),
        });
    }
}
