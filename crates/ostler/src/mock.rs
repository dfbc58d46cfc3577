//! The mock agent's runner: plays given events, for testing programs that are built on Ostler.

use std::time::Duration;

use ostler_core::event::{EventKind, TurnEnded};
use ostler_core::outcome::{Cause, Outcome};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use crate::in_process;
use crate::process::Child;

/// A step of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Emits an event.
    Say(Box<EventKind>),
    /// Waits for some time.
    Wait(Duration),
    /// Waits until the caller interrupts.
    Hang,
}

/// The script that the mock agent plays for each message.
#[derive(Debug, Clone, PartialEq)]
pub struct Events(Vec<Step>);

impl Events {
    /// Creates a script from steps.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventsError {
    /// A line is not an event, a wait or a hang.
    #[error("line {line}: {source}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is no event, so a turn would never end.
    #[error("it contains no event")]
    Empty,
}

/// Parses a script: one JSON object per line, either an event without its envelope,
/// `{"wait_ms": 100}` or `{"hang": true}`. Empty lines and lines that start with `#` are skipped.
impl std::str::FromStr for Events {
    type Err = EventsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        #[derive(Deserialize)]
        struct Pause {
            wait_ms: Option<u64>,
            hang: Option<bool>,
        }
        let mut steps = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() || text.trim_start().starts_with('#') {
                continue;
            }
            let step = match serde_json::from_str::<Pause>(text) {
                Ok(Pause {
                    wait_ms: Some(ms), ..
                }) => Ok(Step::Wait(Duration::from_millis(ms))),
                Ok(Pause {
                    hang: Some(true), ..
                }) => Ok(Step::Hang),
                _ => EventKind::from_json(text).map(|kind| Step::Say(Box::new(kind))),
            };
            steps.push(step.map_err(|source| EventsError::Line { line, source })?);
        }
        let ends = |step: &Step| matches!(step, Step::Say(_) | Step::Hang);
        if !steps.iter().any(ends) {
            return Err(EventsError::Empty);
        }
        Ok(Self(steps))
    }
}

/// Starts the mock agent as an in-process child.
pub(crate) fn start(script: Events) -> Child {
    in_process::start(in_process::Busy::default(), |stdin, stdout| {
        play(script, stdin, stdout)
    })
}

/// The line that requests an interrupt.
const INTERRUPT: &str = r#"{"interrupt":true}"#;

/// Plays the script once for each message, until the input ends.
async fn play(script: Events, stdin: DuplexStream, mut stdout: DuplexStream) {
    let mut input = BufReader::new(stdin).lines();
    let mut in_turn = false;
    while let Ok(Some(line)) = input.next_line().await {
        if line == INTERRUPT {
            // The script has finished. The interrupt ends its turn, unless the script did.
            if std::mem::take(&mut in_turn) {
                emit(&interrupted(), &mut stdout).await;
            }
            continue;
        }
        in_turn = true;
        for step in &script.0 {
            let received = match step {
                Step::Say(kind) => {
                    in_turn &= !matches!(**kind, EventKind::TurnEnded(_));
                    emit(kind, &mut stdout).await;
                    continue;
                }
                Step::Wait(time) => tokio::time::timeout(*time, input.next_line()).await.ok(),
                Step::Hang => Some(input.next_line().await),
            };
            match received {
                None => {}
                Some(Ok(Some(line))) if line == INTERRUPT && in_turn => {
                    in_turn = false;
                    emit(&interrupted(), &mut stdout).await;
                    break;
                }
                Some(Ok(Some(_))) => {} // a message during a turn is ignored
                Some(_) if matches!(step, Step::Hang) => return,
                Some(_) => tokio::time::sleep(Duration::ZERO).await,
            }
        }
    }
}

async fn emit(kind: &EventKind, stdout: &mut DuplexStream) {
    if let Ok(line) = serde_json::to_string(kind) {
        // If the reader is gone, the input has ended too, and so will the script.
        let _ = stdout.write_all(format!("{line}\n").as_bytes()).await;
    }
}

fn interrupted() -> EventKind {
    let outcome = Outcome::new(Cause::Interrupted, "The turn was interrupted.");
    TurnEnded {
        outcome,
        text: String::new(),
        structured: None,
        usage: None,
    }
    .into()
}
