//! Translation of OpenClaw's output: the document printed at the end of a turn.

use ostler_core::dialect::{Action, Exit, Outbox, TurnResult};
use ostler_core::event::{Level, NoticeCode, Started, Text, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Spec;
use ostler_core::usage::{Tokens, Usage};

use super::blame;
use super::document::{Document, OutputBuffer, Progress};
use crate::blame::interrupted;
use crate::lenient::Scalar;
use crate::turn_process::{Turn, TurnOutput, identity};

/// State of one process.
#[derive(Debug)]
pub(super) struct OpenClawOutput {
    identity: Started,
    output: OutputBuffer,
    turn: Turn,
}

/// Maximum number of characters reported of the output before the document.
const NOISE: usize = 4 * 1024;

impl OpenClawOutput {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            identity: identity("openclaw", spec),
            output: OutputBuffer::default(),
            turn: Turn::default(),
        }
    }

    /// Emits the events of the document and returns its result, or `None` if there is none.
    fn emit_document(&mut self, exit: Option<&Exit>, out: &mut Outbox) -> Option<TurnResult> {
        let output = std::mem::take(&mut self.output);
        let Some(document) = output.read() else {
            self.output = output;
            return None;
        };
        if !output.before.trim().is_empty() {
            let noise: String = output.before.trim().chars().take(NOISE).collect();
            out.notice(Level::Debug, NoticeCode::StdoutNoise, noise);
        }
        let started = self.identity.clone();
        out.event(Started {
            native_session: document.session_id.owned(),
            model: full_model(&document).or(started.model),
            ..started
        });
        let text = answer(&document);
        emit_text(text.as_ref(), document.session_id.owned(), out);
        tools(&document, out);
        let outcome = if self.turn.interrupted {
            interrupted()
        } else {
            blame::of_document(&document, exit)
        };
        Some(TurnResult {
            text,
            usage: usage(&document).into_iter().collect(),
            ..TurnResult::new(outcome)
        })
    }
}

fn emit_text(text: Option<&String>, message: Option<String>, out: &mut Outbox) {
    if let Some(text) = text.cloned() {
        out.event(Text {
            kind: TextKind::Reply,
            text,
            delta: false,
            message,
            parent: None,
        });
    }
}

impl TurnOutput for OpenClawOutput {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn on_prompt(&mut self, out: &mut Outbox) {
        // OpenClaw identifies itself only at the end, if at all. As with any agent, what is known
        // is emitted first.
        out.event(self.identity.clone());
        let message = "OpenClaw prints nothing until the turn is over.";
        out.notice(Level::Info, NoticeCode::SilentUntilDone, message);
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        if !self.turn.is_open() {
            return out.unreadable(line, "printed after the document");
        }
        match self.output.push(line) {
            Progress::More => {}
            Progress::Complete => {
                // Without a verdict in the document, the exit code determines the outcome.
                let has_verdict = |it: Document<'_>| it.ok.is_true() || it.status.text().is_some();
                if self.output.read().is_some_and(has_verdict)
                    && let Some(result) = self.emit_document(None, out)
                {
                    self.turn.end(result, out);
                }
            }
            Progress::TooLarge => {
                let result = TurnResult::new(blame::output_too_large());
                self.turn.end(result, out);
                out.push(Action::Terminate);
            }
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) -> Option<TurnResult> {
        if !self.turn.is_open() {
            return None;
        }
        if let Some(result) = self.emit_document(Some(exit), out) {
            return Some(result);
        }
        // Without a document, the printed lines are the answer.
        let text = Some(self.output.text()).filter(|text| !text.is_empty());
        emit_text(text.as_ref(), None, out);
        let outcome = match blame::of_exit(exit) {
            _ if self.turn.interrupted => interrupted(),
            Some(outcome) => outcome,
            None if exit.code == Some(0) && text.is_some() => {
                out.warn(
                    NoticeCode::NotJson,
                    "OpenClaw printed no JSON document; its output is used as the answer.",
                );
                Outcome::completed()
            }
            None if exit.code == Some(0) => blame::BLAME.with_hint(Outcome::new(
                Cause::Protocol,
                "OpenClaw exited successfully without output.",
            )),
            None => return None,
        };
        Some(TurnResult {
            text,
            ..TurnResult::new(outcome)
        })
    }
}

fn answer(document: &Document<'_>) -> Option<String> {
    // Errors are formatted as parts of the answer and must be skipped.
    let parts = || {
        document
            .payloads
            .iter()
            .filter(|part| !part.is_error.is_true())
    };
    let texts: Vec<&str> = parts().filter_map(|part| part.text.text()).collect();
    let media = parts().filter_map(|part| part.media_url.text());
    let text = document
        .answer
        .owned()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| texts.join("\n\n"));
    let whole = std::iter::once(text.as_str())
        .chain(media)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n");
    (!whole.is_empty()).then_some(whole)
}

/// Reports the number of tool calls; OpenClaw gives no details.
fn tools(document: &Document<'_>, out: &mut Outbox) {
    let summary = &document.tool_summary;
    let Some(calls) = summary.calls.count().filter(|calls| *calls > 0) else {
        return;
    };
    let names: Vec<&str> = summary.tools.0.iter().filter_map(Scalar::text).collect();
    let failures = summary.failures.count().unwrap_or(0);
    let message = format!(
        "{calls} tool calls ({}), {failures} of them failed.",
        names.join(", ")
    );
    out.notice(Level::Info, NoticeCode::ToolsUsed, message);
}

fn full_model(document: &Document<'_>) -> Option<String> {
    let model = document.model.text()?;
    Some(document.provider.text().map_or_else(
        || model.to_owned(),
        |provider| format!("{provider}/{model}"),
    ))
}

fn usage(document: &Document<'_>) -> Option<Usage> {
    let tokens = document.usage.map()?;
    let count = |counter: &Scalar<'_>| counter.count().unwrap_or(0);
    let sum = Tokens {
        input: count(&tokens.input),
        cache_read: count(&tokens.cache_read),
        cache_write: count(&tokens.cache_write),
        output: count(&tokens.output),
        reasoning: None,
    };
    let cost = document
        .cost_usd
        .amount()
        .or_else(|| tokens.cost.total.amount());
    let usage = Usage::for_turn(full_model(document), sum);
    Some(match cost {
        Some(cost) => usage.reported(cost),
        None => usage,
    })
}
