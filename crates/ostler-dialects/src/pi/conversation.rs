//! One conversation with pi: writes requests to it and dispatches its lines by type.

use std::collections::BTreeSet;

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult,
};
use ostler_core::event::{
    Level, Notice, NoticeCode, Started, Text, TextKind, ToolCall, ToolResult,
};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Spec;
use serde_json::value::RawValue;

use super::blame::{self, Stop};
use super::requests::{self, ModelChoice};
use super::turn::Turn;
use super::wire::{self, Message, PiLine, State, Update, UpdateLine};
use crate::json_lines::{self, LineReader};
use crate::lenient::{Node, Scalar};
use crate::surrogates;

/// State of one conversation.
#[derive(Debug)]
pub(super) struct PiConversation {
    cwd: Option<String>,
    /// Tools named by the caller. pi does not report its tools.
    named_tools: Vec<String>,
    /// pi's session id and model, once known.
    identity: Option<Identity>,
    turn: Turn,
    /// Number of model messages so far, from which message ids are derived.
    messages: u64,
    /// Indices of the current message's blocks that were streamed.
    streamed: BTreeSet<u64>,
    /// Ids of the tool calls that were emitted in this turn.
    emitted_calls: BTreeSet<String>,
    /// The first prompt, held until pi has started, because pi ignores interrupts before that.
    held_prompt: Option<String>,
    /// Messages for the turn that are held until pi is working.
    held_steers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    session: Option<String>,
    model: Option<String>,
    provider: Option<String>,
}

/// Prefix of a `message_update` line. pi always writes the type first.
const UPDATE_PREFIX: &str = "{\"type\":\"message_update\",";

/// Types of lines that only signal liveness, or whose content other lines repeat.
const HEARTBEATS: &[&str] = &[
    "message_start",
    "queue_update",
    "session_info_changed",
    "thinking_level_changed",
    "tool_execution_update",
    "turn_end",
    "turn_start",
];

