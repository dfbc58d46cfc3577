//! One turn with the Copilot CLI: the prompt goes in, lines come out, and the last of them says how it went.
//!
//! Telemetry comes on the same stream (`launch.rs` says why), written through a descriptor of its own. When the pipe is full, a
//! line of it can stand in the middle of another line; the two are told apart here.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnOver};
use ostler_core::event::{Level, Notice, Started, Text, TextKind};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, keys};
use serde::de::IgnoredAny;

use super::blame::{self, Trouble};
use super::tools;
use super::usage::Spend;
use super::wire::{Data, Line};
use crate::surrogates;

/// The state of one conversation.
#[derive(Debug)]
pub(super) struct CopilotConversation {
    pub(super) denials: Denials,
    /// How the session is called, as far as it is known.
    native: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    /// The tools that exist, where the caller said which; it does not say itself which it has.
    exist: Vec<String>,
    started: bool,
    /// Whether a turn is under way.
    open: bool,
    /// Whether the caller wants the turn ended.
    interrupted: bool,
    /// Whether the agent says that it was.
    aborted: bool,
    /// Messages and thoughts that came in pieces.
    streamed: BTreeSet<String>,
    /// Tool calls: id and name.
    pub(super) tools: BTreeMap<String, String>,
    /// The tools whose calls were denied.
    pub(super) denied: BTreeSet<String>,
    /// What the agent said last, as a whole.
    answer: Option<String>,
    trouble: Option<Trouble>,
    spend: Spend,
    /// Calls of the model that went well, and those whose tokens were told, before or after that.
    calls: (usize, usize),
    /// Set between the last line and the tokens that telemetry tells late: whether the agent calls it a failure.
    waits: Option<bool>,
    /// The first part of a line that telemetry stands in the middle of.
    torn: Option<String>,
}

/// How lines of telemetry begin.
const TELEMETRY: [&str; 2] = ["{\"type\":\"span\",", "{\"type\":\"metric\","];

/// Lines that come before the one that names the model (`session.tools_updated`), with telemetry between them.
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

