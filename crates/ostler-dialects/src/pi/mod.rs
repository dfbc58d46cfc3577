//! pi: one process for many turns, with its own RPC protocol of JSON lines (`pi --mode rpc`).
//!
//! Everything that this module states about the program was observed with version 0.74.2. The user
//! documentation is `docs/agents/pi.md`.

mod settings;
mod launch;
mod wire;
mod requests;
mod turn;
mod conversation;
mod usage;
mod blame;
mod tool_use;

#[cfg(test)]
mod tests;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, PlainModel,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{SpecError, keys};

pub(crate) use launch::STATE;

/// The dialect of pi.
#[derive(Debug, Clone, Copy)]
pub struct Pi;

/// Settings for pi as a plain model: no tools, extensions, skills, prompt templates, context files
/// or saved session.
const AS_MODEL: PlainModel = PlainModel {
    settings: &[
        (keys::TOOLS, ""),
        ("no_extensions", "true"),
        ("no_skills", "true"),
        ("no_prompt_templates", "true"),
        ("no_context_files", "true"),
        ("no_session", "true"),
    ],
    toolless: true,
};

impl Dialect for Pi {
    fn about(&self) -> About {
        About {
            // No `ask`: pi has no permission system, and runs every tool without asking.
            capabilities: Capabilities {
                resume: true,
                fork: true,
                stream_text: true,
                thinking: true,
                interrupt: true,
                cost: true,
                many_turns: true,
                steer: true,
                set_model: true,
                freeze: true,
                tells_tools: true,
                tells_usage: true,
                long_prompts: true,
                ..Capabilities::default()
            },
            settings: settings::TABLE,
            probe: Some(launch::PROBE),
            as_model: AS_MODEL,
            recognizes: wire::is_recorded,
            ..About::new("pi")
        }
    }

    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch::launch(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(conversation::PiConversation::new(launching.spec))
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}
