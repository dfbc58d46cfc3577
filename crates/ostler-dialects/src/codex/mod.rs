//! Codex: one long-lived app-server per session, or one `codex exec` per message.
//!
//! Facts about the program were measured with version 0.166.0; `docs/agents/codex.md` is the user
//! documentation.

mod settings;
mod plan;
mod launch;
mod probe;
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
    Capabilities, Conversation, Dialect, Exit, Launch, PlainModel, Probe, Setting,
};
use ostler_core::permission::ToolUse;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, keys};

/// The dialect of Codex's app-server.
#[derive(Debug, Clone, Copy)]
pub struct Codex;

/// The dialect of `codex exec`, the fallback if there is no app-server.
#[derive(Debug, Clone, Copy)]
pub struct CodexExec;

const NAME: &str = "codex";

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
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            fork: true,
            stream_text: true,
            thinking: true,
            interrupt: true,
            structured: true,
            cost: false,
            many_turns: true,
            steer: true,
            ask: true,
            tools: true,
            set_model: true,
            set_permission_mode: true,
            freeze: true,
            silent: false,
            tells_tools: true,
            tells_denials: true,
            tells_usage: true,
            // A message has at most 1,048,576 characters.
            long_prompts: false,
        }
    }

    fn models(&self) -> &'static [&'static str] {
        MODELS
    }

    fn settings(&self) -> Vec<Setting> {
        crate::settings::list(settings::TABLE)
    }

    fn probe(&self) -> Option<Probe> {
        Some(probe::PROBE)
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch::app_server(spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(conversation::AppServerConversation::new(spec))
    }

    fn select_transport(&self, spec: &Spec) -> Option<&'static dyn Dialect> {
        let exec = spec.settings.last(settings::TRANSPORT) == Some(settings::TRANSPORTS[1]);
        exec.then_some(&CodexExec as &dyn Dialect)
    }

    fn fallback_transport(&self, exit: &Exit) -> Option<&'static dyn Dialect> {
        blame::lacks_app_server(exit).then_some(&CodexExec as &dyn Dialect)
    }

    fn as_model(&self) -> PlainModel {
        PlainModel {
            settings: PLAIN,
            toolless: false,
        }
    }

    fn recognizes(&self, opening: &str) -> bool {
        rpc::recognizes(opening)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}

impl Dialect for CodexExec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
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
        }
    }

    fn models(&self) -> &'static [&'static str] {
        MODELS
    }

    fn settings(&self) -> Vec<Setting> {
        Codex.settings()
    }

    fn probe(&self) -> Option<Probe> {
        Codex.probe()
    }

    fn launch(&self, spec: &Spec) -> Result<Launch, SpecError> {
        launch::exec(spec)
    }

    fn converse(&self, spec: &Spec) -> Box<dyn Conversation> {
        Box::new(exec::ExecConversation::new(spec))
    }

    fn as_model(&self) -> PlainModel {
        PlainModel {
            settings: PLAIN,
            toolless: false,
        }
    }

    fn recognizes(&self, opening: &str) -> bool {
        exec::recognizes(opening)
    }

    fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        tool_use::tool_use(tool, input)
    }
}
