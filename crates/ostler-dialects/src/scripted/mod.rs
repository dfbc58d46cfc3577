//! The agent `scripted`: the tool loop over a model that reads its answers from a file. It needs nothing and nobody.
//!
//! The body that plays the model is not here; the conversation is that of [`openai`].

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Kind, Spec, SpecError};

use crate::openai;
use crate::settings::{Row, listed};

/// The dialect of the scripted agent.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

const NAME: &str = "scripted";

const SCRIPT: Row<()> = Row {
    key: "script",
    kind: Kind::Text(4096),
    help: "The file that says what the model answers; else .ostler/script.toml in the directory, else a demonstration.",
    rule: None,
    secret: false,
    pass: (),
};

impl Dialect for Scripted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn goes_on_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        // The script says what is answered, whatever the model is called.
        Capabilities {
            set_model: false,
            ..openai::CAPABILITIES
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        listed(&openai::table([SCRIPT]))
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        openai::introduced(opening).is_some_and(|ready| ready.uncounted && ready.looping.is_none())
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        openai::launch(spec, &openai::table([SCRIPT]), NAME)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        openai::converse(spec, self)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        openai::tool_use(tool, input)
    }
}
