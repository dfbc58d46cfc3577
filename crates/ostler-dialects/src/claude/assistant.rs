//! `assistant` lines: one block of the model's message per line, or a model API error formatted as
//! a message.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode, Text, TextKind, ToolCall};
use ostler_core::raw_json::RawJson;

use super::TITLE;
use super::conversation::ClaudeConversation;
use super::user;
use super::wire::{Block, ClaudeLine};
use crate::json_lines::report_unknown;
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
        report_unknown(TITLE, "an assistant line without a message", raw, out);
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
        Content::Text(text) => {
            emit_text(conversation, line, whole(line, TextKind::Reply, text), out);
        }
        Content::None => report_unknown(TITLE, "an assistant message without content", raw, out),
        Content::Blocks(blocks) => {
            for block in blocks {
                let Some(block) = block.map() else {
                    report_unknown(TITLE, "a block that is not an object", raw, out);
                    continue;
                };
                if !on_block(conversation, line, block, out) {
                    report_unknown(
                        TITLE,
                        &format!("a block of type {:?}", block.kind.or_empty()),
                        raw,
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
        ("text", Some(text), _) => {
            emit_text(conversation, line, whole(line, TextKind::Reply, text), out);
        }
        ("thinking", _, Some(text)) => {
            emit_text(
                conversation,
                line,
                whole(line, TextKind::Thinking, text),
                out,
            );
        }
        // The last two run on the server.
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
                NoticeCode::RedactedThinking,
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

/// Returns the event of a whole message.
fn whole(line: &ClaudeLine<'_>, kind: TextKind, text: &str) -> Text {
    Text {
        kind,
        text: text.to_owned(),
        delta: false,
        message: line.message.map().and_then(|message| message.id.owned()),
        parent: line.parent_tool_use_id.owned(),
    }
}

/// Emits a whole message, unless it was streamed.
fn emit_text(
    conversation: &ClaudeConversation,
    line: &ClaudeLine<'_>,
    text: Text,
    out: &mut Outbox,
) {
    if line.error.text().is_some() {
        // An API error formatted as a reply. It must not become part of the answer.
        return out.notice(Level::Error, NoticeCode::ApiError, text.text);
    }
    let streamed = &conversation.turn.streamed;
    let id = text.message.as_ref();
    if !text.text.is_empty() && !id.is_some_and(|id| streamed.has(id, text.kind)) {
        out.event(text);
    }
}
