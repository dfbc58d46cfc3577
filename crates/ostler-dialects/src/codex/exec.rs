//! Conversation with `codex exec --json`: the prompt goes to stdin, which is then closed, and lines
//! arrive until the turn ends.

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult};
use ostler_core::event::{Level, Started};
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, keys};
use ostler_core::usage::{Scope, Usage};

use super::conversation::interrupted;
use super::items::{Items, report_unknown};
use super::notifications::parse_line;
use super::usage::tokens;
use super::wire::ExecLine;
use super::{NAME, blame};

/// State of one conversation.
pub(super) struct ExecConversation {
    model: Option<String>,
    cwd: Option<String>,
    schema: bool,
    denials: Denials,
    /// Whether this resumes a session. Its tokens are counted from its start.
    resumes: bool,
    open: bool,
    started: bool,
    interrupted: bool,
    /// Last error that Codex reported.
    error: Option<String>,
    items: Items,
}

impl ExecConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        let cwd = spec.dir.as_ref().map(|dir| dir.display().to_string());
        Self {
            model: spec.settings.last(keys::MODEL).map(str::to_owned),
            schema: spec.settings.get(keys::JSON_SCHEMA).is_some(),
            denials: spec.denials,
            resumes: spec.settings.get(keys::RESUME).is_some(),
            open: false,
            started: false,
            interrupted: false,
            error: None,
            items: Items::new(cwd.clone()),
            cwd,
        }
    }

    fn dispatch(&mut self, line: &ExecLine<'_>, raw: &str, out: &mut Outbox) {
        match (line.kind.or_empty(), line.item.map()) {
            ("thread.started", _) => {
                self.started = true;
                out.event(Started {
                    agent: NAME.to_owned(),
                    agent_version: None,
                    native_session: line.thread_id.owned(),
                    model: self.model.clone(),
                    cwd: self.cwd.clone(),
                    tools: Vec::new(),
                });
            }
            ("turn.started", _) => out.push(FromConversation::TurnStarted),
            ("item.started", Some(item)) => self.items.on_started(item, out),
            ("item.completed", Some(item)) => self.items.on_completed(item, raw, out),
            ("item.updated", _) => {}
            ("turn.completed", _) => self.on_turn_completed(line, out),
            ("turn.failed", _) => {
                let message = line
                    .error
                    .map()
                    .and_then(|error| error.message.owned())
                    .or(self.error.take());
                self.finish_turn(
                    blame::of_text(&message.unwrap_or_default()),
                    Vec::new(),
                    out,
                );
            }
            ("error", _) => {
                let message = line.message.or_empty();
                if message.starts_with("Reconnecting") {
                    out.notice(
                        Level::Warning,
                        "api_retry",
                        format!("The model API failed: {message}."),
                    );
                } else {
                    self.error = Some(message.to_owned());
                }
            }
            (other, _) => report_unknown(raw, &format!("type {other:?}"), out),
        }
    }

    fn on_turn_completed(&mut self, line: &ExecLine<'_>, out: &mut Outbox) {
        let usage = line
            .usage
            .map()
            .map(|counts| Usage::for_turn(self.model.clone(), tokens(counts)));
        let usage = match (usage, self.resumes) {
            (Some(usage), true) => {
                out.event(Usage {
                    scope: Scope::Session,
                    ..usage
                });
                None
            }
            (usage, _) => usage,
        };
        let denied = std::mem::take(&mut self.items.denied);
        let outcome = if denied.is_empty() || self.denials == Denials::Tolerate {
            Outcome::completed()
        } else {
            blame::denied(denied)
        };
        self.finish_turn(outcome, usage.into_iter().collect(), out);
    }

    fn finish_turn(&mut self, outcome: Outcome, usage: Vec<Usage>, out: &mut Outbox) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let text = self.items.reply.take().filter(|_| outcome.is_success());
        let structured = text
            .as_deref()
            .filter(|_| self.schema)
            .and_then(|text| RawJson::parse(text).ok());
        if self.schema && structured.is_none() && outcome.is_success() {
            out.notice(
                Level::Warning,
                "no_structured_answer",
                "The agent gave no structured answer although one was requested.",
            );
        }
        out.push(FromConversation::TurnEnded(TurnResult {
            outcome,
            text,
            structured,
            usage,
        }));
    }
}

impl Conversation for ExecConversation {
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
            // The next process is launched with it.
            ToAgent::Change { id, .. } => out.push(FromConversation::Changed { id, error: None }),
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let mut started =
            |text: &str, out: &mut Outbox| match serde_json::from_str::<ExecLine<'_>>(text) {
                Ok(line) => {
                    self.dispatch(&line, text, out);
                    None
                }
                Err(error) => Some(error),
            };
        parse_line(raw, &mut started, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if !self.open {
            return;
        }
        if self.interrupted {
            return self.finish_turn(interrupted(), Vec::new(), out);
        }
        let reported = self.error.take().map(|error| blame::of_text(&error));
        if let Some(outcome) = reported.or_else(|| blame::of_exit(exit).filter(|_| !self.started)) {
            self.finish_turn(outcome, Vec::new(), out);
        }
    }
}

/// Returns true if a recording that begins with this text is of `codex exec`.
pub(super) fn recognizes(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(rename = "thread_id")]
        _thread: serde::de::IgnoredAny,
    }
    crate::recording::lines::<Head<'_>>(opening).any(|head| head.kind == "thread.started")
}
