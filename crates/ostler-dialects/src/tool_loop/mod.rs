//! The agent `loop`: the tool loop around any model, with conditions that stop it, a check of its result and a person to ask.
//!
//! The body that asks the model is not here; the conversation is that of [`openai`].

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Kind, Spec, SpecError, keys};

use crate::openai;
use crate::settings::{Row, listed};

/// The dialect of the outer loop.
#[derive(Debug, Clone, Copy)]
pub struct Outer;

/// The name of the agent.
pub const NAME: &str = "loop";

/// The settings that the loop has in common with a model behind a server; the others are about the server.
const SHARED: [&str; 12] = [
    "retries",
    keys::SYSTEM_PROMPT,
    keys::APPEND_SYSTEM_PROMPT,
    keys::TOOLS,
    keys::DISALLOWED_TOOLS,
    keys::JSON_SCHEMA,
    keys::MAX_TURNS,
    keys::MAX_BUDGET_USD,
    "price",
    "context_window",
    keys::RESUME,
    keys::FORK,
];

macro_rules! rows {
    ($($key:expr, $kind:expr, $help:literal;)*) => {
        [$(Row { key: $key, kind: $kind, rule: None, secret: false, pass: (), help: $help },)*]
    };
}

const OWN: [Row<()>; 6] = rows! {
    "mode", Kind::OneOf(&["auto", "plan", "approve"]), "What the loop does by itself: auto (all that it may), plan (look, change nothing), approve (a person approves what changes something).";
    "max_tool_calls", Kind::Count, "At most so many tool calls in a turn.";
    "max_input_tokens", Kind::Count, "At most so many tokens in, all answers of a turn together.";
    "max_output_tokens", Kind::Count, "At most so many tokens out, all answers of a turn together.";
    "max_errors", Kind::Count, "How many steps in a row may come to nothing before the loop gives up; else 3.";
    "tool_timeout", Kind::Count, "The longest that one tool may take, in seconds.";
};

fn table() -> Vec<Row<()>> {
    openai::table(OWN)
        .into_iter()
        .filter(|row| SHARED.contains(&row.key) || is_own(row.key))
        .collect()
}

fn is_own(key: &str) -> bool {
    OWN.iter().any(|row| row.key == key)
}

impl Dialect for Outer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn goes_on_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        // The model is the loop's, and says what it costs if it can.
        Capabilities {
            set_model: false,
            ..openai::CAPABILITIES
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        listed(&table())
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        openai::introduced(opening).is_some_and(|ready| ready.looping.is_some())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        openai::launch(spec, &table(), NAME)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        openai::converse_on(spec, self)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        openai::tool_use(tool, input)
    }
}
