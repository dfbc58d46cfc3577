//! The bound on stored events: counts their size, and ends the session that fills its log.
//!
//! Once the log is full, nothing that the agent says is emitted any more. What ends turns and the session still is.

use std::io::{self, Write};
use std::time::Duration;

use super::turn::Pending;
use super::{Effect, Input, Machine};
use crate::dialect::{ToAgent, TurnResult};
use crate::event::{EventKind, Level, Notice};
use crate::outcome::{Cause, Outcome};
use crate::size;

/// The size of what is stored with every event besides its kind: number, time, session and turn.
const ENVELOPE: u64 = 128;

/// The size that is assumed for an event of the machine itself that comes along with one of the agent's.
const SMALL: u64 = 256;

/// Maximum number of models whose usage a turn reports once the log is full.
const MODELS: usize = 16;

/// How much of the log is used.
#[derive(Debug, Default)]
pub(super) struct Volume {
    used: u64,
    is_full: bool,
}

impl Machine {
    /// Returns true once the session has filled its log. Nothing of the agent's is to be stored from then on.
    #[must_use]
    pub fn is_log_full(&self) -> bool {
        self.volume.is_full
    }

    /// Handles an input within the bound.
    pub(super) fn handle_bounded(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        let Some(limit) = self.limits.event_bytes else {
            return self.take(now, input, fx);
        };
        if self.volume.is_full {
            return self.take_muted(now, input, fx);
        }
        // What the agent says is counted before it is emitted: an event that does not fit is left out.
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
            self.log_is_full(now, limit, fx);
            return self.take_muted(now, input, fx);
        }
        let before = fx.len();
        self.take(now, input, fx);
        let emitted = fx.iter().skip(before).filter_map(emitted);
        self.volume.used += match is_counted {
            true => size + emitted.skip(1).map(|_| SMALL).sum::<u64>(),
            false => emitted.map(size_of).sum(),
        };
        if self.volume.used > limit {
            self.log_is_full(now, limit, fx);
        }
    }

    /// The log is full: the turn is interrupted, and the session ends with it.
    fn log_is_full(&mut self, now: Duration, limit: u64, fx: &mut Vec<Effect>) {
        self.volume.is_full = true;
        if self.is_over() {
            return; // the last event came to the end of the log
        }
        let size = size::display(limit);
        let message = format!(
            "The events of this session reached the limit of {size}; nothing more is stored."
        );
        self.emit(Notice::new(Level::Error, "log_full", message), fx);
        let outcome = Outcome::new(
            Cause::OutputLimit,
            format!("The session's events reached the limit of {size}."),
        )
        .hint("Allow more (--max-log-size), or continue in another session (--resume).");
        self.thaw(now, fx); // a process that stands still hears nothing
        let (until, is_ending) = (now.saturating_add(self.limits.grace), self.is_ending());
        match &mut self.open {
            Some(turn) => match turn.pending {
                None => {
                    turn.pending = Some(Pending::Limit((Box::new(outcome), until)));
                    fx.push(Effect::Send(ToAgent::Interrupt));
                }
                // It was interrupted already, and does not get more time.
                Some(Pending::Interrupt(until)) => {
                    turn.pending = Some(Pending::Limit((Box::new(outcome), until)))
                }
                Some(Pending::Stop(_) | Pending::Limit(_)) => {}
            },
            None if is_ending => {}
            None => {
                self.last = Some(outcome);
                self.close_input(now, fx);
            }
        }
    }

    /// Handles an input without emitting anything of the agent's.
    fn take_muted(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        let input = match input {
            Input::Event(EventKind::Usage(usage)) => {
                if let Some(turn) = &mut self.open {
                    turn.used.note(&usage);
                }
                Input::Activity
            }
            Input::TurnEnded(_) if self.open.is_none() => Input::Activity,
            Input::TurnEnded(over) => Input::TurnEnded(trimmed(over)),
            Input::Exited(exit, blame) => Input::Exited(exit, blame.map(trimmed)),
            // Open calls, questions and changes are closed by the end of the turn or of the session.
            Input::Event(_)
            | Input::Notice(_)
            | Input::TurnStarted
            | Input::ToolCalled(..)
            | Input::PermissionRequested(_)
            | Input::PermissionWithdrawn(_)
            | Input::Changed(..) => Input::Activity,
            other => other,
        };
        self.take(now, input, fx);
    }
}

/// The end of a turn without the agent's words: what it said until the log was full is the answer.
fn trimmed(over: TurnResult) -> TurnResult {
    let TurnResult {
        outcome, mut usage, ..
    } = over;
    usage.truncate(MODELS);
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

/// The size of an event as it is stored.
fn size_of<T: serde::Serialize>(kind: &T) -> u64 {
    let mut count = Count(ENVELOPE);
    // Counting cannot fail, and what cannot be written as JSON is not stored.
    let _ = serde_json::to_writer(&mut count, kind);
    count.0
}

/// Counts what is written to it.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
