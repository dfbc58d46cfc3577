//! OpenClaw: one process per turn that reads the prompt from stdin and prints a single JSON
//! document at the end.
//!
//! Everything stated here about the program was measured with version 2026.9.6.
//! `docs/agents/openclaw.md` is the page for users.

mod settings;
mod launch;
mod document;
mod output;
mod blame;

use ostler_core::dialect::{About, Capabilities, Conversation, Dialect, Launch, Launching};
use ostler_core::spec::{Spec, SpecError};

use crate::turn_process::TurnProcess;

pub(crate) use launch::STATE;

/// The dialect of OpenClaw.
#[derive(Debug, Clone, Copy)]
pub struct OpenClaw;

/// Returns true if the caller chose ACP. It is never the default, because it needs a running
/// gateway.
fn wants_acp(spec: &Spec) -> bool {
    spec.value(settings::TRANSPORT).as_deref() == Some(settings::ACP)
}

impl Dialect for OpenClaw {
    fn about(&self) -> About {
        About {
            // Not `long_prompts`: a prompt is limited to 4 MiB.
            capabilities: Capabilities {
                cost: true,
                freeze: true,
                silent: true,
                tells_usage: true,
                ..Capabilities::default()
            },
            settings: settings::TABLE,
            probe: Some(launch::PROBE),
            recognizes: document::is_recorded,
            ..About::new("openclaw")
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        if wants_acp(launching.spec) {
            crate::settings::require_acp(settings::TRANSPORT)?;
        }
        launch::launch(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(TurnProcess(output::OpenClawOutput::new(launching.spec)))
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        match wants_acp(spec) {
            #[cfg(feature = "acp")]
            true => Some(&crate::acp::OPENCLAW),
            _ => None,
        }
    }
}