impl PiConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            cwd: spec.dir.as_ref().map(|dir| dir.display().to_string()),
            named_tools: spec.tools.clone().unwrap_or_default(),
            identity: None,
            turn: Turn::default(),
            messages: 0,
            streamed: BTreeSet::new(),
            emitted_calls: BTreeSet::new(),
            held_prompt: None,
            held_steers: Vec::new(),
        }
    }

    fn on_response(&mut self, line: &PiLine<'_>, raw: &str, out: &mut Outbox) {
        let failed = line.success.is_false();
        let error = line.error.or_empty();
        if let Some(id) = line.id.text().and_then(requests::parse_change_id) {
            let error = failed.then(|| error.to_owned());
            out.push(FromConversation::Changed { id, error });
            return;
        }
        match line.command.or_empty() {
            "get_state" => {
                if let Some(prompt) = self.held_prompt.take() {
                    requests::prompt(&prompt, out);
                }
                if let Some(state) = line.data.map() {
                    self.on_state(state, out);
                }
            }
            "prompt" if failed => self.end_turn(blame::of_error(error), out),
            // If an extension handled the prompt, there is no `agent_start`.
            "prompt" if self.turn.on_accepted() => requests::get_state(out),
            "steer" if failed => {
                let message = format!("pi rejected a message for this turn: {error}");
                out.warn(NoticeCode::SteerFailed, message);
            }
            _ if failed => {
                let message = format!("pi rejected a request: {error}");
                let mut notice = Notice::new(Level::Warning, NoticeCode::ControlError, message);
                notice.raw = RawJson::parse(raw).ok();
                out.event(notice);
            }
            _ => {}
        }
    }

    /// Handles the state of the session: emits `started` if its identity changed, and ends the turn
    /// if pi is idle.
    fn on_state(&mut self, state: &State<'_>, out: &mut Outbox) {
        let identity = Identity {
            session: state.session_id.owned(),
            model: state.model.name(),
            provider: state.model.provider.owned(),
        };
        if self.identity.as_ref() != Some(&identity) {
            out.event(Started {
                agent: "pi".to_owned(),
                agent_version: None,
                native_session: identity.session.clone(),
                model: identity.model.clone(),
                cwd: self.cwd.clone(),
                tools: self.named_tools.clone(),
            });
            self.identity = Some(identity);
        }
        if !self.turn.is_over(state) {
            return;
        }
        if self.turn.has_leftover_message(state) {
            let message = "A message came too late for this turn; pi passes it to the model with \
                           the next one.";
            out.warn(NoticeCode::SteerKept, message);
        }
        let outcome = blame::of_turn(self.turn.stop.as_ref(), self.turn.interrupted);
        self.end_turn(outcome, out);
    }

    fn on_agent_start(&mut self, out: &mut Outbox) {
        if !self.turn.is_open() {
            self.turn = Turn::default();
        }
        self.turn.on_agent_start();
        out.push(FromConversation::TurnStarted);
        for message in std::mem::take(&mut self.held_steers) {
            requests::steer(&message, out);
        }
        if self.turn.interrupted {
            requests::abort(out);
        }
    }

    fn end_turn(&mut self, outcome: ostler_core::outcome::Outcome, out: &mut Outbox) {
        if !self.turn.is_open() {
            return;
        }
        let turn = std::mem::take(&mut self.turn);
        self.emitted_calls.clear();
        for message in std::mem::take(&mut self.held_steers) {
            let message = format!("The turn ended before pi received this message: {message}");
            out.warn(NoticeCode::SteerDropped, message);
        }
        out.push(TurnResult {
            text: turn.answer,
            usage: turn.usage.total(),
            ..TurnResult::new(outcome)
        });
    }

    fn on_update(&mut self, update: &Update<'_>, out: &mut Outbox) {
        let kind = match update.kind.or_empty() {
            "text_delta" => TextKind::Reply,
            "thinking_delta" => TextKind::Thinking,
            _ => return,
        };
        if let Some(text) = update.delta.owned().filter(|text| !text.is_empty()) {
            self.streamed.extend(update.content_index.count());
            out.event(self.text(kind, text, true));
        }
    }

    /// Returns a text event for the current message.
    fn text(&self, kind: TextKind, text: String, delta: bool) -> Text {
        Text {
            kind,
            text,
            delta,
            message: Some(format!("message-{}", self.messages + 1)),
            parent: None,
        }
    }

    /// Handles a complete message. A model message yields tool calls, usage, and any text that was
    /// not streamed.
    fn on_message_end(&mut self, message: &Message<'_>, out: &mut Outbox) {
        match message.role.or_empty() {
            "assistant" => {}
            "user" => return self.turn.on_user_message(),
            _ => return,
        }
        let stop = Stop::from_message(message);
        let mut answer = Vec::new();
        for (index, block) in (0..).zip(message.content.iter()) {
            let (kind, text) = match block.kind.or_empty() {
                "text" => (TextKind::Reply, block.text.or_empty()),
                "thinking" => (TextKind::Thinking, block.thinking.or_empty()),
                "toolCall" => {
                    let (id, name) = (block.id.or_empty(), block.name.or_empty());
                    self.emit_call(id, name, block.arguments, out);
                    continue;
                }
                _ => continue,
            };
            if kind == TextKind::Reply && !text.is_empty() {
                answer.push(text);
            }
            if !text.is_empty() && !self.streamed.contains(&index) && !stop.is_error() {
                out.event(self.text(kind, text.to_owned(), false));
            }
        }
        if !answer.is_empty() {
            self.turn.answer = Some(answer.join("\n"));
        }
        self.turn.on_stop(stop);
        self.turn.usage.on_message(message, out);
        self.messages += 1;
        self.streamed.clear();
    }

    /// Emits a tool call once: pi reports it in the message, and again when the tool starts.
    fn emit_call(&mut self, id: &str, name: &str, input: Option<&RawValue>, out: &mut Outbox) {
        if self.emitted_calls.insert(id.to_owned()) {
            out.event(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                input: input.map_or_else(RawJson::null, RawJson::from_raw),
                parent: None,
            });
        }
    }

    fn on_change(&mut self, id: u64, change: &Change, out: &mut Outbox) {
        let current = self.identity.as_ref().and_then(|it| it.provider.as_deref());
        let error = match change {
            Change::Model(name) => match ModelChoice::parse(name, current) {
                Some(model) => return requests::set_model(id, &model, out),
                None => "name the model as provider/model",
            },
            Change::PermissionMode(_) => "pi has no permission modes",
        };
        let error = Some(error.to_owned());
        out.push(FromConversation::Changed { id, error });
    }

    /// Handles a `message_update`. Returns false if it cannot be parsed.
    fn read_update(&mut self, raw: &str, out: &mut Outbox) -> bool {
        let Ok(line) = serde_json::from_str::<UpdateLine<'_>>(raw) else {
            return false;
        };
        self.on_update(&line.assistant_message_event, out);
        true
    }
}

impl LineReader for PiConversation {
    type Line<'a> = PiLine<'a>;

