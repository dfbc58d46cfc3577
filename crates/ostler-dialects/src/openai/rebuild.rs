//! Rebuilds a conversation from the events of a session, so that another session can resume it.
//!
//! Everything that changes a conversation emits an event, and is repeated here in the same order.

use ostler_core::event::{Event, EventKind, Notice, TextKind};
use ostler_core::outcome::Cause;
use ostler_core::raw_json::RawJson;
use serde::{Deserialize, Serialize};

use super::calls::Call;
use super::context;
use super::history::{History, HistoryCall, LOST, Message};

/// Codes of the notices needed to rebuild a conversation.
pub(super) mod codes {
    /// A steering message for the current turn; it is the notice's message.
    pub(in crate::openai) const STEERED: &str = "steered";
    /// The steering messages so far are in the next request.
    pub(in crate::openai) const STEER_TAKEN: &str = "steer_taken";
    /// Old tool results were shortened.
    pub(in crate::openai) const SHORTENED: &str = "context_shortened";
    /// Old messages were replaced; `raw` is a [`Summary`](super::Summary).
    pub(in crate::openai) const SUMMARISED: &str = "context_summarised";
    /// An answer was rejected; `raw` is the message to the model.
    pub(in crate::openai) const SCHEMA_NOT_KEPT: &str = "schema_not_kept";
    /// A verification failed; `raw` is the message to the model.
    pub(in crate::openai) const NOT_VERIFIED: &str = "not_verified";
    /// An answer failed; `raw` is the message to the model, if the answer had any text.
    pub(in crate::openai) const ANSWER_FAILED: &str = "answer_failed";
    /// A hook returned a message; `raw` is the message to the model.
    pub(in crate::openai) const HOOK_SAID: &str = "hook_said";
}

/// A summary of old messages.
#[derive(Serialize, Deserialize)]
pub(super) struct Summary {
    /// Number of messages replaced, from the first one.
    pub(super) replaced: usize,
    /// The summary.
    pub(super) summary: String,
}

impl History {
    /// Rebuilds a conversation from the events of a session.
    pub fn rebuild<'a>(events: impl IntoIterator<Item = &'a EventKind>) -> Self {
        let mut builder = Builder::default();
        for kind in events {
            builder.push(kind);
        }
        builder.end_turn();
        builder.history
    }
}

/// Returns the calls that wait for a person's approval at the end of a session.
pub(super) fn pending(past: &[Event]) -> Vec<Call> {
    let begins = past
        .iter()
        .rposition(|event| matches!(event.kind, EventKind::TurnStarted(_)))
        .unwrap_or(0);
    let last = &past[begins..];
    let needs = |event: &Event| {
        matches!(&event.kind,
        EventKind::TurnEnded(turn) if turn.outcome.cause == Cause::NeedsInput)
    };
    let waits = |id: &str| {
        last.iter().any(|event| {
            matches!(&event.kind,
                EventKind::ToolResult(result) if result.id == id
                && result.output == AWAITING_APPROVAL)
        })
    };
    let call = |event: &Event| match &event.kind {
        EventKind::ToolCall(call) if waits(&call.id) => {
            Some(Call::of(&call.id, &call.name, call.input.get()))
        }
        _ => None,
    };
    if last.iter().any(needs) {
        last.iter().filter_map(call).collect()
    } else {
        Vec::new()
    }
}

/// Result of a call that waits for a person's approval, as seen by the model.
pub const AWAITING_APPROVAL: &str = "This call was not made: it waits for a person's approval.";

/// Builds a conversation from events.
#[derive(Debug, Default)]
struct Builder {
    history: History,
    /// Steering messages that are not in a request yet.
    steered: Vec<String>,
    /// Id of the message that the last text belonged to.
    message: Option<String>,
    /// Whether the last assistant message can still grow.
    open: bool,
}

impl Builder {
    fn push(&mut self, kind: &EventKind) {
        match kind {
            EventKind::TurnStarted(turn) => {
                self.end_turn();
                if let Some(prompt) = &turn.prompt {
                    self.history.push(Message::User(prompt.clone()));
                }
            }
            EventKind::TurnEnded(_) => self.end_turn(),
            EventKind::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                self.open &= self.message == text.message;
                self.message.clone_from(&text.message);
                self.assistant().0.push_str(&text.text);
            }
            EventKind::ToolCall(call) if call.parent.is_none() => {
                let input = call.input.get();
                let arguments = if input.starts_with('{') { input } else { "{}" };
                let history_call = HistoryCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: arguments.to_owned(),
                };
                self.assistant().1.push(history_call);
            }
            EventKind::ToolResult(result) => self.result(&result.id, &result.output),
            EventKind::Notice(notice) => self.notice(notice),
            _ => {}
        }
    }

    fn notice(&mut self, notice: &Notice) {
        let raw = notice.raw.as_ref().map(RawJson::get);
        match notice.code.as_str() {
            codes::STEERED => self.steered.push(notice.message.clone()),
            codes::STEER_TAKEN => self.take_steered(),
            codes::SHORTENED => {
                context::shorten(&mut self.history);
            }
            codes::SUMMARISED => {
                let summary = raw.and_then(|raw| serde_json::from_str::<Summary>(raw).ok());
                summary
                    .into_iter()
                    .for_each(|summary| self.summarised(&summary));
            }
            codes::SCHEMA_NOT_KEPT
            | codes::NOT_VERIFIED
            | codes::ANSWER_FAILED
            | codes::HOOK_SAID => {
                let injected = raw.and_then(|raw| serde_json::from_str(raw).ok());
                self.open = false;
                self.history.0.extend(injected.map(Message::Injected));
            }
            _ => {}
        }
    }

    /// Ends a turn, including one without an end event.
    fn end_turn(&mut self) {
        self.history.close_open_calls(LOST);
        self.take_steered();
    }

    fn take_steered(&mut self) {
        self.open = false;
        self.history
            .0
            .extend(self.steered.drain(..).map(Message::User));
    }

    /// Inserts a result after its call: servers reject any other order, and results without a call.
    fn result(&mut self, id: &str, output: &str) {
        self.open = false;
        let has_call = |message: &Message| {
            matches!(message, Message::Assistant { calls,
            .. } if calls.iter().any(|call| call.id == id))
        };
        let Some(at) = self.history.0.iter().rposition(has_call) else {
            return;
        };
        let after = &self.history.0[at + 1..];
        let results = after
            .iter()
            .take_while(|m| matches!(m, Message::Tool { .. }))
            .count();
        if !after[..results]
            .iter()
            .any(|m| matches!(m, Message::Tool { id: known, .. } if known == id))
        {
            let message = Message::Tool {
                id: id.to_owned(),
                text: output.to_owned(),
            };
            self.history.0.insert(at + 1 + results, message);
        }
    }

    fn summarised(&mut self, Summary { replaced, summary }: &Summary) {
        let mut cut = (*replaced).min(self.history.0.len());
        // An incomplete log must not separate a result from its call.
        while matches!(self.history.0.get(cut), Some(Message::Tool { .. })) {
            cut += 1;
        }
        context::replace(&mut self.history, cut, summary);
    }

    /// Returns the current assistant message.
    fn assistant(&mut self) -> (&mut String, &mut Vec<HistoryCall>) {
        if !(self.open && matches!(self.history.0.last(), Some(Message::Assistant { .. }))) {
            self.history.push(Message::Assistant {
                text: String::new(),
                calls: Vec::new(),
            });
            self.open = true;
        }
        match self.history.0.last_mut() {
            Some(Message::Assistant { text, calls }) => (text, calls),
            _ => unreachable!("it was pushed above"),
        }
    }
}
