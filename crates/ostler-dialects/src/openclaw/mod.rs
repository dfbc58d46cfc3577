//! OpenClaw: one process per turn that reads the prompt from stdin and prints a single JSON
//! document at the end.
//!
//! Everything stated here about the program was measured with version 2026.9.6.
//! `docs/agents/openclaw.md` is the page for users.

mod settings;
mod launch;
mod document;
mod conversation;
mod blame;
mod probe;

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::spec::{Spec, SpecError};

/// The dialect of OpenClaw.
#[derive(Debug, Clone, Copy)]
pub struct OpenClaw;

/// Returns true if the caller chose ACP. It is never the default, because it needs a running
/// gateway.
fn wants_acp(spec: &Spec) -> bool {
    spec.settings.last(settings::TRANSPORT) == Some(settings::ACP)
}

impl Dialect for OpenClaw {
    fn name(&self) -> &'static str {
        "openclaw"
    }

    fn capabilities(&self) -> Capabilities {
        // A prompt is limited to 4 MiB.
        Capabilities {
            cost: true,
            freeze: true,
            silent: true,
            tells_usage: true,
            ..Capabilities::default()
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
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
        Box::new(conversation::OpenClawConversation::new(spec))
    }

    fn recognizes(&self, opening: &str) -> bool {
        document::is_recorded(opening)
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        match wants_acp(spec) {
            #[cfg(feature = "acp")]
            true => Some(&crate::acp::OPENCLAW),
            _ => None,
        }
    }
}