    fn on_message(&mut self, line: &PiLine<'_>, raw: &str, out: &mut Outbox) {
        match line.kind.or_empty() {
            "response" => self.on_response(line, raw, out),
            "agent_start" => self.on_agent_start(out),
            "agent_end" => {
                self.turn.await_state();
                requests::get_state(out);
            }
            "message_end" => {
                if let Some(message) = line.message.map() {
                    self.on_message_end(message, out);
                }
            }
            "tool_execution_start" => {
                if let (Some(id), Some(name)) = (line.tool_call_id.text(), line.tool_name.text()) {
                    self.emit_call(id, name, line.args, out);
                }
            }
            "tool_execution_end" => on_tool_end(line, out),
            "auto_retry_start" => {
                self.turn.on_retry();
                on_retry(line, out);
            }
            // The retry was interrupted, or the last attempt failed.
            "auto_retry_end" if line.success.is_false() => {
                self.turn.await_state();
                requests::get_state(out);
            }
            "auto_retry_end" => {}
            "compaction_start" => self.turn.on_compaction(),
            "compaction_end" => {
                on_compaction_end(line, out);
                if self.turn.on_compacted(line.will_retry.is_true()) {
                    requests::get_state(out);
                }
            }
            "extension_ui_request" => on_extension_request(line, out),
            "extension_error" => {
                let (path, error) = (line.extension_path.or_empty(), line.error.or_empty());
                let message = format!("An extension failed ({path}): {error}");
                out.warn(NoticeCode::AgentWarning, message);
            }
            kind if HEARTBEATS.contains(&kind) => {}
            _ => json_lines::report_unknown_type("pi", line.kind.text(), raw, out),
        }
    }
}

impl Conversation for PiConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        requests::get_state(out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.turn = Turn::sent();
                if self.identity.is_some() {
                    requests::prompt(&prompt, out);
                } else {
                    self.held_prompt = Some(prompt);
                }
            }
            ToAgent::Steer(message) if self.turn.is_steerable() => requests::steer(&message, out),
            ToAgent::Steer(message) => self.held_steers.push(message),
            ToAgent::Interrupt if self.held_prompt.take().is_some() => {
                self.end_turn(crate::blame::interrupted(), out);
            }
            ToAgent::Interrupt => {
                self.turn.interrupted = true;
                if self.turn.is_interruptible() {
                    requests::abort(out);
                }
            }
            ToAgent::Change { id, change } => self.on_change(id, &change, out),
            // pi requests no permissions, and does not accept the caller's tools.
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        if raw.starts_with(UPDATE_PREFIX) {
            if !self.read_update(raw, out) && !self.read_update(&surrogates::repair(raw), out) {
                out.unreadable(raw, "a malformed message_update");
            }
            return;
        }
        json_lines::deliver(self, raw, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if !self.turn.is_open() {
            return;
        }
        match blame::of_exit(exit).filter(|_| self.identity.is_none()) {
            Some(outcome) => self.end_turn(outcome, out),
            // The session determines the outcome; only the usage is known here.
            None => out.events(self.turn.usage.total()),
        }
    }
}

fn on_tool_end(line: &PiLine<'_>, out: &mut Outbox) {
    let Some(id) = line.tool_call_id.owned() else {
        return;
    };
    let output = line.result.map().map(|result| wire::texts(&result.content));
    let output = output.unwrap_or_default();
    out.event(ToolResult {
        id,
        name: line.tool_name.owned(),
        ok: !line.is_error.is_true(),
        output,
        denied: false,
        content: None,
    });
}

fn on_retry(line: &PiLine<'_>, out: &mut Outbox) {
    let count = |count: &Scalar<'_>| count.count().unwrap_or_default();
    let message = format!(
        "pi will retry a model call in {} s (attempt {} of {}): {}",
        count(&line.delay_ms).div_ceil(1000),
        count(&line.attempt),
        count(&line.max_attempts),
        line.error_message.or_empty()
    );
    out.warn(NoticeCode::ApiRetry, message);
}

fn on_compaction_end(line: &PiLine<'_>, out: &mut Outbox) {
    if matches!(line.result, Node::Map(_)) {
        let message = "pi compacted the conversation.";
        out.notice(Level::Info, NoticeCode::Compacted, message);
    } else {
        let why = line.error_message.text().unwrap_or("it was not necessary");
        let why = if line.aborted.is_true() {
            "it was interrupted"
        } else {
            why
        };
        let message = format!("pi did not compact the conversation: {why}");
        out.warn(NoticeCode::NotCompacted, message);
    }
}

/// Handles an extension's UI request. Dialogs are dismissed: no user can answer them, and the
/// extension would wait forever.
fn on_extension_request(line: &PiLine<'_>, out: &mut Outbox) {
    match line.method.or_empty() {
        "select" | "confirm" | "input" | "editor" => {
            requests::dismiss(line.id.or_empty(), out);
            let message = format!(
                "Declined a question from an extension: {}",
                line.title.or_empty()
            );
            out.warn(NoticeCode::QuestionDeclined, message);
        }
        "notify" => {
            let is_info = matches!(line.notify_type.text(), None | Some("info"));
            let (level, code) = if is_info {
                (Level::Info, NoticeCode::AgentInfo)
            } else {
                (Level::Warning, NoticeCode::AgentWarning)
            };
            out.notice(level, code, line.message.text().unwrap_or_default());
        }
        // Widgets, titles and status lines, which need a screen.
        _ => {}
    }
}
