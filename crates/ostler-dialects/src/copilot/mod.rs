//! GitHub Copilot CLI: one process per turn that reads the prompt from stdin and prints JSON lines.
//!
//! Everything stated here about the program was measured with version 1.0.102.
//! `docs/agents/copilot.md` is the page for users.

mod settings;
mod launch;
mod wire;
mod output;
mod tools;
mod usage;
mod blame;
mod tool_use;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, PlainModel,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{AfterTurn, Spec, SpecError};

use crate::turn_process::TurnProcess;

pub(crate) use launch::STATE;

/// The dialect of the Copilot CLI.
#[derive(Debug, Clone, Copy)]
pub struct Copilot;

/// Returns true if the spec needs more than JSON lines can do: several turns, permission requests
/// or the caller's tools.
fn wants_acp(spec: &Spec) -> bool {
    match spec.value(settings::TRANSPORT) {
        Some(transport) => transport == settings::ACP,
        None => {
            spec.after_turn == AfterTurn::Wait
                || spec.policy.is_some()
                || !spec.bound_tools.is_empty()
        }
    }
}

impl Dialect for Copilot {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                resume: true,
                stream_text: true,
                thinking: true,
                freeze: true,
                tells_tools: true,
                tells_denials: true,
                tells_usage: true,
                long_prompts: true,
                assigned_session_id: true,
                ..Capabilities::default()
            },
            models: &["auto"],
            settings: settings::TABLE,
            probe: Some(launch::PROBE),
            // With ACP there are permission requests.
            as_model: PlainModel {
                settings: &[(settings::TRANSPORT, settings::ACP)],
                toolless: false,
            },
            recognizes: wire::is_recorded,
            ..About::new("copilot")
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        if wants_acp(launching.spec) {
            crate::settings::require_acp(settings::TRANSPORT)?;
        }
        launch::launch(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(TurnProcess(output::CopilotOutput::new(launching.spec)))
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        match wants_acp(spec) {
            #[cfg(feature = "acp")]
            true => Some(&crate::acp::COPILOT),
            _ => None,
        }
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
        let waits = Spec::default().after_turn(AfterTurn::Wait);
        let ruled = Spec::default().policy(Policy::default());
        assert!(wants_acp(&waits) && wants_acp(&ruled) && !wants_acp(&Spec::default()));
        let (mut lines, mut acp) = (waits, Spec::default());
        lines.set(settings::TRANSPORT, ["jsonl"]).unwrap();
        acp.set(settings::TRANSPORT, [settings::ACP]).unwrap();
        assert!(!wants_acp(&lines) && wants_acp(&acp));
    }
}
