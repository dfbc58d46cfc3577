//! The agent `scripted`: the tool loop with a model whose answers come from a file. It needs no
//! network and no account.
//!
//! The code that plays the model is in the `ostler` crate; the conversation is that of [`openai`].

use std::sync::LazyLock;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Launch, Launching, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::SpecError;

use crate::openai;
use crate::settings::rows;

/// The dialect of the scripted agent.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

const NAME: &str = "scripted";

const SCRIPT: [Setting; 1] = rows! {
    "script", Text(4096),
        "File with the model's answers (default: .ostler/script.toml in the directory, or a \
        demonstration).";
};

static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| openai::table(SCRIPT));

impl Dialect for Scripted {
    fn about(&self) -> About {
        About {
            // The script determines the answers, whatever the model is called.
            capabilities: Capabilities {
                set_model: false,
                ..openai::capabilities()
            },
            settings: &TABLE,
            scripted: true,
            recognizes: |opening| {
                openai::find_ready(opening)
                    .is_some_and(|ready| ready.uncounted && ready.looping.is_none())
            },
            ..About::new(NAME)
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        openai::launch(launching.spec, &TABLE, NAME)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        openai::converse(launching, self, 1)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        ostler_model::tool_use(tool, input)
    }
}
