//! The agent `mock`: replays Ostler events from a file, to test programs built on Ostler.
//!
//! The script has one JSON object per line, as in the event stream but without the envelope.
//! `turn_ended` ends the turn; events that only a session can emit (`state`, `turn_started`,
//! `ended`) are rejected. Prompts are sent to it as `{"prompt":…}`, an interrupt as
//! `{"interrupt":true}`. The code that plays the script is in the `ostler` crate.

use ostler_core::dialect::{
    Capabilities, Conversation, Dialect, Exit, FromConversation, Inherits, Launch, Outbox, Probe,
    Setting, ToAgent, TurnResult,
};
use ostler_core::event::{EventKind, TurnEnded};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, ValueKind, keys};

use crate::settings::{Row, check, list};

/// The dialect of the mock agent.
#[derive(Debug, Clone, Copy)]
pub struct Mock;

const TABLE: &[Row<()>] = &[
    Row {
        key: "script",
        kind: ValueKind::Text(4096),
        help: "Script to play: a file of events, one JSON object per line.",
        rule: None,
        secret: false,
        pass: (),
    },
    Row {
        key: keys::MODEL,
        kind: ValueKind::Word,
        help: "Model name to report.",
        rule: None,
        secret: false,
        pass: (),
    },
];

impl Dialect for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stream_text: true,
            thinking: true,
            interrupt: true,
            structured: true,
            cost: true,
            many_turns: true,
            resume: false,
            fork: false,
            steer: false,
            ask: false,
            tools: false,
            set_model: false,
            set_permission_mode: false,
            freeze: false,
            silent: false,
            tells_tools: true,
            tells_denials: true,
            tells_usage: true,
            long_prompts: true,
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        list(TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        check(TABLE, &spec.settings)?;
        if let Some(arg) = spec.extra_args.first() {
            return Err(SpecError::new(
                "extra args",
                arg,
                "the mock agent accepts none",
            ));
        }
        Ok(Launch {
            program: "mock",
            natives: &[],
            args: Vec::new(),
            env: Vec::new(),
            inherits: Inherits::default(),
            needs: &[],
            state: &[],
        })
    }

    fn converse(&self, _: &Spec) -> Box<dyn Conversation> {
        Box::new(MockConversation)
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
        out.push(FromConversation::Write(line.into_bytes()));
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        match EventKind::from_json(line) {
            Ok(EventKind::TurnEnded(ended)) => {
                out.push(FromConversation::TurnEnded(turn_result(ended)));
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
