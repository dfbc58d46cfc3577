//! Settings of Codex, and alternatives for settings that it lacks.

use ostler_core::dialect::Setting;
use ostler_core::spec::{InvalidValue, Settings, SpecError, keys};

use crate::settings::{self, rows};

/// Maximum length of a system prompt.
const PROMPT: usize = 2_000_000;

pub(super) const TRANSPORT: &str = "transport";
pub(super) const APPROVAL: &str = "approval_policy";
pub(super) const EFFORT: &str = "effort";
pub(super) const CONFIG: &str = "config";
pub(super) const EPHEMERAL: &str = "ephemeral";

/// The two transports.
pub(super) const TRANSPORTS: &[&str] = &["app-server", "exec"];
/// Permission modes, which are Codex's sandboxes.
pub(super) const MODES: &[&str] = &["read-only", "workspace-write", "danger-full-access"];
const APPROVALS: &[&str] = &["untrusted", "on-request", "never"];

/// The settings table.
pub(super) const TABLE: &[Setting] = &rows! {
    keys::MODEL, Word, "Model to use (default: the one in Codex's config.toml).";
    EFFORT, Word,
        "Reasoning effort, as the model names it: low, medium, high, xhigh, …";
    keys::SYSTEM_PROMPT, Text(PROMPT), "Replace Codex's instructions.";
    keys::APPEND_SYSTEM_PROMPT, Text(PROMPT),
        "Append text to Codex's instructions. Not supported with transport=exec.";
    keys::PERMISSION_MODE, OneOf(MODES),
        "Codex's sandbox for commands: read-only, workspace-write or danger-full-access (default: \
         from config.toml).";
    APPROVAL, OneOf(APPROVALS),
        "When Codex asks: untrusted (before every command), on-request (when the model needs to \
         leave the sandbox) or never. With a policy, always untrusted.";
    keys::ADD_DIR, List,
        "Allow commands to write to another directory in workspace-write. Repeatable.";
    keys::MCP_CONFIG, List if servers => Secret,
        "MCP servers, as JSON such as {\"mcpServers\": {…}}. Repeatable. Not supported with \
         transport=exec.";
    keys::JSON_SCHEMA, Object,
        "JSON schema for a structured answer. Every object in it needs \"additionalProperties\": \
         false.";
    keys::RESUME, Word, "Id of the session (thread) to resume.";
    keys::FORK, Switch,
        "Resume a copy of the session and leave the original unchanged.";
    EPHEMERAL, Switch,
        "Do not save the session to disk. It cannot be resumed later.";
    CONFIG, List if assignment => Value("--config="),
        "Override of config.toml as key=value, with the value in TOML. Repeatable. Visible in \
         process listings: do not pass secrets.";
    keys::INCLUDE_PARTIAL, Switch,
        "Stream text as it is generated (default: true).";
    TRANSPORT, OneOf(TRANSPORTS),
        "Transport: app-server (the default), or exec, which starts one process per message and \
         never asks.";
};

/// Settings of other agents that Codex lacks, each with what to use instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        keys::TOOLS,
        "Codex has no tool list; control tools with a policy (policy.toml, --permissions)",
    ),
    (
        keys::ALLOWED_TOOLS,
        "Codex has no tool list; allow tools in a policy (policy.toml, --permissions)",
    ),
    (
        keys::DISALLOWED_TOOLS,
        "Codex has no tool list; deny tools in a policy (policy.toml, --permissions)",
    ),
    (
        keys::MAX_TURNS,
        "Codex does not count steps; limit time (--max-time) or tokens (--budget-tokens) instead",
    ),
    (
        keys::MAX_BUDGET_USD,
        "Codex does not report its cost; limit tokens (--budget-tokens) instead",
    ),
    (
        keys::SESSION_ID,
        "Codex chooses its session ids; the event `started` reports the id (native_session)",
    ),
    (
        keys::STRICT_MCP,
        "Codex always adds the servers in its config.toml; set CODEX_HOME to a directory without \
         them",
    ),
    (
        keys::WORKSPACE_TOOLS,
        "Codex has its own sandbox for the workspace; use permission_mode=workspace-write",
    ),
    (
        "profile",
        "the app-server has no profiles; use config=key=value, or a separate CODEX_HOME",
    ),
    (
        "sandbox",
        "the setting is called permission_mode: read-only, workspace-write or danger-full-access",
    ),
];

/// Checks every setting.
pub(super) fn check(settings: &Settings) -> Result<(), SpecError> {
    for (key, why) in UNSUPPORTED {
        if let Some(values) = settings.get(key) {
            return Err(SpecError::new(key, &values.join(", "), *why));
        }
    }
    settings::check(TABLE, settings)
}

fn assignment(value: &str) -> Result<(), InvalidValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let key = value.split_once('=').map(|(key, _)| key);
    InvalidValue::unless(
        key.is_some_and(|key| !key.is_empty() && key.chars().all(allowed)),
        "expected key=value, for example model_verbosity=low",
    )
}

fn servers(value: &str) -> Result<(), InvalidValue> {
    let servers = super::plan::servers(value);
    servers.map_or_else(|why| Err(InvalidValue::from_error(&why)), |_| Ok(()))
}
