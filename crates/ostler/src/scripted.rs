//! The agent that is part of Ostler: it plays a script, so that everything can be tried without an account.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ostler_core::event::{Started, TextKind, ToolCall, ToolResult, TurnEnded, What};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw::Raw;
use ostler_core::usage::{Tokens, Usage};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;

use crate::process::{Child, Control, ExitStatus};

/// One thing a script does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Says an event.
    Say(Box<What>),
    /// Waits.
    Wait(Duration),
    /// Waits until the caller interrupts.
    Hang,
}

/// What the scripted agent does for each message.
#[derive(Debug, Clone, PartialEq)]
pub struct Script(Vec<Step>);

impl Script {
    /// A script of steps.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        Self(steps)
    }

    /// Reads a script: one JSON object per line, either an event without its envelope, `{"wait_ms": 100}` or
    /// `{"hang": true}`. Empty lines and lines that start with `#` are passed over.
    ///
    /// # Errors
    /// Names the first line that is wrong.
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
                Ok(Pace { wait_ms: Some(ms), .. }) => Ok(Step::Wait(Duration::from_millis(ms))),
                Ok(Pace { hang: Some(true), .. }) => Ok(Step::Hang),
                _ => What::from_json(line).map(|what| Step::Say(Box::new(what))),
            };
            steps.push(step.map_err(|error| format!("line {}: {error}", number + 1))?);
        }
        Ok(Self(steps))
    }

    /// What is played when nothing else is given: a thought, some text, a tool call, an answer, tokens.
    #[must_use]
    pub fn demo(prompt: &str) -> Self {
        let say = |what: What| Step::Say(Box::new(what));
        let wait = |ms| Step::Wait(Duration::from_millis(ms));
        let text = |kind, text: &str| {
            let (text, message) = (text.to_owned(), Some("msg_demo".to_owned()));
            say(ostler_core::event::Text { kind, text, delta: true, message, parent: None }.into())
        };
        let answer = format!(
            "You said {:?}. I am the scripted agent that comes with Ostler: I play a script, so that you can see \
             what a run looks like before a real agent is installed. `ostler doctor` says how to get one.",
            shorten(prompt)
        );
        let (id, name) = ("call_1".to_owned(), "list_files".to_owned());
        let call = ToolCall {
            id: id.clone(),
            name: name.clone(),
            input: Raw::of(&[("path", ".")].into_iter().collect::<std::collections::BTreeMap<_, _>>()),
            parent: None,
        };
        let output = "README.md\nsrc/main.rs".to_owned();
        let result = ToolResult { id, name: Some(name), ok: true, output, denied: false, content: None };
        let started = Started {
            agent: "scripted".into(),
            agent_version: Some(env!("CARGO_PKG_VERSION").into()),
            native_session: None,
            model: Some("scripted".into()),
            cwd: None,
            tools: vec!["list_files".into()],
        };
        let mut steps = vec![
            say(started.into()),
            text(TextKind::Thinking, "Somebody tries me out. I show them a tool call first."),
            wait(150),
            say(call.into()),
            wait(250),
            say(result.into()),
        ];
        for piece in answer.split_inclusive(' ') {
            steps.push(text(TextKind::Reply, piece));
            steps.push(wait(12));
        }
        let tokens = Tokens { input: 120, cache_read: 0, cache_write: 0, output: 64, reasoning: Some(12) };
        let usage = Usage::of(Some("scripted".into()), tokens).reported(0.0);
        steps.push(say(TurnEnded {
            outcome: Outcome::completed(),
            text: answer,
            structured: None,
            usage: Some(usage),
        }
        .into()));
        Self(steps)
    }
}

fn shorten(prompt: &str) -> String {
    let line = prompt.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < prompt.len() { format!("{short}…") } else { short }
}

/// Starts the scripted agent. It speaks over pipes like any other, only that they stay within this process.
pub(crate) fn start(script: Option<Script>, first: &str) -> Child {
    let (stdin, theirs_in) = tokio::io::duplex(64 * 1024);
    let (theirs_out, stdout) = tokio::io::duplex(64 * 1024);
    let demo = Script::demo(first);
    let player = tokio::spawn(play(script.unwrap_or(demo), theirs_in, theirs_out));
    Child {
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(stdout),
        stderr: None,
        pid: None,
        remark: None,
        control: Box::new(Player { task: player, killed: None }),
    }
}

/// How an interrupt looks on the script's side.
const INTERRUPT: &str = r#"{"interrupt":true}"#;

/// Plays the script once for each message, until the input ends.
async fn play(script: Script, stdin: DuplexStream, mut stdout: DuplexStream) {
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
                Step::Say(what) => {
                    in_turn &= !matches!(**what, What::TurnEnded(_));
                    say(what, &mut stdout).await;
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

async fn say(what: &What, stdout: &mut DuplexStream) {
    if let Ok(line) = serde_json::to_string(what) {
        // If nobody listens any more, the input has ended as well, and so will the script.
        let _ = stdout.write_all(format!("{line}\n").as_bytes()).await;
    }
}

fn interrupted() -> What {
    let outcome = Outcome::new(Cause::Interrupted, "The turn was interrupted.");
    TurnEnded { outcome, text: String::new(), structured: None, usage: None }.into()
}

struct Player {
    task: JoinHandle<()>,
    killed: Option<i32>,
}

impl Control for Player {
    fn terminate(&mut self) {
        self.killed = Some(15);
        self.task.abort();
    }

    fn kill(&mut self) {
        self.killed = Some(9);
        self.task.abort();
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            let ended = (&mut self.task).await;
            match (ended, self.killed) {
                (Err(_), Some(signal)) => ExitStatus { code: None, signal: Some(signal) },
                _ => ExitStatus { code: Some(0), signal: None },
            }
        })
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.task.abort();
    }
}
