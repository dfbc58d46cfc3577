//! ACP, the Agent Client Protocol, with Ostler as the client of every agent that speaks it.
//!
//! JSON-RPC 2.0, one message per line, protocol version 1. Each agent is a profile, which is plain
//! data (`known.rs`); where one deviates from the others, a named flag says so (`quirks.rs`). No
//! code here checks for an agent by name.

mod quirks;
mod unattended_modes;
mod known;
mod settings;
mod servers;
mod launch;
mod ask_mode;
mod wire;
mod rpc;
mod version;
mod conversation;
mod handshake;
mod options;
mod updates;
mod calls;
mod tool_use;
mod permissions;
mod bridge_calls;
mod files;
mod usage;
mod ending;
mod profile;
mod blame;

use ostler_core::dialect::{About, Capabilities, Conversation, Dialect, Launch, Launching};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::SpecError;

pub use known::{CLAUDE_AGENT_ACP, CODEX_ACP, COPILOT, GEMINI, GOOSE, OPENCLAW, OPENCODE, QWEN};
pub use profile::AgentProfile;

/// An agent that speaks ACP.
#[derive(Debug, Clone, Copy)]
pub struct Acp(pub(crate) &'static AgentProfile);

impl Dialect for Acp {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                resume: true,
                fork: self.0.fork,
                stream_text: true,
                thinking: true,
                interrupt: true,
                cost: self.0.cost,
                many_turns: true,
                ask: self.0.ask,
                tools: true,
                set_model: self.0.model_flag.is_none(),
                set_permission_mode: true,
                freeze: true,
                tells_tools: true,
                tells_denials: true,
                tells_usage: self.0.quirks.counts.is_whole(),
                long_prompts: self.0.long_prompts,
                bridged_tools: true,
                ..Capabilities::default()
            },
            models: self.0.models,
            settings: settings::TABLE,
            probe: Some(self.0.probe()),
            project_files: self.0.project_files,
            resume_delay: self.0.resume_delay.as_ref(),
            recognizes: self.0.recognizes,
            ..About::new(self.0.name)
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch::launch(self.0, launching)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(conversation::AcpConversation::new(self.0, launching))
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::by_name(self.0, tool, input)
    }
}

/// Why an agent that a user configured is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomAgentError {
    /// The name is not one that Ostler accepts.
    #[error(
        "invalid agent name {0:?}: expected a-z, 0-9, - and _, beginning with a letter or digit"
    )]
    Name(String),
    /// The agent has no command.
    #[error("agent {0:?} has no command: expected a program and its arguments")]
    Command(String),
}

/// Creates a dialect for an agent that a user configured: a name and the command that starts it in
/// ACP mode. The dialect is leaked and lives as long as the program, so create each one once.
///
/// # Errors
/// Returns an error if the name or the command is invalid.
pub fn custom(name: &str, command: Vec<String>) -> Result<&'static dyn Dialect, CustomAgentError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !name.starts_with(plain) || !name.chars().all(|c| plain(c) || c == '-' || c == '_') {
        return Err(CustomAgentError::Name(name.to_owned()));
    }
    let mut words = command.into_iter().map(|word| &*word.leak());
    let Some(program) = words.next().filter(|program| !program.is_empty()) else {
        return Err(CustomAgentError::Command(name.to_owned()));
    };
    let profile = AgentProfile {
        name: name.to_owned().leak(),
        program,
        args: words.collect::<Vec<_>>().leak(),
        ..profile::BASE
    };
    Ok(Box::leak(Box::new(Acp(Box::leak(Box::new(profile))))))
}
