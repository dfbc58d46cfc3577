//! Translation of `codex exec --json`, which runs one process per turn.

use ostler_core::dialect::{Exit, FromConversation, Outbox, TurnResult};
use ostler_core::event::{NoticeCode, Started};
use ostler_core::outcome::Outcome;
use ostler_core::spec::{Denials, Spec};
use ostler_core::usage::{Scope, Usage};

use super::items::Items;
use super::usage::tokens;
use super::wire::ExecLine;
use super::{NAME, TITLE, blame};
use crate::blame::interrupted;
use crate::json_lines::{self, LineReader, report_unknown};
use crate::structured;
use crate::turn_process::{Turn, TurnOutput, identity};

/// State of one process.
pub(super) struct ExecOutput {
    identity: Started,
    schema: bool,
    denials: Denials,
    /// Whether this resumes a session. Its tokens are counted from its start.
    resumes: bool,
    turn: Turn,
    started: bool,
    /// Last error that Codex reported.
    error: Option<String>,
    items: Items,
}

impl ExecOutput {
    pub(super) fn new(spec: &Spec) -> Self {
        let identity = identity(NAME, spec);
        Self {
            schema: spec.json_schema.is_some(),
            denials: spec.denials,
            resumes: spec.resume.is_some(),
            turn: Turn::default(),
            started: false,
            error: None,
            items: Items::new(identity.cwd.clone()),
            identity,
        }
    }

    fn on_turn_completed(&mut self, line: &ExecLine<'_>, out: &mut Outbox) {
        if !self.turn.is_open() {
            return;
        }
        let usage = line
            .usage
            .map()
            .map(|counts| Usage::for_turn(self.identity.model.clone(), tokens(counts)));
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
        let text = self.items.reply.take().filter(|_| outcome.is_success());
        let structured = match self.schema {
            true => structured::parse(text.as_deref(), &outcome, out),
            false => None,
        };
        let result = TurnResult {
            outcome,
            text,
            structured,
            usage: usage.into_iter().collect(),
        };
        self.turn.end(result, out);
    }
}

impl LineReader for ExecOutput {
    type Line<'a> = ExecLine<'a>;

    fn on_message(&mut self, line: &ExecLine<'_>, raw: &str, out: &mut Outbox) {
        match (line.kind.or_empty(), line.item.map()) {
            ("thread.started", _) => {
                self.started = true;
                out.event(Started {
                    native_session: line.thread_id.owned(),
                    ..self.identity.clone()
                });
            }
            ("turn.started", _) => out.push(FromConversation::TurnStarted),
            ("item.started", Some(item)) => self.items.on_started(item, out),
            ("item.completed", Some(item)) => self.items.on_completed(item, raw, out),
            ("item.updated", _) => {}
            ("turn.completed", _) => self.on_turn_completed(line, out),
            ("turn.failed", _) => {
                let message = line.error.message.owned().or(self.error.take());
                let outcome = blame::of_text(&message.unwrap_or_default());
                self.turn.end(TurnResult::new(outcome), out);
            }
            ("error", _) => {
                let message = line.message.or_empty();
                if blame::is_retry(message) {
                    out.warn(
                        NoticeCode::ApiRetry,
                        format!("The model API failed: {message}."),
                    );
                } else {
                    self.error = Some(message.to_owned());
                }
            }
            (other, _) => report_unknown(TITLE, &format!("type {other:?}"), raw, out),
        }
    }
}

impl TurnOutput for ExecOutput {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        json_lines::deliver(self, raw, out);
    }

    fn on_exit(&mut self, exit: &Exit, _out: &mut Outbox) -> Option<TurnResult> {
        let outcome = if self.turn.interrupted {
            interrupted()
        } else {
            let reported = self.error.take().map(|error| blame::of_text(&error));
            reported.or_else(|| blame::BLAME.of_exit(exit).filter(|_| !self.started))?
        };
        Some(TurnResult::new(outcome))
    }
}

/// Returns true if a recording that begins with this text is of `codex exec`.
pub(super) fn recognizes(opening: &str) -> bool {
    crate::recording::lines::<ExecLine<'_>>(opening)
        .any(|line| line.kind.text() == Some("thread.started") && line.thread_id.text().is_some())
}
