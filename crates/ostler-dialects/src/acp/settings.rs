//! Settings shared by all agents that speak ACP.

use ostler_core::spec::{Settings, Spec, SpecError, ValueKind, keys};

use super::profile::AgentProfile;
use super::quirks::{CountScope, Quirks};
use super::servers;
use crate::settings::{self, Row};

/// Key: whether Ostler serves the agent's file requests.
pub(super) const FS: &str = "fs";
/// Key: the login method.
pub(super) const AUTH_METHOD: &str = "auth_method";
/// Key: what the token counts at the end of a turn cover.
const COUNTS: &str = "counts";
/// Key: what a text chunk contains.
const CHUNKS: &str = "chunks";

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $secret:literal, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $secret, pass: (), help: $help },)*]
    };
}

/// The settings table.
pub(super) const TABLE: &[Row<()>] = rows! {
    keys::MODEL, ValueKind::Word, None, false, "Model to use, by the agent's own name for it.";
    keys::PERMISSION_MODE, ValueKind::Text(300), None, false,
        "Session mode, one of those that the agent announces.";
    keys::RESUME, ValueKind::Text(500), None, false, "Id of the session to resume.";
    keys::FORK, ValueKind::Switch, None, false,
        "Resume a copy of the session and leave the original unchanged, if the agent supports it.";
    keys::MCP_CONFIG, ValueKind::List, Some(servers::check), true,
        "MCP servers, as JSON such as {\"mcpServers\": {…}}. Repeatable.";
    "transport", ValueKind::OneOf(&["acp"]), None, false,
        "Protocol between Ostler and an agent that speaks several: acp.";
    FS, ValueKind::Switch, None, false,
        "Read and write files on behalf of the agent, so that the policy applies to them (default: \
         false).";
    AUTH_METHOD, ValueKind::Word, None, false,
        "Login method of the agent to use before the session starts.";
    COUNTS, ValueKind::OneOf(&["turn", "session", "request", "unknown"]), None, false,
        "What the token counts of a custom agent cover at the end of a turn: turn, session, \
         request or unknown.";
    CHUNKS, ValueKind::OneOf(&["deltas", "whole"]), None, false,
        "What the text chunks of a custom agent contain: deltas, or whole (the message so far).";
};

/// Settings of other agents that ACP lacks, each with what to use instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        keys::JSON_SCHEMA,
        "ACP has no structured output; use an agent that supports it (claude, codex, openai-api), \
         or ask for JSON in the prompt",
    ),
    (
        keys::SYSTEM_PROMPT,
        "ACP has no system prompts; use the agent's own instructions file, or the prompt",
    ),
    (
        keys::APPEND_SYSTEM_PROMPT,
        "ACP has no system prompts; use the agent's own instructions file, or the prompt",
    ),
    (
        keys::ALLOWED_TOOLS,
        "ACP has no tool lists; use a policy (--permissions, policy.toml)",
    ),
    (
        keys::DISALLOWED_TOOLS,
        "ACP has no tool lists; use a policy (--permissions, policy.toml)",
    ),
    (
        keys::SESSION_ID,
        "ACP agents choose their session ids; the event `started` reports the id",
    ),
];

/// Checks the settings.
pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    if let Some((key, why)) = UNSUPPORTED
        .iter()
        .find(|(key, _)| spec.settings.get(key).is_some())
    {
        return Err(SpecError::secret(key, *why));
    }
    settings::check(TABLE, &spec.settings)?;
    if spec.settings.is_on(keys::FORK) && spec.settings.get(keys::RESUME).is_none() {
        return Err(SpecError::new(keys::FORK, "true", "needs resume"));
    }
    Ok(())
}

/// Returns the agent's quirks, as overridden by the settings.
pub(super) fn quirks(profile: &AgentProfile, settings: &Settings) -> Quirks {
    let counts = match settings.last(COUNTS) {
        Some("turn") => CountScope::Turn,
        Some("session") => CountScope::Session,
        Some("request") => CountScope::LastRequest,
        Some(_) => CountScope::Unknown,
        None => profile.quirks.counts,
    };
    let cumulative_text = match settings.last(CHUNKS) {
        Some(chunks) => chunks == "whole",
        None => profile.quirks.cumulative_text,
    };
    Quirks {
        counts,
        cumulative_text,
        ..profile.quirks
    }
}
