//! The agent `mock`: replays Ostler events from a file, to test programs built on Ostler.
//!
//! The script has one JSON object per line, as in the event stream but without the envelope.
//! `turn_ended` ends the turn; events that only a session can emit (`state`, `turn_started`,
//! `ended`) are rejected. Prompts are sent to it as `{"prompt":…}`, an interrupt as
//! `{"interrupt":true}`. The code that plays the script is in the `ostler` crate.

use ostler_core::dialect::{
    About, Action, Capabilities, Conversation, Dialect, Exit, Launch, Launching, Outbox, Setting,
    ToAgent, TurnResult,
};
use ostler_core::event::{EventKind, TurnEnded};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{SpecError, keys};

use crate::claude::Claude;
use crate::settings::{check, rows};

/// The dialect of the mock agent.
#[derive(Debug, Clone, Copy)]
pub struct Mock;

const TABLE: &[Setting] = &rows! {
    "script", Text(4096), "Script to play: a file of events, one JSON object per line.";
    keys::MODEL, Word, "Model name to report.";
};

impl Dialect for Mock {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                stream_text: true,
                thinking: true,
                interrupt: true,
                structured: true,
                cost: true,
                many_turns: true,
                tells_tools: true,
                tells_denials: true,
                tells_usage: true,
                long_prompts: true,
                ..Capabilities::default()
            },
            settings: TABLE,
            scripted: true,
            ..About::new("mock")
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        let spec = launching.spec;
        check(TABLE, &spec.to_settings())?;
        if let Some(arg) = spec.extra_args.first() {
            return Err(SpecError::new(
                "extra args",
                arg,
                "the mock agent accepts none",
            ));
        }
        Ok(Launch {
            program: "mock",
            ..Launch::default()
        })
    }

    fn converse(&self, _: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(MockConversation)
    }

    /// A script's tools are understood as those of Claude Code.
    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        Claude.tool_use(tool, input)
    }
}

/// Stateless: each line is handled independently.
struct MockConversation;

impl Conversation for MockConversation {
    fn on_start(&mut self, _: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        let line = match message {
            ToAgent::Prompt(prompt) => {
                format!("{{\"prompt\":{}}}\n", RawJson::string(&prompt).get())
            }
            ToAgent::Interrupt => "{\"interrupt\":true}\n".to_owned(),
            // A script has no permission requests, tools or model.
            _ => return,
        };
        out.push(Action::Write(line.into_bytes()));
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        match EventKind::from_json(line) {
            Ok(EventKind::TurnEnded(ended)) => {
                out.push(turn_result(*ended));
            }
            Ok(kind @ (EventKind::State(_) | EventKind::TurnStarted(_) | EventKind::Ended(_))) => {
                out.unreadable(
                    line,
                    &format!(
                        "{:?} is reserved for the session; a script cannot use it",
                        kind.as_str()
                    ),
                );
            }
            Ok(kind) => out.event(kind),
            Err(error) => out.unreadable(line, &format!("not an event: {error}")),
        }
    }

    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}

/// Converts the event. An empty text means the text of the turn.
fn turn_result(ended: TurnEnded) -> TurnResult {
    let TurnEnded {
        outcome,
        text,
        structured,
        usage,
    } = ended;
    TurnResult {
        outcome,
        text: Some(text).filter(|text| !text.is_empty()),
        structured,
        usage: usage.into_iter().collect(),
    }
}
