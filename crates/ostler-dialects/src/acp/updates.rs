//! Session updates (`session/update`): what the agent says and does during a turn.
//!
//! While a session is loaded, its history arrives first, in the same form. It was reported once and
//! is not reported again.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice, NoticeCode, Text, TextKind};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::is_uuid;
use serde_json::value::RawValue;

use super::conversation::AcpConversation;
use super::quirks::FailureStyle;
use super::wire::{Block, ChunkMeta, HttpStatus, InfoMeta, Params, Update};
use super::{ask_mode, blame, calls};
use crate::lenient::{self, Object, Table};

/// Text of the current turn.
#[derive(Debug, Default)]
pub(super) struct TurnText {
    turn: u64,
    /// Number of messages, for an agent that gives them no ids.
    messages: u64,
    /// The message in progress.
    message: Option<(TextKind, String)>,
    /// Text of that message so far, if it is a reply.
    pub(super) reply: String,
    /// Number of chunks of that reply.
    pub(super) chunks: u64,
    /// A first chunk that may be the agent's own error text, held back until the next chunk or the
    /// end of the turn.
    held: Option<Text>,
    /// Text of the current thought so far, for an agent whose chunks repeat it.
    thoughts: String,
}

impl TurnText {
    pub(super) fn new(turn: u64) -> Self {
        Self {
            turn,
            ..Self::default()
        }
    }

    /// Ends the message in progress: whatever follows is another message.
    pub(super) fn end_message(&mut self, out: &mut Outbox) {
        self.release(out);
        self.message = None;
    }

    /// Takes the held text, which is an error: the outcome of the turn reports it.
    pub(super) fn take_held_error(&mut self) -> Option<String> {
        self.held.take().map(|text| text.text)
    }

    /// Emits the held text, which is part of the reply after all.
    pub(super) fn release(&mut self, out: &mut Outbox) {
        if let Some(text) = self.held.take() {
            out.event(text);
        }
    }

    /// Returns the message in progress, if a chunk belongs to it.
    fn current_message(&self, kind: TextKind, named: Option<&str>) -> Option<&String> {
        let (of, id) = self.message.as_ref()?;
        (*of == kind && named.is_none_or(|named| named == id)).then_some(id)
    }

    /// Returns the message that a chunk belongs to, starting one if necessary.
    fn message_for(&mut self, kind: TextKind, named: Option<&str>) -> String {
        if let Some(id) = self.current_message(kind, named) {
            return id.clone();
        }
        self.messages += 1;
        let id = named.map_or_else(|| format!("{}-{}", self.turn, self.messages), str::to_owned);
        match kind {
            TextKind::Reply => (self.reply, self.chunks) = (String::new(), 0),
            TextKind::Thinking => self.thoughts.clear(),
        }
        self.message = Some((kind, id.clone()));
        id
    }
}

/// Handles a session update.
pub(super) fn on_update(
    conversation: &mut AcpConversation,
    params: &Params<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    let Some(update) = params.update.map() else {
        return conversation.report_unknown(raw, "an empty update", out);
    };
    match update.session_update.or_empty() {
        "agent_message_chunk"
        | "agent_thought_chunk"
        | "tool_call"
        | "tool_call_update"
        | "plan"
            if conversation.replaying => {}
        // The caller knows its own messages.
        "user_message_chunk" => {}
        "agent_message_chunk" | "agent_thought_chunk" => on_chunk(conversation, update, raw, out),
        "tool_call" | "tool_call_update" if calls::is_compaction(&conversation.quirks, update) => {
            on_compaction(update, out);
        }
        "tool_call" | "tool_call_update" => {
            if in_turn(conversation, raw, out) {
                conversation.turn.text.end_message(out);
                conversation.turn.used_tools = true;
                let (calls, context) = conversation.calls_in_context();
                calls.on_update(context, update, out);
            }
        }
        "plan" => on_plan(update, raw, out),
        "usage_update" => conversation
            .usage
            .on_cost(&update.cost, conversation.quirks.reports_cost),
        "current_mode_update" => {
            let asked_before = ask_mode::asks(conversation);
            conversation
                .options
                .set_current_mode(update.current_mode_id.owned());
            ask_mode::on_mode_change(conversation, asked_before, out);
        }
        "config_option_update" => {
            let asked_before = ask_mode::asks(conversation);
            conversation
                .options
                .set_config_options(&update.config_options);
            ask_mode::on_mode_change(conversation, asked_before, out);
        }
        "session_info_update" => on_status(conversation, update, out),
        "available_commands_update" => {}
        other => conversation.report_unknown(raw, &format!("the update {other:?}"), out),
    }
}

/// Returns true if a turn is in progress. Updates at other times belong to no turn and are
/// preserved in a notice.
fn in_turn(conversation: &AcpConversation, raw: &str, out: &mut Outbox) -> bool {
    let working = conversation.is_working();
    if !working {
        let message = format!(
            "{} sent an update although no turn was in progress.",
            conversation.profile.name
        );
        out.event(Notice {
            raw: RawJson::parse(raw).ok(),
            ..Notice::new(Level::Debug, NoticeCode::OutsideTurn, message)
        });
    }
    working
}

