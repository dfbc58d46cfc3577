//! Limit on stored events: measures their size, and ends a session that fills its log.
//!
//! Once the log is full, the agent's events are no longer emitted. Events that end turns and the
//! session still are.

use std::io::{self, Write};

use super::turn::{EndReason, Pending};
use super::{Effect, Input, Machine};
use crate::dialect::{FromConversation, ToAgent, TurnResult};
use crate::event::{EventKind, Level, NoticeCode};
use crate::outcome::{Cause, Outcome};
use crate::size::ByteSize;

/// Size of what is stored with every event besides its kind: number, time, session and turn.
const ENVELOPE_BYTES: u64 = 128;

/// Size of the names of the fields of an event, at most.
const FIELD_BYTES: u64 = 96;

/// Number of bytes whose escapes fit into one byte when they are counted.
const MAX_SUM: usize = 32;

/// Assumed size of an event that the machine itself adds to one of the agent's.
const OWN_EVENT_BYTES: u64 = 256;

/// Maximum number of models whose usage a turn reports once the log is full.
const MAX_MODELS: usize = 16;

/// How much of the log is used.
#[derive(Debug, Default)]
pub(super) struct Volume {
    used: u64,
    is_full: bool,
}

impl Machine {
    /// Returns true once the session has filled its log. From then on, no output of the agent is
    /// stored.
    #[must_use]
    pub fn is_log_full(&self) -> bool {
        self.volume.is_full
    }

    /// Handles an input within the limit.
    pub(super) fn handle_bounded(&mut self, input: Input) {
        let Some(limit) = self.limits.event_bytes else {
            return self.dispatch(input);
        };
        if self.volume.is_full {
            return self.dispatch_muted(input);
        }
        // The agent's events are measured before they are emitted: one that does not fit is
        // dropped.
        let (size, is_counted) = match &input {
            Input::Conversation(FromConversation::Event(kind)) => (size_of(kind), true),
            Input::Notice(notice) => (serialized_len(notice), true),
            Input::Conversation(FromConversation::AskPermission(ask)) => (
                ask.input
                    .as_ref()
                    .map_or(0, |input| input.get().len() as u64),
                false,
            ),
            _ => (0, false),
        };
        if self.volume.used.saturating_add(size) > limit {
            self.on_log_full(limit);
            return self.dispatch_muted(input);
        }
        let before = self.step.effects.len();
        self.dispatch(input);
        let emitted = self.step.effects.iter().skip(before).filter_map(emitted);
        self.volume.used += match is_counted {
            true => size + emitted.skip(1).map(|_| OWN_EVENT_BYTES).sum::<u64>(),
            false => emitted.map(size_of).sum(),
        };
        if self.volume.used > limit {
            self.on_log_full(limit);
        }
    }

    /// Interrupts the turn, because the log is full, and ends the session with it.
    fn on_log_full(&mut self, limit: u64) {
        self.volume.is_full = true;
        if self.has_ended() {
            return; // the last event filled the log
        }
        let size = ByteSize(limit);
        let message =
            format!("The session's events reached the limit of {size}; no more are stored.");
        self.notice(Level::Error, NoticeCode::LogFull, message);
        let outcome = Outcome::new(
            Cause::OutputLimit,
            format!("The session's events reached the limit of {size}."),
        )
        .hint("Allow more (--max-log-size), or continue in another session (--resume).");
        self.thaw(); // a suspended process receives nothing
        let (until, is_ending) = (self.step.after(self.limits.grace), self.is_ending());
        match self.life.turn_mut() {
            Some(turn) => match &mut turn.pending {
                None => {
                    turn.pending = Some(Pending::new(EndReason::Limit(Box::new(outcome)), until));
                    self.step.push(ToAgent::Interrupt);
                }
                // It was already interrupted, and gets no extra time.
                Some(Pending { reason, .. }) if matches!(reason, EndReason::Interrupt) => {
                    *reason = EndReason::Limit(Box::new(outcome));
                }
                Some(_) => {}
            },
            None if is_ending => {}
            None => {
                self.last_outcome = Some(outcome);
                self.close_input();
            }
        }
    }

