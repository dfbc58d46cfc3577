//! Blame: maps Claude Code's ways to end a turn to one cause, with an actionable hint.
//!
//! Only this module inspects message texts, and only as a last resort after the structured fields.

use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::spec::Denials;

use super::assistant::CONNECTION_FAILED;
use crate::blame::{Blame, denied, interrupted, output_limit, refused, status_after};
use crate::http_status;

/// Everything known about the end of a turn.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    pub(super) subtype: &'a str,
    pub(super) is_error: bool,
    pub(super) terminal: &'a str,
    pub(super) stop: &'a str,
    /// HTTP status of the model API.
    pub(super) status: Option<u16>,
    /// The agent's error code for a model API failure.
    pub(super) api_error: &'a str,
    /// The errors, or the answer if there are none.
    pub(super) text: String,
    /// Whether the agent reported that it was interrupted.
    pub(super) interrupted: bool,
    /// Names of the tools whose calls were denied.
    pub(super) denied: Vec<String>,
    pub(super) denials: Denials,
    /// Whether a permission policy is in force.
    pub(super) has_policy: bool,
    pub(super) resets_at: Option<String>,
}

/// Determines the outcome of a turn that ended with a `result`.
pub(super) fn of_result(end: &Ending<'_>) -> Outcome {
    let failed = end.is_error || end.subtype.starts_with("error");
    if failed && (end.interrupted || end.terminal.starts_with("aborted")) {
        return interrupted().with(|d| d.native = native(end));
    }
    if !failed {
        return finished(end);
    }
    let known = BLAME.by_text(&end.text);
    // Older versions mention the status only in the text.
    let in_text = status_after(&end.text, &["API Error: "]);
    let cause = by_ending(end)
        .or_else(|| by_service(end))
        .or_else(|| {
            in_text
                .filter(|status| *status >= 500)
                .and_then(http_status::cause)
        })
        .or(known.map(|known| known.cause))
        .or((end.terminal == "api_error").then_some(Cause::Network))
        .unwrap_or(Cause::Protocol);
    let message = if end.text.is_empty() {
        format!("Claude Code ended the turn with {}.", end.subtype)
    } else {
        end.text.clone()
    };
    let outcome = Outcome::new(cause, message);
    BLAME.explain(outcome, known).with(|d| {
        d.http_status = end.status.or(in_text);
        d.native = native(end);
        d.resets_at = end.resets_at.clone().filter(|_| cause == Cause::RateLimit);
        if end.terminal == "prompt_too_long" {
            d.reason = Some(Reason::ContextTooLong);
        }
    })
}

/// Determines the outcome of a turn that Claude Code reports as a success.
fn finished(end: &Ending<'_>) -> Outcome {
    let outcome = match end.stop {
        "refusal" => refused(),
        "max_tokens" => output_limit(),
        _ if !end.denied.is_empty() && end.denials == Denials::Fail => denied(end.denied.clone()),
        _ => return Outcome::completed(),
    };
    // The agent's own settings cannot override the policy.
    let outcome = match outcome.cause {
        Cause::Denied if end.has_policy => outcome.hint(DENIED_BY_POLICY),
        _ => BLAME.with_hint(outcome),
    };
    outcome.with(|d| d.native = native(end))
}

fn native(end: &Ending<'_>) -> Option<String> {
    [end.api_error, end.terminal, end.subtype]
        .into_iter()
        .find(|code| !code.is_empty())
        .map(str::to_owned)
}

fn by_ending(end: &Ending<'_>) -> Option<Cause> {
    Some(match (end.subtype, end.terminal, end.stop) {
        (.., "refusal") => Cause::Refused,
        ("error_max_turns", ..) | (_, "max_turns", _) => Cause::TurnLimit,
        ("error_max_budget_usd", ..) | (_, "budget_exhausted", _) => Cause::Budget,
        ("error_max_structured_output_retries", ..)
        | (_, "structured_output_retry_exhausted" | "malformed_tool_use_exhausted", _) => {
            Cause::Protocol
        }
        (
            _,
            "prompt_too_long"
            | "image_error"
            | "blocking_limit"
            | "rapid_refill_breaker"
            | "turn_setup_failed",
            _,
        ) => Cause::BadRequest,
        _ => return None,
    })
}

