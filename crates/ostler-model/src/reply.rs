//! A reply of the model as it arrives: its text, tool calls and usage.

use ostler_core::clip::{Capped, OUTPUT_CAP};
use ostler_core::event::{Text, TextKind};
use ostler_core::outcome::Outcome;
use ostler_core::usage::Usage;

use crate::calls::{Call, Calls};
use crate::message::{ModelError, Reply, Stop, ToolRequest};
use crate::part::{Finish, Part};
use crate::prices::Price;
use crate::runner_protocol::{Failed, FailedKind};

/// A reply as it arrives.
#[derive(Debug)]
pub struct PartialReply {
    /// Message id of the events of this reply.
    message: String,
    named: bool,
    text: Capped,
    calls: Calls,
    finish: Option<Finish>,
    refused: bool,
    aborted: Option<Box<Outcome>>,
    /// Requested model, and the model reported by the server.
    requested_model: String,
    model: Option<String>,
    /// Tokens and cost, per model.
    pub(crate) usage: Vec<Usage>,
    /// Whether its usage is reported with a later reply.
    pub(crate) usage_later: bool,
    /// Whether anything has arrived.
    pub(crate) has_begun: bool,
    /// Number of payloads that could not be parsed.
    unreadable: u64,
    done: bool,
}

/// The text and the calls of a reply.
pub(crate) struct ReplyContent {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

impl PartialReply {
    /// Creates an empty reply of this model. `message` is its id until the server sends one.
    #[must_use]
    pub fn new(message: impl Into<String>, requested_model: &str) -> Self {
        Self {
            message: message.into(),
            named: false,
            text: Capped::new(OUTPUT_CAP),
            calls: Calls::default(),
            finish: None,
            refused: false,
            aborted: None,
            requested_model: requested_model.to_owned(),
            model: None,
            usage: Vec::new(),
            usage_later: false,
            has_begun: false,
            unreadable: 0,
            done: false,
        }
    }

    /// Adds parts that arrived together, and emits the text in them.
    pub fn push(&mut self, parts: Vec<Part>, mut emit: impl FnMut(Text)) {
        self.has_begun |= parts != [Part::Done];
        for part in parts {
            self.add(part, &mut emit);
        }
    }

    /// Records a payload that could not be parsed.
    pub fn push_unreadable(&mut self) {
        self.unreadable += 1;
    }

    fn add(&mut self, part: Part, emit: &mut impl FnMut(Text)) {
        match part {
            // The step's name stays as a prefix: some servers give every answer the same id.
            Part::Id(id) if !self.named => {
                self.message = format!("{}:{id}", self.message);
                self.named = true;
            }
            Part::Id(_) => {}
            Part::Model(model) => drop(self.model.get_or_insert(model)),
            Part::Text(text) => self.emit_text(TextKind::Reply, text, emit),
            Part::Thinking(text) => self.emit_text(TextKind::Thinking, text, emit),
            Part::Refusal(text) => {
                self.refused |= !text.is_empty();
                self.emit_text(TextKind::Reply, text, emit);
            }
            Part::Call(call) => self.calls.push(call),
            Part::Whole(parts) if self.is_blank() => {
                parts.into_iter().for_each(|part| self.add(part, emit));
            }
            Part::Whole(_) => {}
            Part::Finish(finish) => self.finish = Some(finish),
            Part::Usage(usage) => {
                self.usage.retain(|known| known.model != usage.model);
                self.usage.push(usage);
            }
            Part::UsageLater => self.usage_later = true,
            Part::Aborted(outcome) => self.aborted = Some(outcome),
            Part::Done => self.done = true,
        }
    }

    fn emit_text(&mut self, kind: TextKind, text: String, emit: &mut impl FnMut(Text)) {
        if text.is_empty() {
            return;
        }
        self.named = true; // a later id is ignored: one id per message
        if kind == TextKind::Reply {
            self.text.push(&text);
        }
        emit(Text {
            kind,
            text,
            delta: true,
            message: Some(self.message.clone()),
            parent: None,
        });
    }

