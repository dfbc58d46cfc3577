//! `user` lines: tool results, and notes that Claude Code adds to the conversation.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::value::RawValue;

use super::conversation::ClaudeConversation;
use super::wire::{Block, ClaudeLine};
use crate::lenient::{Content, Node};
use crate::surrogates;

/// Prefix of the note that Claude Code adds when a turn is interrupted. It may continue ("… for
/// tool use]").
const INTERRUPTED: &str = "[Request interrupted by user";

/// Handles a `user` line. Echoes of sent messages are ignored.
pub(super) fn on_line(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    out: &mut Outbox,
) {
    let Some(message) = line.message.map() else {
        return;
    };
    if line.is_replay.is_true() {
        return;
    }
    match &message.content {
        Content::None => {}
        Content::Text(text) => note(conversation, line, text, out),
        Content::Blocks(blocks) => {
            for block in blocks.iter().filter_map(Node::map) {
                if block.kind.text() == Some("tool_result") {
                    tool_result(conversation, line, block, out);
                } else if let Some(text) = block.text.text() {
                    note(conversation, line, text, out);
                }
            }
        }
    }
}

fn note(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    text: &str,
    out: &mut Outbox,
) {
    if text.starts_with(INTERRUPTED) {
        conversation.turn.interrupted = true;
    } else if line.is_synthetic.is_true() {
        out.notice(Level::Debug, NoticeCode::Injected, text); // added by Claude Code itself
    }
}

/// Handles a tool result. Returns false if it does not name its call.
pub(super) fn tool_result(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    block: &Block<'_>,
    out: &mut Outbox,
) -> bool {
    let Some(id) = block.tool_use_id.owned() else {
        return false;
    };
    let mut decisions = line.tool_result_meta.iter();
    let denied = conversation.turn.denied.contains(&id)
        || decisions.any(|meta| {
            meta.id.text() == Some(&id)
                && meta.permission_decision.decision.text() == Some("reject")
        });
    let (output, content) = block.content.map(read_output).unwrap_or_default();
    if line.parent_tool_use_id.text().is_none() {
        conversation.tasks.on_tool_result();
    }
    let name = conversation.turn.tools.get(&id).cloned();
    out.event(ToolResult {
        id,
        name,
        ok: !denied && !block.is_error.is_true(),
        output,
        denied,
        content,
    });
    true
}

/// Returns the text of a result, and the whole content if it is not only text.
fn read_output(content: &RawValue) -> (String, Option<RawJson>) {
    let mut room = String::new();
    let parsed: Content<'_, Node<'_, Block<'_>>> = surrogates::read(content.get(), &mut room);
    match parsed {
        Content::Text(text) => (text.into_owned(), None),
        Content::None if content.get() == "null" => (String::new(), None),
        Content::None => (String::new(), Some(RawJson::from_raw(content))),
        Content::Blocks(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| {
                    block
                        .map()
                        .filter(|b| b.kind.text() == Some("text"))?
                        .text
                        .text()
                })
                .collect();
            let only_text = texts.len() == blocks.len();
            (
                texts.join("\n"),
                (!only_text).then(|| RawJson::from_raw(content)),
            )
        }
    }
}
