//! Settings of Codex, and alternatives for settings that it lacks.

use ostler_core::spec::{Settings, SpecError, ValueKind, keys};

use crate::settings::{self, Row};

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

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $secret:literal, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $secret, pass: (), help: $help },)*]
    };
}

/// The settings table.
pub(super) const TABLE: &[Row<()>] = rows! {
    keys::MODEL, ValueKind::Word, None, false, "Model to use (default: the one in Codex's config.toml).";
    EFFORT, ValueKind::Word, None, false,
        "Reasoning effort, as the model names it: low, medium, high, xhigh, …";
    keys::SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, false, "Replace Codex's instructions.";
    keys::APPEND_SYSTEM_PROMPT, ValueKind::Text(PROMPT), None, false,
        "Append text to Codex's instructions. Not supported with transport=exec.";
    keys::PERMISSION_MODE, ValueKind::OneOf(MODES), None, false,
        "Codex's sandbox for commands: read-only, workspace-write or danger-full-access (default: \
         from config.toml).";
    APPROVAL, ValueKind::OneOf(APPROVALS), None, false,
        "When Codex asks: untrusted (before every command), on-request (when the model needs to \
         leave the sandbox) or never. With a policy, always untrusted.";
    keys::ADD_DIR, ValueKind::List, None, false,
        "Allow commands to write to another directory in workspace-write. Repeatable.";
    keys::MCP_CONFIG, ValueKind::List, Some(servers), true,
        "MCP servers, as JSON such as {\"mcpServers\": {…}}. Repeatable. Not supported with \
         transport=exec.";
    keys::JSON_SCHEMA, ValueKind::Object, None, false,
        "JSON schema for a structured answer. Every object in it needs \"additionalProperties\": \
         false.";
    keys::RESUME, ValueKind::Word, None, false, "Id of the session (thread) to resume.";
    keys::FORK, ValueKind::Switch, None, false,
        "Resume a copy of the session and leave the original unchanged.";
    EPHEMERAL, ValueKind::Switch, None, false,
        "Do not save the session to disk. It cannot be resumed later.";
    CONFIG, ValueKind::List, Some(assignment), false,
        "Override of config.toml as key=value, with the value in TOML. Repeatable. Visible in \
         process listings: do not pass secrets.";
    keys::INCLUDE_PARTIAL, ValueKind::Switch, None, false,
        "Stream text as it is generated (default: true).";
    TRANSPORT, ValueKind::OneOf(TRANSPORTS), None, false,
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
        if settings.get(key).is_some() {
            return Err(SpecError::new(
                key,
                &settings.get(key).unwrap_or_default().join(", "),
                *why,
            ));
        }
    }
    settings::check(TABLE, settings)?;
    if settings.is_on(keys::FORK) && settings.last(keys::RESUME).is_none() {
        return Err(SpecError::new(keys::FORK, "true", "needs resume"));
    }
    Ok(())
}

fn assignment(value: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match value.split_once('=') {
        Some((key, _)) if !key.is_empty() && key.chars().all(allowed) => Ok(()),
        _ => Err("expected key=value, for example model_verbosity=low".into()),
    }
}

fn servers(value: &str) -> Result<(), String> {
    super::plan::servers(value).map(|_| ())
}
