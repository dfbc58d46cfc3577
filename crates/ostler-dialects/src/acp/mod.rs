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

use ostler_core::dialect::transcript::ResumeDelay;
use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError};

pub use known::{CLAUDE_AGENT_ACP, CODEX_ACP, COPILOT, GEMINI, GOOSE, OPENCLAW, OPENCODE, QWEN};
pub use profile::AgentProfile;

/// An agent that speaks ACP.
#[derive(Debug, Clone, Copy)]
pub struct Acp(pub(crate) &'static AgentProfile);

impl Dialect for Acp {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: self.0.fork,
            stream_text: true,
            thinking: true,
            interrupt: true,
            structured: false,
            cost: self.0.cost,
            many_turns: true,
            steer: false,
            ask: self.0.ask,
            tools: true,
            set_model: self.0.model_flag.is_none(),
            set_permission_mode: true,
            freeze: true,
            silent: false,
            tells_tools: true,
            tells_denials: true,
            tells_usage: self.0.quirks.counts.is_whole(),
            long_prompts: self.0.long_prompts,
        }
    }

    fn models(&self) -> &'static [&'static str] {
        self.0.models
    }

    fn settings(&self) -> Vec<Setting> {
        crate::settings::list(settings::TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        Some(self.0.probe())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch::launch(self.0, spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(conversation::AcpConversation::new(self.0, spec))
    }

    fn resume_delay(&self) -> Option<&'static ResumeDelay> {
        self.0.resume_delay.as_ref()
    }

    fn needs_bridge(&self) -> bool {
        true
    }

    fn recognizes(&self, opening: &str) -> bool {
        handshake::recognizes(self.0, opening)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::by_name(self.0, tool, input)
    }
}

/// Creates a dialect for an agent that a user configured: a name and the command that starts it in
/// ACP mode. The dialect is leaked and lives as long as the program, so create each one once.
///
/// # Errors
/// Returns an error if the name or the command is invalid.
pub fn custom(name: &str, command: Vec<String>) -> Result<&'static dyn Dialect, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !name.starts_with(plain) || !name.chars().all(|c| plain(c) || c == '-' || c == '_') {
        return Err(format!(
            "invalid agent name {name:?}: expected a-z, 0-9, - and _, beginning with a letter or \
             digit"
        ));
    }
    let mut words = command.into_iter().map(|word| &*word.leak());
    let Some(program) = words.next().filter(|program| !program.is_empty()) else {
        return Err(format!(
            "agent {name:?} has no command: expected a program and its arguments"
        ));
    };
    let profile = AgentProfile {
        name: name.to_owned().leak(),
        program,
        args: words.collect::<Vec<_>>().leak(),
        ..profile::BASE
    };
    Ok(Box::leak(Box::new(Acp(Box::leak(Box::new(profile))))))
}