#[expect(clippy::too_many_lines, reason = "one arm per kind of chunk")]
fn on_chunk(conversation: &mut AcpConversation, update: &Update<'_>, raw: &str, out: &mut Outbox) {
    let kind = match update.session_update.or_empty() {
        "agent_thought_chunk" => TextKind::Thinking,
        _ => TextKind::Reply,
    };
    let block: Object<Block<'_>> = lenient::parse(update.content);
    let Some(text) = block.text.text() else {
        return conversation.report_unknown(raw, "a message chunk that is not text", out);
    };
    if conversation
        .quirks
        .mode_echo
        .is_some_and(|echo| text.starts_with(echo))
        || !in_turn(conversation, raw, out)
    {
        return;
    }
    let meta: Object<ChunkMeta<'_>> = lenient::parse(update.meta);
    if let Some(counts) = meta.usage.map() {
        conversation
            .usage
            .on_model_call(counts, &conversation.quirks);
        if text.is_empty() {
            return;
        }
    }
    if conversation.quirks.missing_id_marks_own_text
        && kind == TextKind::Reply
        && update.message_id.text().is_none()
    {
        if let Some(failure) = &mut conversation.turn.failure {
            return failure.push_str(text);
        }
        if let Some(message) = blame::agent_remark(text) {
            conversation.turn.text.end_message(out);
            return out.warn(NoticeCode::AgentInfo, message);
        }
    }
    let head = if kind == TextKind::Thinking {
        conversation.quirks.thought_prefix
    } else {
        ""
    };
    let text = text.strip_prefix(head).unwrap_or(text);
    let begins = conversation
        .turn
        .text
        .current_message(kind, update.message_id.text())
        .is_none();
    // Some agents write each part of their thoughts as a paragraph, including the first.
    let trims = kind == TextKind::Thinking && (begins || conversation.quirks.cumulative_text);
    let text = if trims {
        text.trim_start_matches('\n')
    } else {
        text
    };
    conversation.calls.finish_denied(out);
    let error_text = if let FailureStyle::Text(error_text) = conversation.quirks.failures {
        Some(error_text)
    } else {
        None
    };
    if error_text.is_some()
        && let Some((code, message)) = blame::inline_notice(text)
    {
        conversation.turn.text.end_message(out);
        return out.warn(code, message);
    }
    let text_state = &mut conversation.turn.text;
    let may_be_error = kind == TextKind::Reply
        && error_text.is_some_and(|error_text| blame::may_be_error(&error_text, text));
    if may_be_error && error_text.is_some_and(|error_text| !error_text.suffix.is_empty()) {
        // It is complete, and not part of the reply before it.
        text_state.end_message(out);
    }
    text_state.release(out);
    let message = text_state.message_for(kind, update.message_id.text());
    let so_far = if kind == TextKind::Reply {
        &mut text_state.reply
    } else {
        &mut text_state.thoughts
    };
    let new = match conversation.quirks.cumulative_text {
        true => text.strip_prefix(so_far.as_str()).unwrap_or(text),
        false => text,
    };
    if kind == TextKind::Reply || conversation.quirks.cumulative_text {
        so_far.push_str(new);
    }
    text_state.chunks += u64::from(kind == TextKind::Reply);
    if new.is_empty() {
        return;
    }
    let text = Text {
        kind,
        text: new.to_owned(),
        delta: true,
        message: Some(message),
        parent: None,
    };
    let is_own_text = conversation.quirks.uuid_marks_own_text
        && kind == TextKind::Reply
        && update.message_id.text().is_some_and(is_uuid);
    if (may_be_error || is_own_text) && text_state.chunks == 1 {
        text_state.held = Some(text);
    } else {
        out.event(text);
    }
}

/// Reports a compaction, or a failed attempt.
fn on_compaction(update: &Update<'_>, out: &mut Outbox) {
    let (code, message) = match update.status.or_empty() {
        "completed" => (NoticeCode::Compacted, "The conversation was compacted."),
        "failed" => (
            NoticeCode::NotCompacted,
            "The agent could not compact the conversation.",
        ),
        _ => return,
    };
    out.notice(Level::Info, code, message);
}

/// Handles the agent's status: it retries, or has failed and gives the reason in the text that
/// follows.
fn on_status(conversation: &mut AcpConversation, update: &Update<'_>, out: &mut Outbox) {
    if !conversation.is_working() {
        return;
    }
    let meta: Object<InfoMeta<'_>> = lenient::parse(update.meta);
    let (status, error) = (&meta.codex, &meta.codex.error);
    conversation.turn.status = error
        .codex_error_info
        .and_then(status_in)
        .or(conversation.turn.status);
    if error.will_retry.is_true() {
        let (message, details) = (
            error.message.or_empty(),
            error.additional_details.or_empty(),
        );
        out.warn(NoticeCode::ApiRetry, format!("{message} {details}").trim());
    }
    if status.thread_status.r#type.text() == Some("systemError") {
        conversation.turn.failure.get_or_insert_default();
    }
}

/// Returns the status in `{"<error kind>": {"httpStatusCode": 429}}`.
fn status_in(info: &RawValue) -> Option<u16> {
    let table: Table<'_, Object<HttpStatus<'_>>> = lenient::parse(Some(info));
    let mut rows = table.0.iter().flatten();
    rows.find_map(|(_, row)| u16::try_from(row.http_status_code.count()?).ok())
}

fn on_plan(update: &Update<'_>, raw: &str, out: &mut Outbox) {
    let steps = update.entries.iter().map(|step| {
        format!(
            "[{}] {}",
            step.status.text().unwrap_or("pending"),
            step.content.or_empty()
        )
    });
    let message = format!("Plan: {}.", steps.collect::<Vec<_>>().join("; "));
    out.event(Notice {
        raw: RawJson::parse(raw).ok(),
        ..Notice::new(Level::Info, NoticeCode::Plan, message)
    });
}
