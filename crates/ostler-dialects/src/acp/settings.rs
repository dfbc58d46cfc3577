//! The settings of every agent that speaks ACP: one table, whoever it is.

use ostler_core::spec::{Kind, Settings, Spec, SpecError, keys};

use super::entry::Entry;
use super::quirks::{Counts, Quirks};
use super::servers;
use crate::settings::{self, Row};

/// Whether files are read and written for the agent.
pub(super) const FS: &str = "fs";
/// The way to log in.
pub(super) const AUTH_METHOD: &str = "auth_method";
/// What the counters of a turn's end cover.
const COUNTS: &str = "counts";
/// What a chunk of text holds.
const CHUNKS: &str = "chunks";

macro_rules! rows {
    ($($key:expr, $kind:expr, $rule:expr, $secret:literal, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: $rule, secret: $secret, pass: (), help: $help },)*]
    };
}

/// The table.
pub(super) const TABLE: &[Row<()>] = rows! {
    keys::MODEL, Kind::Word, None, false, "The model, by the agent's own name for it.";
    keys::PERMISSION_MODE, Kind::Text(300), None, false, "The mode of the session: one of those that the agent announces.";
    keys::RESUME, Kind::Text(500), None, false, "The id of the session to resume.";
    keys::FORK, Kind::Switch, None, false, "Go on with a copy of the resumed session, where the agent makes copies.";
    keys::MCP_CONFIG, Kind::List, Some(servers::check), true, "MCP servers: JSON such as {\"mcpServers\": {…}}; repeatable.";
    "transport", Kind::OneOf(&["acp"]), None, false, "The language, of an agent that has several: acp.";
    FS, Kind::Switch, None, false, "Read and write files for the agent, so that rules decide on them; off unless true.";
    AUTH_METHOD, Kind::Word, None, false, "Log in by this method of the agent's before the session begins.";
    COUNTS, Kind::OneOf(&["turn", "session", "request", "unknown"]), None, false, "What an agent that is not known here counts at the end of a turn: turn, session, request or unknown.";
    CHUNKS, Kind::OneOf(&["deltas", "whole"]), None, false, "What the chunks of an agent that is not known here hold: deltas, or the whole message so far.";
};

/// What other agents have and ACP does not, with what to do instead.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        keys::JSON_SCHEMA,
        "ACP has no structured answers; use an agent that has (claude, codex, openai-api), or ask for JSON in the prompt",
    ),
    (
        keys::SYSTEM_PROMPT,
        "ACP has no system prompts; use the agent's own file of instructions, or put it into the prompt",
    ),
    (
        keys::APPEND_SYSTEM_PROMPT,
        "ACP has no system prompts; use the agent's own file of instructions, or put it into the prompt",
    ),
    (
        keys::ALLOWED_TOOLS,
        "ACP has no lists of tools; use a policy (--permissions, policy.toml)",
    ),
    (
        keys::DISALLOWED_TOOLS,
        "ACP has no lists of tools; use a policy (--permissions, policy.toml)",
    ),
    (
        keys::SESSION_ID,
        "an agent that speaks ACP names its sessions itself; `started` says the name",
    ),
];

/// Checks the settings.
pub(super) fn check(spec: &Spec) -> Result<(), SpecError> {
    if let Some((key, why)) = ELSEWHERE
        .iter()
        .find(|(key, _)| spec.settings.get(key).is_some())
    {
        return Err(SpecError::secret(key, *why));
    }
    settings::check(TABLE, &spec.settings)?;
    if spec.settings.is_on(keys::FORK) && spec.settings.get(keys::RESUME).is_none() {
        return Err(SpecError::new(
            keys::FORK,
            "true",
            "needs resume: a copy of which session?",
        ));
    }
    Ok(())
}

/// How the agent differs, with what the caller knows of it.
pub(super) fn quirks(entry: &Entry, settings: &Settings) -> Quirks {
    let counts = match settings.last(COUNTS) {
        Some("turn") => Counts::Turn,
        Some("session") => Counts::Session,
        Some("request") => Counts::LastRequest,
        Some(_) => Counts::Unknown,
        None => entry.quirks.counts,
    };
    let cumulative_text = match settings.last(CHUNKS) {
        Some(chunks) => chunks == "whole",
        None => entry.quirks.cumulative_text,
    };
    Quirks {
        counts,
        cumulative_text,
        ..entry.quirks
    }
}
