//! `session/update`: what the agent says and does while it works.
//!
//! Of a session that is being loaded, the history comes first, in the same words; it was told once, and is not told again.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice, Text, TextKind};
use ostler_core::raw_json::RawJson;
use serde_json::value::RawValue;

use super::conversation::AcpConversation;
use super::quirks::Failures;
use super::wire::{Block, ChunkMeta, InfoMeta, Params, Status, Update};
use super::{ask_mode, blame, calls};
use crate::lenient::{Node, Table};

/// What the agent has said in the turn.
#[derive(Debug, Default)]
pub(super) struct Told {
    turn: u64,
    /// Counts the messages of an agent that gives them no names.
    messages: u64,
    /// The message that is being written.
    message: Option<(TextKind, String)>,
    /// The text of that message so far, if it is a reply.
    pub(super) reply: String,
    /// How many chunks that reply had.
    pub(super) chunks: u64,
    /// A first chunk that may be no answer but an error of the agent's own, until the next one comes or the turn ends.
    held: Option<Text>,
    /// The same for its thoughts, of an agent whose chunks repeat them.
    thoughts: String,
}

impl Told {
    pub(super) fn new(turn: u64) -> Self {
        Self {
            turn,
            ..Self::default()
        }
    }

    /// Something else happened: what is said next is another message.
    pub(super) fn breaks(&mut self, out: &mut Outbox) {
        self.release(out);
        self.message = None;
    }

    /// What was held is no answer: the ending says it.
    pub(super) fn was_error(&mut self) -> Option<String> {
        self.held.take().map(|text| text.text)
    }

    /// What was held is an answer after all.
    pub(super) fn release(&mut self, out: &mut Outbox) {
        self.held
            .take()
            .into_iter()
            .for_each(|text| out.event(text));
    }

    /// The message under way, if a chunk belongs to it.
    fn same(&self, kind: TextKind, named: Option<&str>) -> Option<&String> {
        let (of, id) = self.message.as_ref()?;
        (*of == kind && named.is_none_or(|named| named == id)).then_some(id)
    }

