//! The agent `scripted`: the tool loop with a model whose answers come from a file. It needs no
//! network and no account.
//!
//! The code that plays the model is in the `ostler` crate; the conversation is that of [`openai`].

use ostler_core::dialect::{Capabilities, Conversation, Dialect, Launch, Probe, Setting};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, ValueKind};

use crate::openai;
use crate::settings::{Row, list};

/// The dialect of the scripted agent.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

const NAME: &str = "scripted";

const SCRIPT: Row<()> = Row {
    key: "script",
    kind: ValueKind::Text(4096),
    help: "File with the model's answers (default: .ostler/script.toml in the directory, or a \
        demonstration).",
    rule: None,
    secret: false,
    pass: (),
};

impl Dialect for Scripted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resumes_from_events(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        // The script determines the answers, whatever the model is called.
        Capabilities {
            set_model: false,
            ..openai::CAPABILITIES
        }
    }

    fn models(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self) -> Vec<Setting> {
        list(&openai::table([SCRIPT]))
    }

    fn probe(&self) -> Option<Probe> {
        None
    }

    fn recognizes(&self, opening: &str) -> bool {
        openai::find_ready(opening).is_some_and(|ready| ready.uncounted && ready.looping.is_none())
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