    /// Handles an input without emitting any of the agent's events.
    fn dispatch_muted(&mut self, input: Input) {
        if self.has_ended() {
            return;
        }
        let input = match input {
            Input::Conversation(output) => self.mute(output),
            Input::Exited(exit, blame) => Input::Exited(exit, blame.map(without_text)),
            Input::Notice(_) | Input::ToolCalled(..) => Input::Activity,
            other => other,
        };
        self.dispatch(input);
    }

    /// Returns what remains of an output of the conversation without the events it would cause.
    fn mute(&mut self, output: FromConversation) -> Input {
        match output {
            FromConversation::Event(EventKind::Usage(usage)) => {
                if let Some(turn) = self.life.turn_mut() {
                    turn.used.record(&usage);
                }
                Input::Activity
            }
            FromConversation::TurnEnded(result) if self.in_turn() => {
                FromConversation::TurnEnded(without_text(result)).into()
            }
            // Open calls, permission requests and changes are closed by the end of the turn or
            // session.
            FromConversation::Event(_)
            | FromConversation::TurnStarted
            | FromConversation::TurnEnded(_)
            | FromConversation::AskPermission(_)
            | FromConversation::WithdrawPermission(_)
            | FromConversation::Changed { .. } => Input::Activity,
            FromConversation::Background(_)
            | FromConversation::EndProcess
            | FromConversation::Do(_) => output.into(),
        }
    }
}

/// Returns the end of a turn without the agent's text: what it wrote until the log was full is the
/// answer.
fn without_text(result: TurnResult) -> TurnResult {
    let TurnResult {
        outcome, mut usage, ..
    } = result;
    usage.truncate(MAX_MODELS);
    TurnResult {
        outcome,
        text: None,
        structured: None,
        usage,
    }
}

fn emitted(effect: &Effect) -> Option<&EventKind> {
    if let Effect::Emit { kind, .. } = effect {
        Some(kind)
    } else {
        None
    }
}

/// Returns the size of an event as it is stored.
fn size_of(kind: &EventKind) -> u64 {
    let text = |text: &Option<String>| text.as_deref().map_or(0, escaped_len);
    // Most events, and most bytes, are of two kinds. Measuring them does not serialize them.
    let bytes = match kind {
        EventKind::Text(it) => escaped_len(&it.text) + text(&it.message) + text(&it.parent),
        EventKind::ToolResult(it) => {
            let content = it.content.as_ref().map_or(0, |content| content.get().len());
            escaped_len(&it.output) + escaped_len(&it.id) + text(&it.name) + content
        }
        other => return serialized_len(other),
    };
    ENVELOPE_BYTES + FIELD_BYTES + bytes as u64
}

/// Returns the length of a text inside a JSON string.
fn escaped_len(text: &str) -> usize {
    /// Up to this length, a test for any escape is faster than a vectorized sum.
    const SHORT: usize = 64;
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.len() <= SHORT && !text.bytes().any(is_escaped) {
        return text.len();
    }
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' | 0x08..=0x0a | 0x0c | 0x0d => 1u8,
        ..0x20 => 5,
        _ => 0,
    };
    let escapes = |chunk: &[u8]| usize::from(chunk.iter().map(escape).sum::<u8>());
    text.len() + text.as_bytes().chunks(MAX_SUM).map(escapes).sum::<usize>()
}

fn serialized_len<T: serde::Serialize>(kind: &T) -> u64 {
    let mut count = ByteCounter(ENVELOPE_BYTES);
    // Counting cannot fail, and what cannot be serialized is not stored.
    let _ = serde_json::to_writer(&mut count, kind);
    count.0
}

/// Counts the bytes written to it.
struct ByteCounter(u64);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod size_tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_escaped_length_is_that_of_the_json(text in "[\\x00-\\x7fäö😀]{0,200}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(escaped_len(&text), json.len() - 2);
        }
    }
}
