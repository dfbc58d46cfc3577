//! `stream_event`: the model's words as they come, and what has been streamed already.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Text, TextKind};

use super::conversation::{ClaudeConversation, unknown};
use super::wire::Piece;

/// What has been streamed in the turn. The whole message comes too, as `assistant` lines, before its stream has ended;
/// it must not be told twice.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    replies: BTreeSet<String>,
    thoughts: BTreeSet<String>,
    /// The message under way and its model, per sub-agent ("" is the agent itself).
    current: BTreeMap<String, (String, Option<String>)>,
}

impl Streamed {
    /// Whether text of this kind was streamed for the message.
    pub(super) fn has(&self, message: &str, kind: TextKind) -> bool {
        match kind {
            TextKind::Reply => self.replies.contains(message),
            TextKind::Thinking => self.thoughts.contains(message),
        }
    }

    fn note(&mut self, message: &str, kind: TextKind) {
        if !self.has(message, kind) {
            let set = match kind {
                TextKind::Reply => &mut self.replies,
                TextKind::Thinking => &mut self.thoughts,
            };
            set.insert(message.to_owned());
        }
    }
}

/// Reads a `stream_event`. What is not named here (`content_block_start`, `input_json_delta`, `signature_delta`, …) says
/// nothing that the whole message does not say better.
pub(super) fn hear(talk: &mut ClaudeConversation, line: &Piece<'_>, raw: &str, out: &mut Outbox) {
    let Some(event) = line.event.map() else {
        unknown(raw, "a stream_event without an event", out);
        return;
    };
    match event.kind.or_empty() {
        "content_block_delta" => delta(talk, line, out),
        "message_start" => {
            let Some(message) = event.message.map() else {
                return;
            };
            if let Some(id) = message.id.text() {
                let agent = line.parent_tool_use_id.or_empty().to_owned();
                talk.turn
                    .streamed
                    .current
                    .insert(agent, (id.to_owned(), message.model.owned()));
                if let Some(tokens) = message.usage.map() {
                    talk.spend.note(id, message.model.text(), tokens);
                }
            }
        }
        "message_delta" => {
            let Some((id, model)) = talk
                .turn
                .streamed
                .current
                .get(line.parent_tool_use_id.or_empty())
            else {
                return;
            };
            if let Some(tokens) = event.usage.map() {
                talk.spend.ended(id, model.as_deref(), tokens);
                talk.spend.live(model.as_deref(), out);
            }
        }
        "error" => {
            let message = event
                .error
                .map()
                .map(|e| e.message.or_empty())
                .filter(|m| !m.is_empty());
            out.notice(
                Level::Error,
                "api_error",
                message.unwrap_or("The model's stream broke off."),
            );
        }
        _ => {}
    }
}

fn delta(talk: &mut ClaudeConversation, line: &Piece<'_>, out: &mut Outbox) {
    let Some(delta) = line.event.map().and_then(|event| event.delta.map()) else {
        return;
    };
    let (kind, text) = match delta.kind.or_empty() {
        "text_delta" => (TextKind::Reply, &delta.text),
        "thinking_delta" => (TextKind::Thinking, &delta.thinking),
        _ => return,
    };
    let Some(text) = text.owned().filter(|text| !text.is_empty()) else {
        return;
    };
    let streamed = &mut talk.turn.streamed;
    let current = || {
        streamed
            .current
            .get(line.parent_tool_use_id.or_empty())
            .map(|(id, _)| id.clone())
    };
    let message = line.api_message_id.owned().or_else(current);
    if let Some(message) = &message {
        streamed.note(message, kind);
    }
    out.event(Text {
        kind,
        text,
        delta: true,
        message,
        parent: line.parent_tool_use_id.owned(),
    });
}
