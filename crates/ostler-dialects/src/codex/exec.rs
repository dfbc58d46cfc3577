//! One message to `codex exec --json`: the prompt goes to stdin, which is closed, and lines come until the turn is over.

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnOver};
use ostler_core::event::{Level, Started};
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, keys};
use ostler_core::usage::{Scope, Usage};

use super::conversation::interrupted;
use super::items::{Items, unknown};
use super::notifications::read;
use super::usage::tokens;
use super::wire::Line;
use super::{NAME, blame};

/// The state of one conversation.
pub(super) struct ExecConversation {
    model: Option<String>,
    cwd: Option<String>,
    schema: bool,
    denials: Denials,
    /// Whether an earlier session goes on. Its tokens are counted from its beginning.
    resumes: bool,
    open: bool,
    heard: bool,
    interrupted: bool,
    /// What Codex said last about an error.
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
            heard: false,
            interrupted: false,
            error: None,
            items: Items::new(cwd.clone()),
            cwd,
        }
    }

    fn take(&mut self, line: &Line<'_>, raw: &str, out: &mut Outbox) {
        match (line.kind.or_empty(), line.item.map()) {
            ("thread.started", _) => {
                self.heard = true;
                out.event(Started {
                    agent: NAME.to_owned(),
                    agent_version: None,
                    native_session: line.thread_id.owned(),
                    model: self.model.clone(),
                    cwd: self.cwd.clone(),
                    tools: Vec::new(),
                });
            }
            ("turn.started", _) => out.push(FromConversation::TurnBegan),
            ("item.started", Some(item)) => self.items.begun(item, out),
            ("item.completed", Some(item)) => self.items.done(item, raw, out),
            ("item.updated", _) => {}
            ("turn.completed", _) => self.completed(line, out),
            ("turn.failed", _) => {
                let message = line
                    .error
                    .map()
                    .and_then(|error| error.message.owned())
                    .or(self.error.take());
                self.over(
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
                        format!("The model's service failed: {message}."),
                    );
                } else {
                    self.error = Some(message.to_owned());
                }
            }
            (other, _) => unknown(raw, &format!("type {other:?}"), out),
        }
    }

    fn completed(&mut self, line: &Line<'_>, out: &mut Outbox) {
        let usage = line
            .usage
            .map()
            .map(|counts| Usage::of(self.model.clone(), tokens(counts)));
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
        self.over(outcome, usage.into_iter().collect(), out);
    }

    fn over(&mut self, outcome: Outcome, usage: Vec<Usage>, out: &mut Outbox) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let text = self.items.answer.take().filter(|_| outcome.is_success());
        let structured = text
            .as_deref()
            .filter(|_| self.schema)
            .and_then(|text| RawJson::parse(text).ok());
        if self.schema && structured.is_none() && outcome.is_success() {
            out.notice(
                Level::Warning,
                "no_structured_answer",
                "A structured answer was asked for, and none was given.",
            );
        }
        out.push(FromConversation::TurnOver(TurnOver {
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
            // The next process is started with it.
            ToAgent::Change { id, .. } => out.push(FromConversation::Changed { id, error: None }),
            _ => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        let mut heard = |text: &str, out: &mut Outbox| match serde_json::from_str::<Line<'_>>(text)
        {
            Ok(line) => {
                self.take(&line, text, out);
                None
            }
            Err(error) => Some(error),
        };
        read(raw, &mut heard, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if !self.open {
            return;
        }
        if self.interrupted {
            return self.over(interrupted(), Vec::new(), out);
        }
        let said = self.error.take().map(|error| blame::of_text(&error));
        if let Some(outcome) = said.or_else(|| blame::of_exit(exit).filter(|_| !self.heard)) {
            self.over(outcome, Vec::new(), out);
        }
    }
}

/// Returns true if a recording that begins with this text is of `codex exec`.
pub(super) fn is_recorded(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(rename = "thread_id")]
        _thread: serde::de::IgnoredAny,
    }
    crate::recording::lines::<Head<'_>>(opening).any(|head| head.kind == "thread.started")
}
