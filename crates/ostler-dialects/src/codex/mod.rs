//! Codex: one long-lived app-server per session, or one `codex exec` per message.
//!
//! Facts about the program were measured with version 0.166.0; `docs/agents/codex.md` is the user
//! documentation.

mod settings;
mod plan;
mod launch;
mod wire;
mod tool_use;
mod items;
mod subagents;
mod usage;
mod blame;
mod rpc;
mod requests;
mod notifications;
mod permissions;
mod conversation;
mod exec;

use ostler_core::dialect::{
    About, Capabilities, Conversation, Dialect, Exit, Launch, Launching, PlainModel, ProjectFiles,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, keys};

use crate::turn_process::TurnProcess;

pub(crate) use launch::STATE;

/// The dialect of Codex's app-server.
#[derive(Debug, Clone, Copy)]
pub struct Codex;

/// The dialect of `codex exec`, the fallback if there is no app-server.
#[derive(Debug, Clone, Copy)]
pub struct CodexExec;

const NAME: &str = "codex";

/// The program's name in messages.
const TITLE: &str = "Codex";

/// Settings as a plain model: Codex stores nothing, has no tools except the one for patches, which
/// cannot be disabled, and adds nothing to the prompt. Versions ignore the settings they do not
/// know.
const PLAIN: &[(&str, &str)] = &[
    (keys::PERMISSION_MODE, "read-only"),
    (settings::EPHEMERAL, "true"),
    (settings::CONFIG, "features.shell_tool=false"),
    (settings::CONFIG, "features.view_image=false"),
    (settings::CONFIG, "features.goals=false"),
    (settings::CONFIG, "features.multi_agent=false"),
    (settings::CONFIG, "features.image_generation=false"),
    (settings::CONFIG, "features.apps=false"),
    (settings::CONFIG, "features.plugins=false"),
    (settings::CONFIG, "tools.update_plan.enabled=false"),
    (
        settings::CONFIG,
        "tools.experimental_request_user_input.enabled=false",
    ),
    (settings::CONFIG, "web_search=\"disabled\""),
    (settings::CONFIG, "skills.include_instructions=false"),
    (settings::CONFIG, "include_permissions_instructions=false"),
    (settings::CONFIG, "include_environment_context=false"),
    (settings::CONFIG, "include_apps_instructions=false"),
    (
        settings::CONFIG,
        "include_collaboration_mode_instructions=false",
    ),
    (settings::CONFIG, "project_doc_max_bytes=0"),
];

/// Models that `model/list` returns without an account; only `codex` knows which of them an account
/// has.
const MODELS: &[&str] = &[
    "gpt-6.1-sol",
    "gpt-6.1-terra",
    "gpt-6-astra",
    "gpt-6-sol",
    "gpt-6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-5.5",
];

impl Dialect for Codex {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                resume: true,
                fork: true,
                stream_text: true,
                thinking: true,
                interrupt: true,
                structured: true,
                many_turns: true,
                steer: true,
                ask: true,
                tools: true,
                set_model: true,
                set_permission_mode: true,
                freeze: true,
                tells_tools: true,
                tells_denials: true,
                tells_usage: true,
                // Not `long_prompts`: a message has at most 1,048,576 characters.
                ..Capabilities::default()
            },
            models: MODELS,
            settings: settings::TABLE,
            probe: Some(launch::PROBE),
            as_model: PlainModel {
                settings: PLAIN,
                toolless: false,
            },
            project_files: ProjectFiles {
                paths: &[".codex"],
                can_ignore: true,
                setting: None,
            },
            recognizes: rpc::recognizes,
            ..About::new(NAME)
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch::app_server(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(conversation::AppServerConversation::new(launching.spec))
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        let exec = spec.value(settings::TRANSPORT).as_deref() == Some(settings::TRANSPORTS[1]);
        exec.then_some(&CodexExec as &dyn Dialect)
    }

    fn fallback_transport(&self, exit: &Exit) -> Option<&'static dyn Dialect> {
        blame::lacks_app_server(exit).then_some(&CodexExec as &dyn Dialect)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}

impl Dialect for CodexExec {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                resume: true,
                fork: true,
                thinking: true,
                structured: true,
                // The next process is launched with the change.
                set_model: true,
                set_permission_mode: true,
                freeze: true,
                tells_tools: true,
                tells_usage: true,
                ..Capabilities::default()
            },
            recognizes: exec::recognizes,
            ..Codex.about()
        }
    }
    fn launch(&self, launching: &Launching<'_>) -> Result<Launch, SpecError> {
        launch::exec(launching.spec)
    }

    fn converse(&self, launching: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(TurnProcess(exec::ExecOutput::new(launching.spec)))
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}
