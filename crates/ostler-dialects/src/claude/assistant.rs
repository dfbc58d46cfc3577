//! `assistant` lines: one block of the model's message per line, or a model API error formatted as
//! a message.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Text, TextKind, ToolCall};
use ostler_core::raw_json::RawJson;

use super::conversation::{ClaudeConversation, unknown};
use super::user;
use super::wire::{Block, ClaudeLine};
use crate::lenient::Content;

/// Claude Code's code for an unreachable API, found in `api_error`. `error` is then `server_error`.
pub(super) const CONNECTION_FAILED: &str = "connection_failed";

/// Handles an `assistant` line.
pub(super) fn on_line(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    let Some(message) = line.message.map() else {
        unknown(raw, "an assistant line without a message", out);
        return;
    };
    if let (Some(id), Some(tokens)) = (message.id.text(), message.usage.map()) {
        conversation.usage.update(id, message.model.text(), tokens);
    }
    if line.error.text().is_some() {
        conversation.turn.api_error = line
            .api_error
            .owned()
            .filter(|it| it == CONNECTION_FAILED)
            .or_else(|| line.error.owned());
    }
    match &message.content {
        Content::Text(text) => emit_text(conversation, line, (TextKind::Reply, text), out),
        Content::None => unknown(raw, "an assistant message without content", out),
        Content::Blocks(blocks) => {
            for block in blocks {
                let Some(block) = block.map() else {
                    unknown(raw, "a block that is not an object", out);
                    continue;
                };
                if !on_block(conversation, line, block, out) {
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

/// Handles one block. Returns false if its type is unknown or a required field is missing.
fn on_block(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    block: &Block<'_>,
    out: &mut Outbox,
) -> bool {
    match (
        block.kind.or_empty(),
        block.text.text(),
        block.thinking.text(),
    ) {
        ("text", Some(text), _) => emit_text(conversation, line, (TextKind::Reply, text), out),
        ("thinking", _, Some(text)) => {
            emit_text(conversation, line, (TextKind::Thinking, text), out);
        }
        // The latter two run on the server side.
        ("tool_use" | "server_tool_use" | "mcp_tool_use", ..) => {
            let (Some(id), Some(name)) = (block.id.owned(), block.name.text()) else {
                return false;
            };
            let name = conversation.server.display_name(name);
            if conversation
                .turn
                .tools
                .insert(id.clone(), name.clone())
                .is_none()
            {
                let input = block.input.map_or_else(RawJson::null, RawJson::from_raw);
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
                "Part of the model's reasoning is redacted.",
            );
        }
        (kind, ..) if kind.ends_with("tool_result") => {
            return user::tool_result(conversation, line, block, out);
        }
        _ => return false,
    }
    true
}

fn emit_text(
    conversation: &ClaudeConversation,
    line: &ClaudeLine<'_>,
    (kind, text): (TextKind, &str),
    out: &mut Outbox,
) {
    if line.error.text().is_some() {
        // An API error formatted as a reply. It must not become part of the answer.
        out.notice(Level::Error, "api_error", text);
        return;
    }
    let message = line.message.map().and_then(|message| message.id.owned());
    let streamed = message
        .as_ref()
        .is_some_and(|id| conversation.turn.streamed.has(id, kind));
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
