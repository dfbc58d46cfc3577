//! OpenClaw: a process per turn that reads the prompt from stdin, works in silence and prints one JSON document at its end.
//!
//! What is said here about the program was found by running version 2026.9.6; `docs/agents/openclaw.md` is the page for users.

mod settings;
mod launch;
mod document;
mod conversation;
mod blame;
mod probe;

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::spec::{AfterTurn, Spec, SpecError};

/// The dialect of OpenClaw.
#[derive(Debug, Clone, Copy)]
pub struct OpenClaw;

/// The Agent Client Protocol, which the program speaks too; none as long as nobody here does.
fn acp_transport() -> Option<&'static dyn Dialect> {
    None
}

/// Whether the spec asks for more than one document can do: further messages, tools of the caller's.
fn wants_acp(spec: &Spec) -> bool {
    match spec.settings.last(settings::TRANSPORT) {
        Some(transport) => transport == settings::ACP,
        None => spec.after_turn == AfterTurn::Wait || spec.policy.is_some() || !spec.tools.is_empty(),
    }
}

impl Dialect for OpenClaw {
    fn name(&self) -> &'static str {
        "openclaw"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { cost: true, freeze: true, silent: true, ..Capabilities::default() }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        crate::settings::listed(settings::TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        Some(probe::PROBE)
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch::launch(spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(conversation::Talk::new(spec))
    }

    fn over(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        acp_transport().filter(|_| wants_acp(spec))
    }
}
