//! Translation of the Copilot CLI's lines, up to the `result`.
//!
//! Telemetry arrives on the same stream (see `launch.rs`), written through a separate descriptor.
//! When the pipe is full, a telemetry line can end up in the middle of another line;
//! `extract_telemetry` separates the two.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Exit, FromConversation, Outbox, TurnResult};
use ostler_core::event::{Level, NoticeCode, Started, Text, TextKind};
use ostler_core::spec::{Denials, Spec};

use super::blame::{self, SessionError};
use super::tools;
use super::usage::UsageTracker;
use super::wire::{CopilotLine, Data};
use crate::json_lines::{self, LineReader};
use crate::turn_process::{Turn, TurnOutput, identity};

/// State of one process.
#[derive(Debug)]
pub(super) struct CopilotOutput {
    pub(super) denials: Denials,
    /// What is known of the session. The tools are those that the caller named: Copilot itself
    /// does not report them.
    identity: Started,
    started: bool,
    turn: Turn,
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
    successful_calls: usize,
    counted_calls: usize,
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
    "model.call_final_result",
    "model.call_start",
    "session.background_tasks_changed",
    "session.idle",
    "session.model_change",
    "session.title_changed",
    "session.usage_info",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "tool.shell_output",
    "user.message",
];

impl CopilotOutput {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            denials: spec.denials,
            identity: Started {
                native_session: spec.resume.clone().or_else(|| spec.session_id.clone()),
                tools: spec.tools.clone().unwrap_or_default(),
                ..identity("copilot", spec)
            },
            started: false,
            turn: Turn::default(),
            aborted: false,
            streamed: BTreeSet::new(),
            tools: BTreeMap::new(),
            denied: BTreeSet::new(),
            answer: None,
            error: None,
            usage: UsageTracker::default(),
            successful_calls: 0,
            counted_calls: 0,
            awaiting_usage: None,
            split_line: None,
        }
    }

    /// Handles a line before the agent is ready. Those before the one that names the model only
    /// show that the program is starting; the first other known line shows that the agent is ready.
    fn on_early_line(&mut self, line: &CopilotLine<'_>, out: &mut Outbox) -> bool {
        let model = line.data.model.owned();
        if PRELUDE.contains(&line.kind.or_empty()) && model.is_none() {
            return true;
        }
        let identity = Started {
            model: model.or_else(|| self.identity.model.clone()),
            ..self.identity.clone()
        };
        let before = std::mem::replace(&mut self.identity, identity.clone());
        let mut rest = Outbox::default();
        self.started = self.handle(line, &mut rest);
        if self.started {
            out.event(identity);
            out.push(FromConversation::TurnStarted);
            rest.drain().for_each(|item| out.push(item));
        } else {
            self.identity = before;
        }
        self.started
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
        if native.is_some() && native != self.identity.native_session {
            // The session was resumed by name, or no id was chosen.
            self.identity.native_session = native;
            out.event(self.identity.clone());
        }
        let failed = line.exit_code.count().is_some_and(|code| code != 0);
        // The tokens of the last call can be reported after the last line.
        self.awaiting_usage = Some(failed);
        if self.all_tokens_known() {
            self.end_turn(failed, out);
        }
    }

    fn all_tokens_known(&self) -> bool {
        self.counted_calls >= self.successful_calls
    }

    fn end_turn(&mut self, failed: bool, out: &mut Outbox) {
        let result = self.result(failed);
        self.turn.end(result, out);
    }

    fn result(&mut self, failed: bool) -> TurnResult {
        let ending = blame::Ending {
            interrupted: self.turn.interrupted || self.aborted,
            error: self.error.take(),
            failed,
            finish: self.usage.finish.as_deref().unwrap_or_default(),
            denied: self.denied.iter().cloned().collect(),
            denials: self.denials,
        };
        TurnResult {
            text: self.answer.take(),
            usage: self.usage.total(),
            ..TurnResult::new(blame::of_turn(ending))
        }
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
        if json_lines::read(self, telemetry, out).is_err() {
            return false;
        }
        self.split_line = Some(head.to_owned());
        true
    }
}

impl CopilotOutput {
    /// Handles a line. Returns false if its type is unknown.
    fn handle(&mut self, line: &CopilotLine<'_>, out: &mut Outbox) -> bool {
        let data = &*line.data;
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
                if self.usage.on_model_call(&line.attributes, out) {
                    self.counted_calls += 1;
                }
                if let Some(failed) = self.awaiting_usage.filter(|_| self.all_tokens_known()) {
                    self.end_turn(failed, out);
                }
            }
            "model.call_finished" => {
                self.successful_calls += usize::from(data.outcome.text() == Some("success"));
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
                out.warn(
                    NoticeCode::ModelCallFailed,
                    message.trim_end_matches([':', ' ']),
                );
            }
            "session.info" | "session.warning" => on_info(data, out),
            "system.notification" => on_notification(data, out),
            "abort" => self.aborted = true,
            "result" => self.on_result(line, out),
            kind if PRELUDE.contains(&kind) || HEARTBEATS.contains(&kind) => {}
            _ => return false,
        }
        true
    }
}

impl LineReader for CopilotOutput {
    type Line<'a> = CopilotLine<'a>;

    fn on_message(&mut self, line: &CopilotLine<'_>, raw: &str, out: &mut Outbox) {
        let known = if self.started {
            self.handle(line, out)
        } else {
            self.on_early_line(line, out)
        };
        if !known {
            json_lines::report_unknown_type("Copilot", line.kind.text(), raw, out);
        }
    }
}

impl TurnOutput for CopilotOutput {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let whole = self.split_line.take().map(|head| head + raw);
        let raw = whole.as_deref().unwrap_or(raw);
        if let Err(why) = json_lines::read(self, raw, out)
            && !self.extract_telemetry(raw, out)
        {
            out.unreadable(raw, &why.to_string());
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) -> Option<TurnResult> {
        if let Some(split_line) = self.split_line.take() {
            out.unreadable(&split_line, "the line is incomplete");
        }
        if let Some(failed) = self.awaiting_usage {
            return Some(self.result(failed));
        }
        if self.turn.interrupted || self.aborted || self.error.is_some() {
            return Some(self.result(true));
        }
        let outcome = blame::BLAME.of_exit(exit).filter(|_| !self.started);
        outcome.map(TurnResult::new)
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
        (_, Some(code)) => (Level::Warning, code.into()),
        (Some(code), _) => (Level::Info, code.into()),
        (None, None) => (Level::Info, NoticeCode::Informational),
    };
    out.notice(level, code, data.message.or_empty());
}

/// Emits a notification that the program sends to its model, such as the end of a background
/// command. The code is Copilot's own.
fn on_notification(data: &Data<'_>, out: &mut Outbox) {
    let code = data.kind.word.text();
    let code = code.map_or(NoticeCode::Informational, NoticeCode::from);
    let tags = ["<system_notification>", "</system_notification>"];
    let text = tags
        .iter()
        .fold(data.content.or_empty().to_owned(), |text, tag| {
            text.replace(tag, "")
        });
    out.notice(Level::Info, code, text.trim());
}