/// Lines that only show that it is alive, or say what other lines say better.
const SIGNS_OF_LIFE: &[&str] = &[
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
            exist: spec.settings.get(keys::TOOLS).unwrap_or_default().to_vec(),
            started: false,
            open: false,
            interrupted: false,
            aborted: false,
            streamed: BTreeSet::new(),
            tools: BTreeMap::new(),
            denied: BTreeSet::new(),
            answer: None,
            trouble: None,
            spend: Spend::default(),
            calls: (0, 0),
            waits: None,
            torn: None,
        }
    }

    fn take(&mut self, line: &Line<'_>, raw: &str, out: &mut Outbox) {
        let empty = Data::default();
        let data = line.data.map().unwrap_or(&empty);
        if self.is_still_coming_up(line, data) {
            return;
        }
        self.say_hello(out);
        match line.kind.or_empty() {
            "assistant.message_delta" => self.piece(TextKind::Reply, data, out),
            "assistant.reasoning_delta" => self.piece(TextKind::Thinking, data, out),
            "assistant.message" => {
                self.whole(TextKind::Reply, data, out);
                tools::requested(self, data, out);
            }
            "assistant.reasoning" => self.whole(TextKind::Thinking, data, out),
            "tool.execution_start" => tools::began(self, data, out),
            "tool.execution_complete" => tools::ended(self, data, out),
            "span" => {
                if line
                    .attributes
                    .map()
                    .is_some_and(|call| self.spend.hear(call, out))
                {
                    self.calls.1 += 1;
                }
                if let Some(failed) = self.waits.filter(|_| self.all_told()) {
                    self.over(failed, out);
                }
            }
            "model.call_finished" => {
                self.calls.0 += usize::from(data.outcome.text() == Some("success"))
            }
            "session.error" => self.trouble = Some(Trouble::read(data)),
            "model.call_failure" => {
                let status = data
                    .status_code
                    .count()
                    .map(|status| format!(" (HTTP status {status})"))
                    .unwrap_or_default();
                let why = data.error_message.or_empty();
                let message = format!("A call of the model failed{status}: {why}");
                out.notice(
                    Level::Warning,
                    "model_call_failed",
                    message.trim_end_matches([':', ' ']),
                );
            }
            "session.info" | "session.warning" => note(data, out),
            "system.notification" => notified(data, out),
            "abort" => self.aborted = true,
            "result" => self.result(line, out),
            kind if SIGNS_OF_LIFE.contains(&kind) => {}
            _ if line.kind.text().is_none() => out.unreadable(raw, "a JSON object without a type"),
            other => unknown(raw, other, out),
        }
    }

    /// What comes before the line that names the model only shows that the program comes up; the first other line shows that
    /// the agent is there.
    fn is_still_coming_up(&mut self, line: &Line<'_>, data: &Data<'_>) -> bool {
        if self.started {
            return false;
        }
        let model = data.model.owned();
        let is_prelude = PRELUDE.contains(&line.kind.or_empty()) && model.is_none();
        self.model = model.or_else(|| self.model.take());
        is_prelude
    }

    fn say_hello(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.started, true) {
            self.introduce(out);
            out.push(FromConversation::TurnBegan);
        }
    }

    fn introduce(&self, out: &mut Outbox) {
        out.event(Started {
            agent: "copilot".to_owned(),
            agent_version: None,
            native_session: self.native.clone(),
            model: self.model.clone(),
            cwd: self.cwd.clone(),
            tools: self.exist.clone(),
        });
    }

    fn piece(&mut self, kind: TextKind, data: &Data<'_>, out: &mut Outbox) {
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

    /// A message as a whole. One that came in pieces is not repeated.
    fn whole(&mut self, kind: TextKind, data: &Data<'_>, out: &mut Outbox) {
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

    /// The last line.
    fn result(&mut self, line: &Line<'_>, out: &mut Outbox) {
        let native = line.session_id.owned();
        if native.is_some() && native != self.native {
            // It was resumed by its name, or nobody chose an id.
            self.native = native;
            self.introduce(out);
        }
        let failed = line.exit_code.count().is_some_and(|code| code != 0);
        // The tokens of the last call can be told after the last line.
        self.waits = Some(failed);
        if self.all_told() {
            self.over(failed, out);
        }
    }

    fn all_told(&self) -> bool {
        self.calls.1 >= self.calls.0
    }

    fn over(&mut self, failed: bool, out: &mut Outbox) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let ending = blame::Ending {
            interrupted: self.interrupted || self.aborted,
            trouble: self.trouble.take(),
            failed,
            finish: self.spend.finish.as_deref().unwrap_or_default(),
            denied: self.denied.iter().cloned().collect(),
            denials: self.denials,
        };
        let outcome = blame::of_turn(ending);
        let text = self.answer.take();
        out.push(FromConversation::TurnOver(TurnOver {
            outcome,
            text,
            structured: None,
            usage: self.spend.total(),
        }));
    }

    /// Reads a line; gives it back when it cannot be read.
    fn read(&mut self, raw: &str, out: &mut Outbox) -> Result<(), String> {
        // Asked first, because serde would read a list as the fields of a struct in their order.
        if !raw.trim_start().starts_with('{') {
            let json = serde_json::from_str::<IgnoredAny>(raw);
            return Err(json.map_or_else(
                |e| format!("not JSON: {e}"),
                |_| "JSON, but not an object".into(),
            ));
        }
        match serde_json::from_str(raw) {
            Ok(line) => self.take(&line, raw, out),
            Err(error) => {
                let mended = surrogates::mend(raw);
                let line =
                    serde_json::from_str(&mended).map_err(|_| format!("not JSON: {error}"))?;
                self.take(&line, &mended, out);
            }
        }
        Ok(())
    }

    /// Takes a line of telemetry out of the middle of another; false when there is none.
    fn untangle(&mut self, raw: &str, out: &mut Outbox) -> bool {
        let found = TELEMETRY
            .iter()
            .filter_map(|mark| raw.find(mark))
            .filter(|at| *at > 0)
            .min();
        let Some((head, telemetry)) = found.map(|at| raw.split_at(at)) else {
            return false;
        };
        if self.read(telemetry, out).is_err() {
            return false;
        }
        self.torn = Some(head.to_owned());
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
            // It takes nothing else while it works.
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let whole = self.torn.take().map(|head| head + raw);
        let raw = whole.as_deref().unwrap_or(raw);
        if let Err(why) = self.read(raw, out)
            && !self.untangle(raw, out)
        {
            out.unreadable(raw, &why);
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if let Some(torn) = self.torn.take() {
            out.unreadable(&torn, "the line breaks off");
        }
        if !self.open {
            return;
        }
        if let Some(failed) = self.waits {
            return self.over(failed, out);
        }
        if self.interrupted || self.aborted || self.trouble.is_some() {
            return self.over(true, out);
        }
        if let Some(outcome) = blame::of_exit(exit).filter(|_| !self.started) {
            self.open = false;
            out.push(FromConversation::TurnOver(TurnOver::bare(outcome)));
        }
    }
}

fn id_of(kind: TextKind, data: &Data<'_>) -> Option<String> {
    match kind {
        TextKind::Reply => data.message_id.owned(),
        TextKind::Thinking => data.reasoning_id.owned(),
    }
}

/// What the agent says about itself. Its own word for it is the code.
fn note(data: &Data<'_>, out: &mut Outbox) {
    let (level, code) = match (data.info_type.text(), data.warning_type.text()) {
        (_, Some(code)) => (Level::Warning, code),
        (Some(code), _) => (Level::Info, code),
        (None, None) => (Level::Info, "informational"),
    };
    out.notice(level, code, data.message.or_empty());
}

/// What the program tells its model, that a command which was left alone has ended, say. Its own word for it is the code.
fn notified(data: &Data<'_>, out: &mut Outbox) {
    let code = data
        .kind
        .map()
        .and_then(|kind| kind.word.text())
        .unwrap_or("informational");
    let tags = ["<system_notification>", "</system_notification>"];
    let said = tags
        .iter()
        .fold(data.content.or_empty().to_owned(), |said, tag| {
            said.replace(tag, "")
        });
    out.notice(Level::Info, code, said.trim());
}

/// Keeps a line that is not known here.
fn unknown(raw: &str, kind: &str, out: &mut Outbox) {
    out.event(Notice::unknown_message(
        "Copilot",
        &format!("type {kind:?}"),
        RawJson::parse(raw).ok(),
    ));
}