    /// Returns the model that replies.
    pub(crate) fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(&self.requested_model)
    }

    /// Returns the requested model.
    pub(crate) fn requested_model(&self) -> &str {
        &self.requested_model
    }

    /// Returns true if the end of the reply arrived, and the reply is intact.
    pub(crate) fn is_intact(&self) -> bool {
        self.is_complete() && self.aborted.is_none()
    }

    fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// Returns true if the reply has neither text nor calls.
    fn is_blank(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    /// Returns true if the tool calls exceeded the limits.
    pub(crate) fn exceeds_limits(&self) -> bool {
        self.calls.overflowed
    }

    /// Returns why the reply ended.
    pub(crate) fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// Returns true if the model or the server refused to answer.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused || self.finish == Some(Finish::ContentFilter)
    }

    /// Returns the outcome if the reply was aborted, or its end never arrived.
    pub(crate) fn unfinished(&self) -> Option<Outcome> {
        if let Some(outcome) = &self.aborted {
            return Some((**outcome).clone());
        }
        if self.is_complete() && self.has_begun {
            return None;
        }
        let (kind, message) = match self.unreadable {
            0 if self.is_blank() => (
                FailedKind::Invalid,
                "The server's response contains no answer.".to_owned(),
            ),
            0 => (FailedKind::Cut, "The answer ended prematurely.".to_owned()),
            lines => (
                FailedKind::Invalid,
                format!("The server's response could not be parsed ({lines} lines)."),
            ),
        };
        let failed = Failed {
            kind,
            message,
            ..Failed::default()
        };
        Some(failed.outcome())
    }

    /// Returns the text and the calls.
    pub(crate) fn into_content(self) -> ReplyContent {
        ReplyContent {
            text: self.text.into_text(),
            calls: self.calls.finish(),
        }
    }

    /// Returns the complete reply. `price` estimates its cost if the server did not report it.
    ///
    /// # Errors
    /// Returns why there is no reply, and its usage.
    pub fn into_reply(
        mut self,
        price: impl Fn(&str) -> Option<Price>,
    ) -> Result<Reply, ModelError> {
        let model = self.model().to_owned();
        let usage = std::mem::take(&mut self.usage)
            .into_iter()
            .map(|usage| {
                let usage = Usage {
                    model: usage.model.or_else(|| Some(model.clone())),
                    ..usage
                };
                crate::usage::priced(usage, price(&model))
            })
            .collect();
        if let Some(outcome) = self.unfinished() {
            return Err(ModelError {
                outcome: Box::new(outcome),
                usage,
            });
        }
        let (refused, finish) = (self.is_refused(), self.finish.take());
        let ReplyContent { text, calls } = self.into_content();
        let tool_calls: Vec<ToolRequest> = calls
            .into_iter()
            .zip(1..)
            .map(|(call, n)| call.into_request(n))
            .collect();
        let stop = match finish {
            _ if refused => Stop::Refused,
            Some(Finish::Length) => Stop::Length,
            _ if !tool_calls.is_empty() => Stop::ToolCalls,
            _ => Stop::End,
        };
        Ok(Reply {
            content: text,
            tool_calls,
            usage,
            stop,
        })
    }
}

impl Reply {
    /// Returns everything after the text of a reply as parts.
    #[must_use]
    pub fn parts_after_text(&self) -> Vec<Part> {
        let calls = self.tool_calls.iter().zip(0..).map(|(call, index)| {
            Part::Call(Call {
                index: Some(index),
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.args.get().to_owned(),
            })
        });
        let finish = Part::Finish(match self.stop {
            Stop::End => Finish::Stop,
            Stop::ToolCalls => Finish::ToolCalls,
            Stop::Length => Finish::Length,
            Stop::Refused => Finish::ContentFilter,
        });
        calls
            .chain([finish])
            .chain(self.usage.iter().cloned().map(Part::Usage))
            .collect()
    }
}
