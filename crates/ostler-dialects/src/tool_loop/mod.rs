//! The agent `loop`: the tool loop around any model, with stop conditions, verification of its
//! result and a person to ask.
//!
//! The code that calls the model is in the `ostler` crate; the conversation is that of [`openai`].

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, ValueKind, keys};

use crate::openai;
use crate::settings::{Row, list};

/// The dialect of the tool loop.
#[derive(Debug, Clone, Copy)]
pub struct ToolLoop;

/// Name of the agent.
pub const NAME: &str = "loop";

/// Settings that the loop shares with the `openai-api` agent; its others are about the server.
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
    "mode", ValueKind::OneOf(&["auto", "plan", "approve"]), "Autonomy of the loop: auto (everything allowed), plan (read only) or approve (a person approves every change).";
    "max_tool_calls", ValueKind::Count, "Maximum number of tool calls per turn.";
    "max_input_tokens", ValueKind::Count, "Maximum number of input tokens per turn, over all model calls.";
    "max_output_tokens", ValueKind::Count, "Maximum number of output tokens per turn, over all model calls.";
    "max_errors", ValueKind::Count, "Number of consecutive failed steps before the loop gives up (default: 3).";
    "tool_timeout", ValueKind::Count, "Timeout for a tool call, in seconds.";
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

impl Dialect for ToolLoop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resumes_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        // The model belongs to the loop and reports its cost if it can.
        Capabilities {
            set_model: false,
            ..openai::CAPABILITIES
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        list(&table())
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        openai::find_ready(opening).is_some_and(|ready| ready.looping.is_some())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        openai::launch(spec, &table(), NAME)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        openai::converse_in_loop(spec, self)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        openai::tool_use(tool, input)
    }
}
