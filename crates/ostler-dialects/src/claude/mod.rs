//! Claude Code: one long-lived process per session that speaks stream-json on stdin and stdout.
//!
//! Everything stated here about the program was verified with version 2.1.325.
//! `docs/agents/claude.md` is the user documentation.

mod settings;
mod launch;
mod preset;
mod wire;
mod conversation;
mod delta;
mod assistant;
mod stream;
mod user;
mod system;
mod tasks;
mod control;
mod permissions;
mod tool_use;
mod mcp;
mod steer;
mod usage;
mod result;
mod blame;
mod transcript;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, PlainModel, ProjectFiles,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{SpecError, keys};

pub(crate) use launch::STATE;

/// The program's name in messages.
const TITLE: &str = "Claude Code";

/// The dialect of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct Claude;

impl Dialect for Claude {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                resume: true,
                fork: true,
                stream_text: true,
                thinking: true,
                interrupt: true,
                structured: true,
                cost: true,
                many_turns: true,
                steer: true,
                ask: true,
                tools: true,
                set_model: true,
                set_permission_mode: true,
                freeze: true,
                tells_tools: true,
                tells_denials: true,
                tells_usage: true,
                long_prompts: true,
                ..Capabilities::default()
            },
            models: &["default", "fable", "opus", "sonnet", "haiku"],
            settings: settings::TABLE,
            probe: Some(launch::PROBE),
            project_files: ProjectFiles {
                paths: &[".claude", ".mcp.json", "CLAUDE.md"],
                can_ignore: true,
                setting: Some(launch::SOURCES),
            },
            transcripts: Some(&transcript::TRANSCRIPTS),
            as_model: PlainModel {
                settings: &[
                    (keys::TOOLS, ""),
                    (keys::STRICT_MCP, "true"),
                    ("no_session_persistence", "true"),
                ],
                toolless: true,
            },
            recognizes: wire::is_recorded,
            ..About::new("claude")
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch::launch(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(conversation::ClaudeConversation::new(launching.spec))
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}