    /// The message that a chunk belongs to.
    fn belongs(&mut self, kind: TextKind, named: Option<&str>) -> String {
        if let Some(id) = self.same(kind, named) {
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

/// Reads an update.
pub(super) fn hear(talk: &mut AcpConversation, params: &Params<'_>, raw: &str, out: &mut Outbox) {
    let Some(update) = params.update.map() else {
        return talk.unknown(raw, "an update of nothing", out);
    };
    match update.session_update.or_empty() {
        "agent_message_chunk"
        | "agent_thought_chunk"
        | "tool_call"
        | "tool_call_update"
        | "plan"
            if talk.replaying => {}
        // The caller knows what it said.
        "user_message_chunk" => {}
        "agent_message_chunk" => chunk(talk, (TextKind::Reply, update), raw, out),
        "agent_thought_chunk" => chunk(talk, (TextKind::Thinking, update), raw, out),
        "tool_call" | "tool_call_update" if calls::is_compaction(&talk.quirks, update) => {
            compacted(update, out)
        }
        "tool_call" | "tool_call_update" => {
            if within(talk, raw, out) {
                talk.turn.told.breaks(out);
                talk.turn.used_tools = true;
                let whose = (talk.entry, &talk.quirks, &*talk.bound);
                talk.calls.hear((whose, talk.turn.interrupted), update, out);
            }
        }
        "plan" => plan(update, raw, out),
        "usage_update" => talk.spend.money(&update.cost, talk.quirks.money),
        "current_mode_update" => {
            let asked = ask_mode::asks_now(talk);
            talk.options.now_in_mode(update.current_mode_id.owned());
            ask_mode::moved(talk, asked, out);
        }
        "config_option_update" => {
            let asked = ask_mode::asks_now(talk);
            talk.options.configured(&update.config_options.0);
            ask_mode::moved(talk, asked, out);
        }
        "session_info_update" => condition(talk, update, out),
        "available_commands_update" => {}
        other => talk.unknown(raw, &format!("the update {other:?}"), out),
    }
}

/// Whether the agent is at work. What it says at other times belongs to no turn, and is kept in a notice.
fn within(talk: &AcpConversation, raw: &str, out: &mut Outbox) -> bool {
    let working = talk.is_working();
    if !working {
        let message = format!(
            "{} said something although no turn was under way.",
            talk.entry.name
        );
        out.event(Notice {
            raw: RawJson::parse(raw).ok(),
            ..Notice::new(Level::Debug, "outside_turn", message)
        });
    }
    working
}

fn chunk(
    talk: &mut AcpConversation,
    (kind, update): (TextKind, &Update<'_>),
    raw: &str,
    out: &mut Outbox,
) {
    let block: Node<'_, Block<'_>> = update
        .content
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    let Some(text) = block.map().and_then(|block| block.text.text()) else {
        return talk.unknown(raw, "a piece of a message that is no text", out);
    };
    if talk
        .quirks
        .mode_echo
        .is_some_and(|echo| text.starts_with(echo))
        || !within(talk, raw, out)
    {
        return;
    }
    if let Some(counted) = counted(update).map().and_then(|meta| meta.usage.map()) {
        talk.spend.called(counted, &talk.quirks);
        if text.is_empty() {
            return;
        }
    }
    if talk.quirks.unnamed_words && kind == TextKind::Reply && update.message_id.text().is_none() {
        if let Some(failure) = &mut talk.turn.failure {
            return failure.push_str(text);
        }
        if let Some(message) = blame::remark(text) {
            talk.turn.told.breaks(out);
            return out.notice(Level::Warning, "agent_info", message);
        }
    }
    let head = if kind == TextKind::Thinking {
        talk.quirks.thought_head
    } else {
        ""
    };
    let text = text.strip_prefix(head).unwrap_or(text);
    let begins = talk
        .turn
        .told
        .same(kind, update.message_id.text())
        .is_none();
    // Some write a part of their thoughts as a paragraph, also the first.
    let trims = kind == TextKind::Thinking && (begins || talk.quirks.cumulative_text);
    let text = if trims {
        text.trim_start_matches('\n')
    } else {
        text
    };
    talk.calls.settle_denied(out);
    let wrote = if let Failures::Text(wrote) = talk.quirks.failures {
        Some(wrote)
    } else {
        None
    };
    if wrote.is_some()
        && let Some((code, message)) = blame::aside(text)
    {
        talk.turn.told.breaks(out);
        return out.notice(Level::Warning, code, message);
    }
    let told = &mut talk.turn.told;
    let may_be_error =
        kind == TextKind::Reply && wrote.is_some_and(|wrote| blame::may_be_error(&wrote, text));
    if may_be_error && wrote.is_some_and(|wrote| !wrote.tail.is_empty()) {
        // It is whole, and no part of an answer that came before.
        told.breaks(out);
    }
    told.release(out);
    let message = told.belongs(kind, update.message_id.text());
    let said = if kind == TextKind::Reply {
        &mut told.reply
    } else {
        &mut told.thoughts
    };
    let new = match talk.quirks.cumulative_text {
        true => text.strip_prefix(said.as_str()).unwrap_or(text),
        false => text,
    };
    if kind == TextKind::Reply || talk.quirks.cumulative_text {
        said.push_str(new);
    }
    told.chunks += u64::from(kind == TextKind::Reply);
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
    let own = talk.quirks.own_ids
        && kind == TextKind::Reply
        && update.message_id.text().is_some_and(is_uuid);
    if (may_be_error || own) && told.chunks == 1 {
        told.held = Some(text);
    } else {
        out.event(text);
    }
}

/// The agent made the conversation shorter, or tried to.
fn compacted(update: &Update<'_>, out: &mut Outbox) {
    match update.status.or_empty() {
        "completed" => out.notice(
            Level::Info,
            "compacted",
            "The conversation was made shorter.",
        ),
        "failed" => {
            out.notice(
                Level::Info,
                "not_compacted",
                "The agent tried to make the conversation shorter, and could not.",
            );
        }
        _ => {}
    }
}

/// What an agent says about how it is: it tries again, or has failed, and says why in the text that follows.
fn condition(talk: &mut AcpConversation, update: &Update<'_>, out: &mut Outbox) {
    let meta: Node<'_, InfoMeta<'_>> = update
        .meta
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default();
    let Some(condition) = meta
        .map()
        .and_then(|meta| meta.codex.map())
        .filter(|_| talk.is_working())
    else {
        return;
    };
    if let Some(trouble) = condition.error.map() {
        talk.turn.status = trouble
            .codex_error_info
            .and_then(status_in)
            .or(talk.turn.status);
        if trouble.will_retry.is_true() {
            let (message, details) = (
                trouble.message.or_empty(),
                trouble.additional_details.or_empty(),
            );
            out.notice(
                Level::Warning,
                "api_retry",
                format!("{message} {details}").trim(),
            );
        }
    }
    if condition
        .thread_status
        .map()
        .and_then(|it| it.r#type.text())
        == Some("systemError")
    {
        talk.turn.failure.get_or_insert_default();
    }
}

/// The status in `{"<kind happened>": {"httpStatusCode": 429}}`.
fn status_in(info: &RawValue) -> Option<u16> {
    let table: Table<'_, Node<'_, Status<'_>>> =
        serde_json::from_str(info.get()).unwrap_or_default();
    let rows = table.0.unwrap_or_default();
    rows.iter()
        .find_map(|(_, row)| u16::try_from(row.map()?.http_status_code.count()?).ok())
}

/// Whether an id is of the form `32fcde85-7913-4966-bc84-7d8ddfd68591`.
fn is_uuid(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let hex = |part: &&str| part.chars().all(|c| c.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}

/// What a chunk brings along.
fn counted<'a>(update: &Update<'a>) -> Node<'a, ChunkMeta<'a>> {
    update
        .meta
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default()
}

fn plan(update: &Update<'_>, raw: &str, out: &mut Outbox) {
    let steps = update.entries.0.iter().filter_map(Node::map);
    let steps = steps.map(|step| {
        format!(
            "[{}] {}",
            step.status.text().unwrap_or("pending"),
            step.content.or_empty()
        )
    });
    let message = format!("The plan: {}.", steps.collect::<Vec<_>>().join("; "));
    out.event(Notice {
        raw: RawJson::parse(raw).ok(),
        ..Notice::new(Level::Info, "plan", message)
    });
}
