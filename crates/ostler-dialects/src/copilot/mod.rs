//! GitHub Copilot CLI: one process per turn that reads the prompt from stdin and prints JSON lines.
//!
//! Everything stated here about the program was measured with version 1.0.102.
//! `docs/agents/copilot.md` is the page for users.

mod settings;
mod launch;
mod wire;
mod conversation;
mod tools;
mod usage;
mod blame;
mod probe;
mod tool_use;

use ostler_core::dialect::{
    Capabilities, Conversation, Dialect, Launch, PlainModel, Probe, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{AfterTurn, Spec, SpecError};

/// The dialect of the Copilot CLI.
#[derive(Debug, Clone, Copy)]
pub struct Copilot;

/// Returns true if the spec needs more than JSON lines can do: several turns, permission requests
/// or the caller's tools.
fn wants_acp(spec: &Spec) -> bool {
    match spec.settings.last(settings::TRANSPORT) {
        Some(transport) => transport == settings::ACP,
        None => {
            spec.after_turn == AfterTurn::Wait || spec.policy.is_some() || !spec.tools.is_empty()
        }
    }
}

impl Dialect for Copilot {
    fn name(&self) -> &'static str {
        "copilot"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            stream_text: true,
            thinking: true,
            freeze: true,
            tells_tools: true,
            tells_denials: true,
            tells_usage: true,
            long_prompts: true,
            ..Capabilities::default()
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &["auto"]
    }

    fn settings(&self) -> Vec<Setting> {
        crate::settings::list(settings::TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        Some(probe::PROBE)
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        if wants_acp(spec) {
            crate::settings::require_acp(settings::TRANSPORT)?;
        }
        launch::launch(spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(conversation::CopilotConversation::new(spec))
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        match wants_acp(spec) {
            #[cfg(feature = "acp")]
            true => Some(&crate::acp::COPILOT),
            _ => None,
        }
    }

    fn needs_session_id(&self) -> bool {
        true
    }

    fn as_model(&self) -> PlainModel {
        PlainModel {
            settings: &[(settings::TRANSPORT, settings::ACP)],
            toolless: false,
        } // with ACP there are permission requests
    }

    fn recognizes(&self, opening: &str) -> bool {
        wire::is_recorded(opening)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::permission::Policy;
    use ostler_core::spec::{AfterTurn, Spec};

    use super::{settings, wants_acp};

    #[test]
    fn acp_is_the_default_transport_if_jsonl_lacks_a_feature() {
        let waits = Spec {
            after_turn: AfterTurn::Wait,
            ..Spec::default()
        };
        let ruled = Spec {
            policy: Some(Policy::default()),
            ..Spec::default()
        };
        assert!(wants_acp(&waits) && wants_acp(&ruled) && !wants_acp(&Spec::default()));
        let (mut lines, mut acp) = (waits, Spec::default());
        lines.settings.set(settings::TRANSPORT, "jsonl");
        acp.settings.set(settings::TRANSPORT, settings::ACP);
        assert!(!wants_acp(&lines) && wants_acp(&acp));
    }
}
