//! `stream_event` lines: text as the model writes it.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode, Text, TextKind};

use super::TITLE;
use super::conversation::ClaudeConversation;
use super::delta::TextDelta;
use super::wire::StreamEventLine;
use crate::json_lines::report_unknown;

/// Messages streamed during the turn. The whole message also arrives as `assistant` lines, before
/// its stream has ended; it must not be emitted twice.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    replies: BTreeSet<String>,
    thoughts: BTreeSet<String>,
    /// Current message and its model, per sub-agent ("" is the agent itself).
    current: BTreeMap<String, (String, Option<String>)>,
}

impl Streamed {
    /// Returns true if text of this kind was streamed for the message.
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

/// Handles a `stream_event`. Events not matched here (`content_block_start`, `input_json_delta`,
/// `signature_delta`, …) add nothing to the whole message.
pub(super) fn on_line(
    conversation: &mut ClaudeConversation,
    line: &StreamEventLine<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    let Some(event) = line.event.map() else {
        report_unknown(TITLE, "a stream_event without an event", raw, out);
        return;
    };
    match event.kind.or_empty() {
        "content_block_delta" => delta(conversation, line, out),
        "message_start" => {
            let Some(message) = event.message.map() else {
                return;
            };
            if let Some(id) = message.id.text() {
                let agent = line.parent_tool_use_id.or_empty().to_owned();
                conversation
                    .turn
                    .streamed
                    .current
                    .insert(agent, (id.to_owned(), message.model.owned()));
                if let Some(tokens) = message.usage.map() {
                    conversation.usage.update(id, message.model.text(), tokens);
                }
            }
        }
        "message_delta" => {
            let Some((id, model)) = conversation
                .turn
                .streamed
                .current
                .get(line.parent_tool_use_id.or_empty())
            else {
                return;
            };
            if let Some(tokens) = event.usage.map() {
                conversation.usage.ended(id, model.as_deref(), tokens);
                conversation.usage.emit_live(model.as_deref(), out);
            }
        }
        "error" => {
            let message = event.error.map().and_then(|error| error.message.text());
            let message = message.filter(|it| !it.is_empty());
            out.notice(
                Level::Error,
                NoticeCode::ApiError,
                message.unwrap_or("The model's stream ended unexpectedly."),
            );
        }
        _ => {}
    }
}

fn delta(conversation: &mut ClaudeConversation, line: &StreamEventLine<'_>, out: &mut Outbox) {
    let Some(delta) = line.event.map().and_then(|event| event.delta.map()) else {
        return;
    };
    let (kind, text) = match delta.kind.or_empty() {
        "text_delta" => (TextKind::Reply, &delta.text),
        "thinking_delta" => (TextKind::Thinking, &delta.thinking),
        _ => return,
    };
    if let Some(text) = text.text() {
        let delta = TextDelta {
            kind,
            text: text.into(),
            parent: line.parent_tool_use_id.text(),
            message: line.api_message_id.text(),
        };
        on_text(conversation, delta, out);
    }
}

/// Handles a piece of text.
pub(super) fn on_text(
    conversation: &mut ClaudeConversation,
    delta: TextDelta<'_>,
    out: &mut Outbox,
) {
    let TextDelta {
        kind, text, parent, ..
    } = delta;
    if text.is_empty() {
        return;
    }
    let streamed = &mut conversation.turn.streamed;
    let message = match delta.message {
        Some(message) => Some(message.to_owned()),
        None => streamed
            .current
            .get(parent.unwrap_or_default())
            .map(|(id, _)| id.clone()),
    };
    if let Some(message) = &message {
        streamed.note(message, kind);
    }
    out.event(Text {
        kind,
        text: text.into_owned(),
        delta: true,
        message,
        parent: parent.map(str::to_owned),
    });
}
