//! One turn with the Copilot CLI: sends the prompt and handles its lines up to the `result`.
//!
//! Telemetry arrives on the same stream (see `launch.rs`), written through a separate descriptor.
//! When the pipe is full, a telemetry line can end up in the middle of another line;
//! `extract_telemetry` separates the two.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult};
use ostler_core::event::{Level, Notice, Started, Text, TextKind};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, keys};
use serde::de::IgnoredAny;

use super::blame::{self, SessionError};
use super::tools;
use super::usage::UsageTracker;
use super::wire::{CopilotLine, Data};
use crate::surrogates;

/// State of one conversation.
#[derive(Debug)]
pub(super) struct CopilotConversation {
    pub(super) denials: Denials,
    /// Id of Copilot's session, if known.
    native: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    /// Tools named by the caller. Copilot itself does not report its tools.
    named_tools: Vec<String>,
    started: bool,
    /// Whether a turn is in progress.
    open: bool,
    /// Whether the caller interrupted the turn.
    interrupted: bool,
    /// Whether the agent acknowledged the interrupt.
    aborted: bool,
    /// Ids of messages and thoughts that were streamed.
    streamed: BTreeSet<String>,
    /// Tool names by call id.
    pub(super) tools: BTreeMap<String, String>,
    /// Names of the tools whose calls were denied.
    pub(super) denied: BTreeSet<String>,
    /// The agent's last complete message.
    answer: Option<String>,
    error: Option<SessionError>,
    usage: UsageTracker,
    /// Number of successful model calls, and of those with reported tokens. Either can come first.
    calls: (usize, usize),
    /// Set while waiting for late token telemetry after the `result`: whether the agent reported a
    /// failure.
    awaiting_usage: Option<bool>,
    /// First part of a line that was split by telemetry.
    split_line: Option<String>,
}

/// Prefixes of telemetry lines.
const TELEMETRY: [&str; 2] = ["{\"type\":\"span\",", "{\"type\":\"metric\","];

/// Lines before the one that names the model (`session.tools_updated`), with telemetry in between.
const PRELUDE: &[&str] = &[
    "metric",
    "session.mcp_server_status_changed",
    "session.mcp_server_tools_loaded",
    "session.mcp_servers_loaded",
    "session.resume",
    "session.skills_loaded",
    "session.start",
    "session.tools_updated",
];

/// Lines that are only heartbeats, or that other lines repeat in more detail.
const HEARTBEATS: &[&str] = &[
    "abort_requested",
    "agent.interrupted",
    "assistant.idle",
    "assistant.intent",
    "assistant.message_start",
    "assistant.streaming_delta",
    "assistant.tool_call_delta",
    "assistant.turn_end",
    "assistant.turn_retry",
    "assistant.turn_start",
    "assistant.usage",
    "metric",
    "model.call_final_result",
    "model.call_start",
    "session.background_tasks_changed",
    "session.idle",
    "session.mcp_server_status_changed",
    "session.mcp_server_tools_loaded",
    "session.model_change",
    "session.mcp_servers_loaded",
    "session.resume",
    "session.skills_loaded",
    "session.start",
    "session.title_changed",
    "session.tools_updated",
    "session.usage_info",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "tool.shell_output",
    "user.message",
];

