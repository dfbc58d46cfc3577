//! Claude Code: one long-lived process per session that speaks stream-json on stdin and stdout.
//!
//! Everything stated here about the program was verified with version 2.1.325.
//! `docs/agents/claude.md` is the user documentation.

mod settings;
mod launch;
mod preset;
mod wire;
mod conversation;
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
mod probe;
mod transcript;

use ostler_core::dialect::transcript::Transcripts;
use ostler_core::dialect::{
    Capabilities, Conversation, Dialect, Launch, PlainModel, Probe, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, keys};

/// The dialect of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct Claude;

impl Dialect for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
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
            silent: false,
            tells_tools: true,
            tells_denials: true,
            tells_usage: true,
            long_prompts: true,
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &["default", "fable", "opus", "sonnet", "haiku"]
    }

    fn settings(&self) -> Vec<Setting> {
        crate::settings::list(settings::TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        Some(probe::PROBE)
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch::launch(spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(conversation::ClaudeConversation::new(spec))
    }

    fn transcripts(&self) -> Option<&'static Transcripts> {
        Some(&transcript::TRANSCRIPTS)
    }

    fn as_model(&self) -> PlainModel {
        PlainModel {
            settings: &[
                (keys::TOOLS, ""),
                (keys::STRICT_MCP, "true"),
                ("no_session_persistence", "true"),
            ],
            toolless: true,
        }
    }

    fn recognizes(&self, opening: &str) -> bool {
        wire::is_recorded(opening)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}
