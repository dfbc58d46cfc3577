//! Settings shared by all agents that speak ACP.

use ostler_core::dialect::Setting;
use ostler_core::spec::{Spec, SpecError, keys};

use super::profile::AgentProfile;
use super::quirks::{CountScope, Quirks};
use super::servers;
use crate::settings::{self, rows};

/// Key: whether Ostler serves the agent's file requests.
pub(super) const FS: &str = "fs";
/// Key: the login method.
pub(super) const AUTH_METHOD: &str = "auth_method";
/// Key: what the token counts at the end of a turn cover.
const COUNTS: &str = "counts";
/// Key: what a text chunk contains.
const CHUNKS: &str = "chunks";

/// The settings table.
pub(super) const TABLE: &[Setting] = &rows! {
    keys::MODEL, Word, "Model to use, by the agent's own name for it.";
    keys::PERMISSION_MODE, Text(300),
        "Session mode, one of those that the agent announces.";
    keys::RESUME, Text(500), "Id of the session to resume.";
    keys::FORK, Switch,
        "Resume a copy of the session and leave the original unchanged, if the agent supports it.";
    keys::MCP_CONFIG, List if servers::check => Secret,
        "MCP servers, as JSON such as {\"mcpServers\": {…}}. Repeatable.";
    "transport", OneOf(&["acp"]),
        "Protocol between Ostler and an agent that speaks several: acp.";
    FS, Switch,
        "Read and write files on behalf of the agent, so that the policy applies to them (default: \
         false).";
    AUTH_METHOD, Word,
        "Login method of the agent to use before the session starts.";
    COUNTS, OneOf(&["turn", "session", "request", "unknown"]),
        "What the token counts of a custom agent cover at the end of a turn: turn, session, \
         request or unknown.";
    CHUNKS, OneOf(&["deltas", "whole"]),
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
        .find(|(key, _)| spec.values(key).is_some())
    {
        return Err(SpecError::secret(key, *why));
    }
    settings::check(TABLE, &spec.to_settings())
}

/// Returns the agent's quirks, as overridden by the settings.
pub(super) fn quirks(profile: &AgentProfile, spec: &Spec) -> Quirks {
    let counts = match spec.value(COUNTS).as_deref() {
        Some("turn") => CountScope::Turn,
        Some("session") => CountScope::Session,
        Some("request") => CountScope::LastRequest,
        Some(_) => CountScope::Unknown,
        None => profile.quirks.counts,
    };
    let cumulative_text = match spec.value(CHUNKS) {
        Some(chunks) => chunks == "whole",
        None => profile.quirks.cumulative_text,
    };
    Quirks {
        counts,
        cumulative_text,
        ..profile.quirks
    }
}
