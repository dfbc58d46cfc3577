//! Every setting of Codex: one flat table, and what to do instead of those that it has no word for.

use ostler_core::spec::{Kind, Settings, SpecError, keys};

use crate::settings::{self, Row};

/// How long a system prompt may be.
const PROMPT: usize = 2_000_000;

pub(super) const TRANSPORT: &str = "transport";
pub(super) const APPROVAL: &str = "approval_policy";
pub(super) const EFFORT: &str = "effort";
pub(super) const CONFIG: &str = "config";
pub(super) const EPHEMERAL: &str = "ephemeral";

/// The two languages.
pub(super) const TRANSPORTS: &[&str] = &["app-server", "exec"];
/// The modes: Codex's sandboxes.
pub(super) const MODES: &[&str] = &["read-only", "workspace-write", "danger-full-access"];
const APPROVALS: &[&str] = &["untrusted", "on-request", "never"];

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $secret:literal, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $secret, pass: (), help: $help },)*]
    };
}

/// The table.
pub(super) const TABLE: &[Row<()>] = rows! {
    keys::MODEL, Kind::Word, None, false, "The model; else the one in Codex's config.toml.";
    EFFORT, Kind::Word, None, false, "How hard the model thinks, in the model's own words: low, medium, high, xhigh, …";
    keys::SYSTEM_PROMPT, Kind::Text(PROMPT), None, false, "Replaces Codex's instructions.";
    keys::APPEND_SYSTEM_PROMPT, Kind::Text(PROMPT), None, false, "Is added to Codex's instructions. Not with transport=exec.";
    keys::PERMISSION_MODE, Kind::OneOf(MODES), None, false, "Codex's sandbox for commands: read-only, workspace-write or danger-full-access; else as config.toml says.";
    APPROVAL, Kind::OneOf(APPROVALS), None, false, "When Codex asks: untrusted (before every command), on-request (when the model wants out of the sandbox), never. With a policy always untrusted.";
    keys::ADD_DIR, Kind::List, None, false, "A further directory that commands may write to in workspace-write; repeatable.";
    keys::MCP_CONFIG, Kind::List, Some(servers), true, "MCP servers, as JSON: {\"mcpServers\": {…}}; repeatable. Not with transport=exec.";
    keys::JSON_SCHEMA, Kind::Object, None, false, "The JSON schema of the answer. Every object in it needs \"additionalProperties\": false.";
    keys::RESUME, Kind::Word, None, false, "The id of the session (thread) to resume.";
    keys::FORK, Kind::Switch, None, false, "Go on with a copy of the resumed session.";
    EPHEMERAL, Kind::Switch, None, false, "Do not keep the session on disk; it cannot be resumed then.";
    CONFIG, Kind::List, Some(assignment), false, "An override of config.toml as key=value, the value in TOML; repeatable. It shows in the list of processes: no keys here.";
    keys::INCLUDE_PARTIAL, Kind::Switch, None, false, "Stream text as it is written; on unless false.";
    TRANSPORT, Kind::OneOf(TRANSPORTS), None, false, "app-server (the default), or exec: a process for each message, which asks nothing.";
};

/// Settings of others, and what serves their purpose here.
const INSTEAD: &[(&str, &str)] = &[
    (
        keys::TOOLS,
        "Codex has no list of tools; decide on them by rules (policy.toml, --permissions)",
    ),
    (
        keys::ALLOWED_TOOLS,
        "Codex has no list of tools; allow them by rules (policy.toml, --permissions)",
    ),
    (
        keys::DISALLOWED_TOOLS,
        "Codex has no list of tools; forbid them by rules (policy.toml, --permissions)",
    ),
    (
        keys::MAX_TURNS,
        "Codex does not count its steps; limit time (--max-time) or tokens (--budget-tokens) instead",
    ),
    (
        keys::MAX_BUDGET_USD,
        "Codex does not say what it costs; limit tokens (--budget-tokens) instead",
    ),
    (
        keys::SESSION_ID,
        "Codex names its sessions itself; `started` says how (native_session)",
    ),
    (
        keys::STRICT_MCP,
        "Codex adds the servers of its config.toml; point CODEX_HOME to a directory without them",
    ),
    (
        keys::WORKSPACE_TOOLS,
        "Codex keeps to the workspace by its own sandbox: permission_mode=workspace-write",
    ),
    (
        "profile",
        "use config=key=value, or a CODEX_HOME of its own: the app-server knows no profiles",
    ),
    (
        "sandbox",
        "the setting is called permission_mode: read-only, workspace-write or danger-full-access",
    ),
];

/// Checks every setting.
pub(super) fn check(settings: &Settings) -> Result<(), SpecError> {
    for (key, why) in INSTEAD {
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
        return Err(SpecError::new(
            keys::FORK,
            "true",
            "needs resume: a copy of which session?",
        ));
    }
    Ok(())
}

fn assignment(value: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match value.split_once('=') {
        Some((key, _)) if !key.is_empty() && key.chars().all(good) => Ok(()),
        _ => Err("expected key=value, for example model_verbosity=low".into()),
    }
}

fn servers(value: &str) -> Result<(), String> {
    super::plan::servers(value).map(|_| ())
}