impl CopilotConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        let setting = |key| spec.settings.last(key).map(str::to_owned);
        Self {
            denials: spec.denials,
            native: setting(keys::RESUME).or_else(|| setting(keys::SESSION_ID)),
            model: setting(keys::MODEL),
            cwd: spec.dir.as_ref().map(|dir| dir.display().to_string()),
            named_tools: spec.settings.get(keys::TOOLS).unwrap_or_default().to_vec(),
            started: false,
            open: false,
            interrupted: false,
            aborted: false,
            streamed: BTreeSet::new(),
            tools: BTreeMap::new(),
            denied: BTreeSet::new(),
            answer: None,
            error: None,
            usage: UsageTracker::default(),
            calls: (0, 0),
            awaiting_usage: None,
            split_line: None,
        }
    }

    fn on_message(&mut self, line: &CopilotLine<'_>, raw: &str, out: &mut Outbox) {
        let empty = Data::default();
        let data = line.data.map().unwrap_or(&empty);
        if self.is_starting(line, data) {
            return;
        }
        self.start(out);
        match line.kind.or_empty() {
            "assistant.message_delta" => self.on_delta(TextKind::Reply, data, out),
            "assistant.reasoning_delta" => self.on_delta(TextKind::Thinking, data, out),
            "assistant.message" => {
                self.on_text(TextKind::Reply, data, out);
                tools::on_requests(self, data, out);
            }
            "assistant.reasoning" => self.on_text(TextKind::Thinking, data, out),
            "tool.execution_start" => tools::on_start(self, data, out),
            "tool.execution_complete" => tools::on_complete(self, data, out),
            "span" => {
                if line
                    .attributes
                    .map()
                    .is_some_and(|call| self.usage.on_model_call(call, out))
                {
                    self.calls.1 += 1;
                }
                if let Some(failed) = self.awaiting_usage.filter(|_| self.all_tokens_known()) {
                    self.end_turn(failed, out);
                }
            }
            "model.call_finished" => {
                self.calls.0 += usize::from(data.outcome.text() == Some("success"));
            }
            "session.error" => self.error = Some(SessionError::read(data)),
            "model.call_failure" => {
                let status = data
                    .status_code
                    .count()
                    .map(|status| format!(" (HTTP status {status})"))
                    .unwrap_or_default();
                let why = data.error_message.or_empty();
                let message = format!("A model call failed{status}: {why}");
                out.notice(
                    Level::Warning,
                    "model_call_failed",
                    message.trim_end_matches([':', ' ']),
                );
            }
            "session.info" | "session.warning" => on_info(data, out),
            "system.notification" => on_notification(data, out),
            "abort" => self.aborted = true,
            "result" => self.on_result(line, out),
            kind if HEARTBEATS.contains(&kind) => {}
            _ if line.kind.text().is_none() => out.unreadable(raw, "a JSON object without a type"),
            other => unknown(raw, other, out),
        }
    }

    /// Returns true for lines before the one that names the model: they only show that the program
    /// is starting. The first other line shows that the agent is ready.
    fn is_starting(&mut self, line: &CopilotLine<'_>, data: &Data<'_>) -> bool {
        if self.started {
            return false;
        }
        let model = data.model.owned();
        let is_prelude = PRELUDE.contains(&line.kind.or_empty()) && model.is_none();
        self.model = model.or_else(|| self.model.take());
        is_prelude
    }

    fn start(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.started, true) {
            self.emit_started(out);
            out.push(FromConversation::TurnStarted);
        }
    }

    fn emit_started(&self, out: &mut Outbox) {
        out.event(Started {
            agent: "copilot".to_owned(),
            agent_version: None,
            native_session: self.native.clone(),
            model: self.model.clone(),
            cwd: self.cwd.clone(),
            tools: self.named_tools.clone(),
        });
    }

    fn on_delta(&mut self, kind: TextKind, data: &Data<'_>, out: &mut Outbox) {
        let message = id_of(kind, data);
        if let Some(text) = data.delta_content.owned().filter(|text| !text.is_empty()) {
            self.streamed.extend(message.clone());
            out.event(Text {
                kind,
                text,
                delta: true,
                message,
                parent: data.parent_tool_call_id.owned(),
            });
        }
    }

    /// Emits a whole message, unless it was streamed.
    fn on_text(&mut self, kind: TextKind, data: &Data<'_>, out: &mut Outbox) {
        let Some(text) = data.content.owned().filter(|text| !text.is_empty()) else {
            return;
        };
        let (message, parent) = (id_of(kind, data), data.parent_tool_call_id.owned());
        if kind == TextKind::Reply && parent.is_none() {
            self.answer = Some(text.clone());
        }
        if !message
            .as_ref()
            .is_some_and(|id| self.streamed.contains(id))
        {
            out.event(Text {
                kind,
                text,
                delta: false,
                message,
                parent,
            });
        }
    }

    /// Handles the last line.
    fn on_result(&mut self, line: &CopilotLine<'_>, out: &mut Outbox) {
        let native = line.session_id.owned();
        if native.is_some() && native != self.native {
            // The session was resumed by name, or no id was chosen.
            self.native = native;
            self.emit_started(out);
        }
        let failed = line.exit_code.count().is_some_and(|code| code != 0);
        // The tokens of the last call can be reported after the last line.
        self.awaiting_usage = Some(failed);
        if self.all_tokens_known() {
            self.end_turn(failed, out);
        }
    }

    fn all_tokens_known(&self) -> bool {
        self.calls.1 >= self.calls.0
    }

    fn end_turn(&mut self, failed: bool, out: &mut Outbox) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let ending = blame::Ending {
            interrupted: self.interrupted || self.aborted,
            error: self.error.take(),
            failed,
            finish: self.usage.finish.as_deref().unwrap_or_default(),
            denied: self.denied.iter().cloned().collect(),
            denials: self.denials,
        };
        let outcome = blame::of_turn(ending);
        let text = self.answer.take();
        out.push(FromConversation::TurnEnded(TurnResult {
            outcome,
            text,
            structured: None,
            usage: self.usage.total(),
        }));
    }

    /// Parses a line and handles it. Returns the reason if it cannot be parsed.
    fn parse_line(&mut self, raw: &str, out: &mut Outbox) -> Result<(), String> {
        // Checked first, because serde would deserialize an array into a struct, field by field.
        if !raw.trim_start().starts_with('{') {
            let json = serde_json::from_str::<IgnoredAny>(raw);
            return Err(json.map_or_else(
                |e| format!("not JSON: {e}"),
                |_| "JSON, but not an object".into(),
            ));
        }
        match serde_json::from_str(raw) {
            Ok(line) => self.on_message(&line, raw, out),
            Err(error) => {
                let repaired = surrogates::repair(raw);
                let line =
                    serde_json::from_str(&repaired).map_err(|_| format!("not JSON: {error}"))?;
                self.on_message(&line, &repaired, out);
            }
        }
        Ok(())
    }

    /// Extracts a telemetry line from the middle of another line. Returns false if there is none.
    fn extract_telemetry(&mut self, raw: &str, out: &mut Outbox) -> bool {
        let found = TELEMETRY
            .iter()
            .filter_map(|prefix| raw.find(prefix))
            .filter(|at| *at > 0)
            .min();
        let Some((head, telemetry)) = found.map(|at| raw.split_at(at)) else {
            return false;
        };
        if self.parse_line(telemetry, out).is_err() {
            return false;
        }
        self.split_line = Some(head.to_owned());
        true
    }
}