fn by_service(end: &Ending<'_>) -> Option<Cause> {
    Some(match (end.api_error, end.status) {
        ("authentication_failed" | "oauth_org_not_allowed" | "account_on_hold", _)
        | ("verification_required" | "cloud_credential_error", _)
        | (_, Some(401 | 403)) => Cause::Auth,
        ("rate_limit" | "billing_error", _) | (_, Some(402 | 429)) => Cause::RateLimit,
        ("overloaded", _) | (_, Some(503 | 529)) => Cause::Overloaded,
        ("max_output_tokens", _) => Cause::OutputLimit,
        ("invalid_request" | "model_not_found", _) | (_, Some(400 | 404 | 413 | 422)) => {
            Cause::BadRequest
        }
        (CONNECTION_FAILED, _) | (_, Some(408)) => Cause::Network,
        ("server_error", _) | (_, Some(500..=599)) => Cause::ServerError,
        _ => return None,
    })
}

/// Messages that Claude Code writes to `result` or stderr, and hints.
pub(super) const BLAME: Blame = Blame {
    program: "claude",
    messages: MESSAGES,
    hints: &[
        (
            Cause::Auth,
            "Run `claude auth login`, or set ANTHROPIC_API_KEY to a valid API key.",
        ),
        (
            Cause::Overloaded,
            "The model API is overloaded; try again in a moment, or set fallback_model.",
        ),
        (
            Cause::Network,
            "Check the network, the proxy and ANTHROPIC_BASE_URL, then try again.",
        ),
        (
            Cause::Budget,
            "Raise max_budget_usd, or give a smaller task.",
        ),
        (
            Cause::TurnLimit,
            "Raise max_turns or give a smaller task; resume the session to continue.",
        ),
        (
            Cause::OutputLimit,
            "Ask for less at a time, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS.",
        ),
        (
            Cause::Denied,
            "Allow the tools (--allowed-tools), choose another --permission-mode, or pass \
             --tolerate-denials to accept the answer anyway.",
        ),
        (
            Cause::Protocol,
            "Try again; if a schema was given, a simpler one may help.",
        ),
    ],
};

const MESSAGES: &[(&str, Cause, &str)] = &[
    (
        "No conversation found",
        Cause::BadRequest,
        "No such session exists on this machine for this directory; leave out resume to start a \
         new one.",
    ),
    (
        "--resume requires a valid session",
        Cause::BadRequest,
        "Set resume to a session id, or leave it out to start a new session.",
    ),
    (
        "Session ID … is already in use",
        Cause::BadRequest,
        "Choose another session_id, or resume that session.",
    ),
    (
        "Invalid session ID",
        Cause::BadRequest,
        "session_id must be a UUID.",
    ),
    (
        "unknown option",
        Cause::BadRequest,
        "This version of claude lacks the option; run `claude update`, or remove the setting or \
         extra argument.",
    ),
    (
        "is invalid. Allowed choices",
        Cause::BadRequest,
        "This version of claude does not support the value; run `claude update`, or choose \
         another.",
    ),
    (
        "cannot be used with root",
        Cause::BadRequest,
        "claude refuses bypassPermissions as root; use another user or permission_mode, or set \
         IS_SANDBOX=1 inside a sandbox.",
    ),
    (
        "Invalid MCP configuration",
        Cause::BadRequest,
        "Check mcp_config: the file must exist and contain {\"mcpServers\": …}.",
    ),
    (
        "Settings file not found",
        Cause::BadRequest,
        "Check settings: the file must exist.",
    ),
    (
        "--json-schema is not valid",
        Cause::BadRequest,
        "Check json_schema.",
    ),
    (
        "issue with the selected model",
        Cause::BadRequest,
        "Check the model's name, and whether your account has access to it.",
    ),
    (
        "Prompt is too long",
        Cause::BadRequest,
        "Shorten the prompt, or start a new session.",
    ),
    ("Not logged in", Cause::Auth, ""),
    ("Invalid API key", Cause::Auth, ""),
    ("Failed to authenticate", Cause::Auth, ""),
    ("OAuth token", Cause::Auth, ""),
    ("Please run /login", Cause::Auth, ""),
    (
        "Credit balance is too low",
        Cause::RateLimit,
        "Add credit to the account, or use another account.",
    ),
    ("usage limit reached", Cause::RateLimit, ""),
    ("hit your limit", Cause::RateLimit, ""),
    ("rate limit", Cause::RateLimit, ""),
    ("Overloaded", Cause::Overloaded, ""),
    ("overloaded_error", Cause::Overloaded, ""),
    ("output token maximum", Cause::OutputLimit, ""),
    ("Connection refused", Cause::Network, ""),
    ("Connection error", Cause::Network, ""),
    ("ECONNREFUSED", Cause::Network, ""),
    ("ENOTFOUND", Cause::Network, ""),
    ("ETIMEDOUT", Cause::Network, ""),
];

/// Hint for tool calls denied by the permission policy.
const DENIED_BY_POLICY: &str = "Allow the tools by a rule (--permissions, policy.toml), or pass \
    --tolerate-denials to accept the answer anyway.";

#[cfg(test)]
mod tests;
