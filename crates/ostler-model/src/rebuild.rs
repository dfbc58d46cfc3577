//! Rebuilds a conversation from the events of a session, so that another session can resume it.
//!
//! Everything that changes a conversation emits an event, and is repeated here in the same order.

use ostler_core::event::{Event, EventKind, Notice, NoticeCode, TextKind};
use ostler_core::raw_json::RawJson;
use serde::{Deserialize, Serialize};

use crate::calls::Call;
use crate::context;
use crate::history::{Entry, History, LOST};
use crate::message::ToolRequest;

/// A summary of old messages.
#[derive(Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Number of messages replaced, from the first one.
    pub(crate) replaced: usize,
    /// The summary.
    pub(crate) summary: String,
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
pub(crate) fn pending(past: &[Event]) -> Vec<Call> {
    let ending = past.iter().rev().find_map(|event| match &event.kind {
        EventKind::TurnStarted(_) => Some(None),
        EventKind::TurnEnded(turn) => Some(turn.outcome.detail.as_ref()),
        _ => None,
    });
    let Some(detail) = ending.flatten() else {
        return Vec::new();
    };
    let call = |event: &Event| match &event.kind {
        EventKind::ToolCall(call) if detail.pending_calls.contains(&call.id) => {
            Some(Call::of(&call.id, &call.name, call.input.get()))
        }
        _ => None,
    };
    past.iter().filter_map(call).collect()
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
                    self.history.push(Entry::User(prompt.clone()));
                }
            }
            EventKind::TurnEnded(_) => self.end_turn(),
            EventKind::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                self.open &= self.message == text.message;
                self.message.clone_from(&text.message);
                self.assistant().0.push_str(&text.text);
            }
            EventKind::ToolCall(call) if call.parent.is_none() => {
                let is_object = call.input.get().starts_with('{');
                let args = Some(&call.input).filter(|_| is_object).cloned();
                self.assistant().1.push(ToolRequest {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    args: args.unwrap_or_else(RawJson::empty_object),
                });
            }
            EventKind::ToolResult(result) => self.result(&result.id, &result.output),
            EventKind::Notice(notice) => self.notice(notice),
            _ => {}
        }
    }

    fn notice(&mut self, notice: &Notice) {
        let raw = notice.raw.as_ref().map(RawJson::get);
        match notice.code {
            NoticeCode::Steered => self.steered.push(notice.message.clone()),
            NoticeCode::SteerTaken => self.take_steered(),
            NoticeCode::ContextShortened => {
                context::shorten(&mut self.history);
            }
            NoticeCode::ContextSummarised => {
                let summary = raw.and_then(|raw| serde_json::from_str::<Summary>(raw).ok());
                summary
                    .into_iter()
                    .for_each(|summary| self.summarised(&summary));
            }
            NoticeCode::SchemaNotKept
            | NoticeCode::NotVerified
            | NoticeCode::AnswerFailed
            | NoticeCode::HookSaid => {
                let injected = raw.and_then(|raw| serde_json::from_str(raw).ok());
                self.open = false;
                self.history.0.extend(injected.map(Entry::Injected));
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
            .extend(self.steered.drain(..).map(Entry::User));
    }

    /// Inserts a result after its call: servers reject any other order, and results without a call.
    fn result(&mut self, id: &str, output: &str) {
        self.open = false;
        let has_call = |message: &Entry| {
            matches!(message, Entry::Assistant { calls,
            .. } if calls.iter().any(|call| call.id == id))
        };
        let Some(at) = self.history.0.iter().rposition(has_call) else {
            return;
        };
        let after = &self.history.0[at + 1..];
        let results = after
            .iter()
            .take_while(|m| matches!(m, Entry::Tool { .. }))
            .count();
        if !after[..results]
            .iter()
            .any(|m| matches!(m, Entry::Tool { id: known, .. } if known == id))
        {
            let message = Entry::Tool {
                id: id.to_owned(),
                text: output.to_owned(),
            };
            self.history.0.insert(at + 1 + results, message);
        }
    }

    fn summarised(&mut self, Summary { replaced, summary }: &Summary) {
        let mut cut = (*replaced).min(self.history.0.len());
        // An incomplete log must not separate a result from its call.
        while matches!(self.history.0.get(cut), Some(Entry::Tool { .. })) {
            cut += 1;
        }
        context::replace(&mut self.history, cut, summary);
    }

    /// Returns the current assistant message.
    fn assistant(&mut self) -> (&mut String, &mut Vec<ToolRequest>) {
        if !(self.open && matches!(self.history.0.last(), Some(Entry::Assistant { .. }))) {
            self.history.push(Entry::Assistant {
                text: String::new(),
                calls: Vec::new(),
            });
            self.open = true;
        }
        match self.history.0.last_mut() {
            Some(Entry::Assistant { text, calls }) => (text, calls),
            _ => unreachable!("it was pushed above"),
        }
    }
}
