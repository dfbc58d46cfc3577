//! The agent `loop`: the tool loop around any model, with stop conditions, verification of its
//! result and a person to ask.
//!
//! The code that calls the model is in the `ostler` crate; the conversation is that of [`openai`].

use std::sync::LazyLock;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{SpecError, keys};

use crate::openai;
use crate::settings::rows;

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

const OWN: [Setting; 6] = rows! {
    "mode", OneOf(&["auto", "plan", "approve"]), "Autonomy of the loop: auto (everything allowed), plan (read only) or approve (a person approves every change).";
    "max_tool_calls", Count, "Maximum number of tool calls per turn.";
    "max_input_tokens", Count, "Maximum number of input tokens per turn, over all model calls.";
    "max_output_tokens", Count, "Maximum number of output tokens per turn, over all model calls.";
    "max_errors", Count, "Number of consecutive failed steps before the loop gives up (default: 3).";
    "tool_timeout", Count, "Timeout for a tool call, in seconds.";
};

/// Default limit of consecutive failed steps: a loop continues after a failure.
const MAX_ERRORS: u32 = 3;

/// The settings that it shares with the model, and its own.
static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut table = openai::table([]);
    table.retain(|setting| SHARED.contains(&setting.key));
    table.extend(OWN);
    table
});

impl Dialect for ToolLoop {
    fn about(&self) -> About {
        About {
            // The model belongs to the loop and reports its cost if it can.
            capabilities: Capabilities {
                set_model: false,
                ..openai::capabilities()
            },
            settings: &TABLE,
            recognizes: |opening| {
                openai::find_ready(opening).is_some_and(|ready| ready.looping.is_some())
            },
            ..About::new(NAME)
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        openai::launch(launching.spec, &TABLE, NAME)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        openai::converse(launching, self, MAX_ERRORS)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        ostler_model::tool_use(tool, input)
    }
}
