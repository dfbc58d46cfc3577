//! The mock agent: it plays given events, to test what is built on Ostler.

use std::time::Duration;

use ostler_core::event::{EventKind, TurnEnded};
use ostler_core::outcome::{Cause, Outcome};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use crate::in_process;
use crate::process::Child;

/// One thing a script does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Says an event.
    Say(Box<EventKind>),
    /// Waits.
    Wait(Duration),
    /// Waits until the caller interrupts.
    Hang,
}

/// What the mock agent does for each message.
#[derive(Debug, Clone, PartialEq)]
pub struct Events(Vec<Step>);

impl Events {
    /// A script of steps.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        Self(steps)
    }

    /// Reads a script: one JSON object per line, either an event without its envelope, `{"wait_ms": 100}` or
    /// `{"hang": true}`. Empty lines and lines that start with `#` are passed over.
    ///
    /// # Errors
    /// Names the first line that is wrong. A script without an event would never end a turn, and is an error too.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Pace {
            wait_ms: Option<u64>,
            hang: Option<bool>,
        }
        let mut steps = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let step = match serde_json::from_str::<Pace>(line) {
                Ok(Pace {
                    wait_ms: Some(ms), ..
                }) => Ok(Step::Wait(Duration::from_millis(ms))),
                Ok(Pace {
                    hang: Some(true), ..
                }) => Ok(Step::Hang),
                _ => EventKind::from_json(line).map(|kind| Step::Say(Box::new(kind))),
            };
            steps.push(step.map_err(|error| format!("line {}: {error}", number + 1))?);
        }
        if !steps
            .iter()
            .any(|step| matches!(step, Step::Say(_) | Step::Hang))
        {
            return Err("there is no event in it".into());
        }
        Ok(Self(steps))
    }
}

/// Starts the mock agent. It speaks over pipes like any other, only that they stay within this process.
pub(crate) fn start(script: Events) -> Child {
    in_process::start(in_process::Busy::default(), |stdin, stdout| {
        play(script, stdin, stdout)
    })
}

/// How an interrupt looks on the script's side.
const INTERRUPT: &str = r#"{"interrupt":true}"#;

/// Plays the script once for each message, until the input ends.
async fn play(script: Events, stdin: DuplexStream, mut stdout: DuplexStream) {
    let mut heard = BufReader::new(stdin).lines();
    let mut in_turn = false;
    while let Ok(Some(line)) = heard.next_line().await {
        if line == INTERRUPT {
            // The script is through. If it has not ended its turn, this does; else it comes too late for anything.
            if std::mem::take(&mut in_turn) {
                say(&interrupted(), &mut stdout).await;
            }
            continue;
        }
        in_turn = true;
        for step in &script.0 {
            let heard = match step {
                Step::Say(kind) => {
                    in_turn &= !matches!(**kind, EventKind::TurnEnded(_));
                    say(kind, &mut stdout).await;
                    continue;
                }
                Step::Wait(time) => tokio::time::timeout(*time, heard.next_line()).await.ok(),
                Step::Hang => Some(heard.next_line().await),
            };
            match heard {
                None => {}
                Some(Ok(Some(line))) if line == INTERRUPT && in_turn => {
                    in_turn = false;
                    say(&interrupted(), &mut stdout).await;
                    break;
                }
                Some(Ok(Some(_))) => {} // a message during a turn: the script has nothing to say to it
                Some(_) if matches!(step, Step::Hang) => return,
                Some(_) => tokio::time::sleep(Duration::ZERO).await,
            }
        }
    }
}

async fn say(kind: &EventKind, stdout: &mut DuplexStream) {
    if let Ok(line) = serde_json::to_string(kind) {
        // If nobody listens any more, the input has ended as well, and so will the script.
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