impl Conversation for CopilotConversation {
    fn on_start(&mut self, _out: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.open = true;
                out.push(FromConversation::Write(prompt.into_bytes()));
                out.push(FromConversation::EndInput);
            }
            ToAgent::Interrupt => {
                self.interrupted = true;
                out.push(FromConversation::Terminate);
            }
            // Copilot accepts no other input during a turn.
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let whole = self.split_line.take().map(|head| head + raw);
        let raw = whole.as_deref().unwrap_or(raw);
        if let Err(why) = self.parse_line(raw, out)
            && !self.extract_telemetry(raw, out)
        {
            out.unreadable(raw, &why);
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if let Some(split_line) = self.split_line.take() {
            out.unreadable(&split_line, "the line is incomplete");
        }
        if !self.open {
            return;
        }
        if let Some(failed) = self.awaiting_usage {
            return self.end_turn(failed, out);
        }
        if self.interrupted || self.aborted || self.error.is_some() {
            return self.end_turn(true, out);
        }
        if let Some(outcome) = blame::of_exit(exit).filter(|_| !self.started) {
            self.open = false;
            out.push(FromConversation::TurnEnded(TurnResult::new(outcome)));
        }
    }
}

fn id_of(kind: TextKind, data: &Data<'_>) -> Option<String> {
    match kind {
        TextKind::Reply => data.message_id.owned(),
        TextKind::Thinking => data.reasoning_id.owned(),
    }
}

/// Emits information or a warning from the agent. The code is Copilot's own.
fn on_info(data: &Data<'_>, out: &mut Outbox) {
    let (level, code) = match (data.info_type.text(), data.warning_type.text()) {
        (_, Some(code)) => (Level::Warning, code),
        (Some(code), _) => (Level::Info, code),
        (None, None) => (Level::Info, "informational"),
    };
    out.notice(level, code, data.message.or_empty());
}

/// Emits a notification that the program sends to its model, such as the end of a background
/// command. The code is Copilot's own.
fn on_notification(data: &Data<'_>, out: &mut Outbox) {
    let code = data
        .kind
        .map()
        .and_then(|kind| kind.word.text())
        .unwrap_or("informational");
    let tags = ["<system_notification>", "</system_notification>"];
    let text = tags
        .iter()
        .fold(data.content.or_empty().to_owned(), |text, tag| {
            text.replace(tag, "")
        });
    out.notice(Level::Info, code, text.trim());
}

/// Reports an unknown line as a notice that contains it.
fn unknown(raw: &str, kind: &str, out: &mut Outbox) {
    out.event(Notice::unknown_message(
        "Copilot",
        &format!("type {kind:?}"),
        RawJson::parse(raw).ok(),
    ));
}
