//! One turn with OpenClaw: sends the prompt and reads the document printed at the end.

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent, TurnResult};
use ostler_core::event::{Level, Started, Text, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Spec, keys};
use ostler_core::usage::{Tokens, Usage};

use super::blame;
use super::document::{Document, OutputBuffer, Progress};
use crate::lenient::{Node, Scalar};

/// State of one conversation.
#[derive(Debug)]
pub(super) struct OpenClawConversation {
    model: Option<String>,
    cwd: Option<String>,
    output: OutputBuffer,
    /// Whether a turn is in progress.
    open: bool,
    interrupted: bool,
}

/// Maximum number of characters reported of the output before the document.
const NOISE: usize = 4 * 1024;

impl OpenClawConversation {
    pub(super) fn new(spec: &Spec) -> Self {
        Self {
            model: spec.settings.last(keys::MODEL).map(str::to_owned),
            cwd: spec.dir.as_ref().map(|dir| dir.display().to_string()),
            output: OutputBuffer::default(),
            open: false,
            interrupted: false,
        }
    }

    /// Emits the events of the document. Returns false if there is none.
    fn emit_document(&mut self, exit: Option<&Exit>, out: &mut Outbox) -> bool {
        let output = std::mem::take(&mut self.output);
        let Some(document) = output.read() else {
            self.output = output;
            return false;
        };
        self.open = false;
        if !output.before.trim().is_empty() {
            let noise: String = output.before.trim().chars().take(NOISE).collect();
            out.notice(Level::Debug, "stdout_noise", noise);
        }
        self.emit_started(document.session_id.owned(), full_model(&document), out);
        let message = document.session_id.owned();
        let text = answer(&document);
        if let Some(text) = text.clone() {
            out.event(Text {
                kind: TextKind::Reply,
                text,
                delta: false,
                message,
                parent: None,
            });
        }
        tools(&document, out);
        let outcome = if self.interrupted {
            blame::interrupted()
        } else {
            blame::of_document(&document, exit)
        };
        let usage = usage(&document).into_iter().collect();
        out.push(FromConversation::TurnEnded(TurnResult {
            outcome,
            text,
            structured: None,
            usage,
        }));
        true
    }

    fn emit_started(
        &self,
        native_session: Option<String>,
        model: Option<String>,
        out: &mut Outbox,
    ) {
        out.event(Started {
            agent: "openclaw".to_owned(),
            agent_version: None,
            native_session,
            model: model.or_else(|| self.model.clone()),
            cwd: self.cwd.clone(),
            tools: Vec::new(),
        });
    }
}

impl Conversation for OpenClawConversation {
    fn on_start(&mut self, _out: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.open = true;
                out.push(FromConversation::Write(prompt.into_bytes()));
                out.push(FromConversation::EndInput);
                // OpenClaw identifies itself only at the end, if at all. As with any agent, what is
                // known is emitted first.
                self.emit_started(None, None, out);
                let message = "OpenClaw prints nothing until the turn is over.";
                out.notice(Level::Info, "silent_until_done", message);
            }
            ToAgent::Interrupt => {
                self.interrupted = true;
                out.push(FromConversation::Terminate);
            }
            // OpenClaw accepts no other input during a turn.
            _ => {}
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        if !self.open {
            return out.unreadable(line, "printed after the document");
        }
        match self.output.push(line) {
            Progress::More => {}
            Progress::Complete => {
                // Without a verdict in the document, the exit code determines the outcome.
                let has_verdict = |it: Document<'_>| it.ok.is_true() || it.status.text().is_some();
                if self.output.read().is_some_and(has_verdict) {
                    self.emit_document(None, out);
                }
            }
            Progress::TooLarge => {
                self.open = false;
                out.push(FromConversation::TurnEnded(TurnResult::new(
                    blame::output_too_large(),
                )));
                out.push(FromConversation::Terminate);
            }
        }
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        if !self.open || self.emit_document(Some(exit), out) {
            return;
        }
        self.open = false;
        // Without a document, the printed lines are the answer.
        let text = Some(self.output.text()).filter(|text| !text.is_empty());
        if let Some(text) = text.clone() {
            out.event(Text {
                kind: TextKind::Reply,
                text,
                delta: false,
                message: None,
                parent: None,
            });
        }
        let outcome = match blame::of_exit(exit) {
            _ if self.interrupted => blame::interrupted(),
            Some(outcome) => outcome,
            None if exit.code == Some(0) && text.is_some() => {
                out.notice(
                    Level::Warning,
                    "not_json",
                    "OpenClaw printed no JSON document; its output is used as the answer.",
                );
                Outcome::completed()
            }
            None if exit.code == Some(0) => Outcome::new(
                Cause::Protocol,
                "OpenClaw exited successfully without output.",
            )
            .hint("Try again, or run `openclaw` directly for more details."),
            None => return,
        };
        out.push(FromConversation::TurnEnded(TurnResult {
            text,
            ..TurnResult::new(outcome)
        }));
    }
}

fn answer(document: &Document<'_>) -> Option<String> {
    // Errors are formatted as parts of the answer and must be skipped.
    let parts = || {
        document
            .payloads
            .0
            .iter()
            .filter_map(Node::map)
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
    let Some(summary) = document.tool_summary.map() else {
        return;
    };
    let Some(calls) = summary.calls.count().filter(|calls| *calls > 0) else {
        return;
    };
    let names: Vec<&str> = summary.tools.0.iter().filter_map(Scalar::text).collect();
    let failures = summary.failures.count().unwrap_or(0);
    let message = format!(
        "{calls} tool calls ({}), {failures} of them failed.",
        names.join(", ")
    );
    out.notice(Level::Info, "tools_used", message);
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
        .or_else(|| tokens.cost.map()?.total.amount());
    let usage = Usage::for_turn(full_model(document), sum);
    Some(match cost {
        Some(cost) => usage.reported(cost),
        None => usage,
    })
}
