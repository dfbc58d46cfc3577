//! Limit on stored events: measures their size, and ends a session that fills its log.
//!
//! Once the log is full, the agent's events are no longer emitted. Events that end turns and the
//! session still are.

use std::io::{self, Write};
use std::time::Duration;

use super::turn::Pending;
use super::{Effect, Input, Machine};
use crate::dialect::{ToAgent, TurnResult};
use crate::event::{EventKind, Level, Notice};
use crate::outcome::{Cause, Outcome};
use crate::size;

/// Size of what is stored with every event besides its kind: number, time, session and turn.
const ENVELOPE_BYTES: u64 = 128;

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
    pub(super) fn handle_bounded(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        let Some(limit) = self.limits.event_bytes else {
            return self.dispatch(now, input, fx);
        };
        if self.volume.is_full {
            return self.dispatch_muted(now, input, fx);
        }
        // The agent's events are measured before they are emitted: one that does not fit is
        // dropped.
        let (size, is_counted) = match &input {
            Input::Event(kind) => (size_of(kind), true),
            Input::Notice(notice) => (size_of(notice), true),
            Input::PermissionRequested(ask) => (
                ask.input
                    .as_ref()
                    .map_or(0, |input| input.get().len() as u64),
                false,
            ),
            _ => (0, false),
        };
        if self.volume.used.saturating_add(size) > limit {
            self.on_log_full(now, limit, fx);
            return self.dispatch_muted(now, input, fx);
        }
        let before = fx.len();
        self.dispatch(now, input, fx);
        let emitted = fx.iter().skip(before).filter_map(emitted);
        self.volume.used += match is_counted {
            true => size + emitted.skip(1).map(|_| OWN_EVENT_BYTES).sum::<u64>(),
            false => emitted.map(size_of).sum(),
        };
        if self.volume.used > limit {
            self.on_log_full(now, limit, fx);
        }
    }

    /// Interrupts the turn, because the log is full, and ends the session with it.
    fn on_log_full(&mut self, now: Duration, limit: u64, fx: &mut Vec<Effect>) {
        self.volume.is_full = true;
        if self.has_ended() {
            return; // the last event filled the log
        }
        let size = size::display(limit);
        let message =
            format!("The session's events reached the limit of {size}; no more are stored.");
        self.emit(Notice::new(Level::Error, "log_full", message), fx);
        let outcome = Outcome::new(
            Cause::OutputLimit,
            format!("The session's events reached the limit of {size}."),
        )
        .hint("Allow more (--max-log-size), or continue in another session (--resume).");
        self.thaw(now, fx); // a suspended process receives nothing
        let (until, is_ending) = (now.saturating_add(self.limits.grace), self.is_ending());
        match &mut self.current_turn {
            Some(turn) => match turn.pending {
                None => {
                    turn.pending = Some(Pending::Limit((Box::new(outcome), until)));
                    fx.push(Effect::Send(ToAgent::Interrupt));
                }
                // It was already interrupted, and gets no extra time.
                Some(Pending::Interrupt(until)) => {
                    turn.pending = Some(Pending::Limit((Box::new(outcome), until)));
                }
                Some(Pending::Stop(_) | Pending::Limit(_)) => {}
            },
            None if is_ending => {}
            None => {
                self.last_outcome = Some(outcome);
                self.close_input(now, fx);
            }
        }
    }

    /// Handles an input without emitting any of the agent's events.
    fn dispatch_muted(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        if self.has_ended() {
            return;
        }
        let input = match input {
            Input::Event(EventKind::Usage(usage)) => {
                if let Some(turn) = &mut self.current_turn {
                    turn.used.record(&usage);
                }
                Input::Activity
            }
            Input::TurnEnded(_) if self.current_turn.is_none() => Input::Activity,
            Input::TurnEnded(result) => Input::TurnEnded(without_text(result)),
            Input::Exited(exit, blame) => Input::Exited(exit, blame.map(without_text)),
            // Open calls, permission requests and changes are closed by the end of the turn or
            // session.
            Input::Event(_)
            | Input::Notice(_)
            | Input::TurnStarted
            | Input::ToolCalled(..)
            | Input::PermissionRequested(_)
            | Input::PermissionWithdrawn(_)
            | Input::Changed(..) => Input::Activity,
            other => other,
        };
        self.dispatch(now, input, fx);
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
fn size_of<T: serde::Serialize>(kind: &T) -> u64 {
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
