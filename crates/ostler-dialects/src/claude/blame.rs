//! How a turn ended: Claude Code's many words for it become one cause, with a hint that a person can act on.
//!
//! This is the only file that looks into texts, and it does so last: structured fields first, sentences where there is
//! nothing else.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Denials;

use super::assistant::CONNECTION_FAILED;
use crate::service;

/// What is known about the end of a turn.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    pub(super) subtype: &'a str,
    pub(super) is_error: bool,
    pub(super) terminal: &'a str,
    pub(super) stop: &'a str,
    /// The HTTP status of the model's service.
    pub(super) status: Option<u16>,
    /// The agent's word for a failure of the service.
    pub(super) api_error: &'a str,
    /// The errors, or the answer.
    pub(super) text: String,
    /// Whether the agent said that it was interrupted.
    pub(super) interrupted: bool,
    /// The tools whose calls were denied.
    pub(super) denied: Vec<String>,
    pub(super) denials: Denials,
    /// Whether a permission policy is in force.
    pub(super) is_ruled: bool,
    pub(super) resets_at: Option<String>,
}

/// The outcome of a turn that came to its `result`.
pub(super) fn of_result(end: &Ending<'_>) -> Outcome {
    let failed = end.is_error || end.subtype.starts_with("error");
    if failed && (end.interrupted || end.terminal.starts_with("aborted")) {
        return Outcome::new(Cause::Interrupted, "The turn was interrupted.").with(|d| {
            d.acknowledged = Some(true);
            d.native = native(end);
        });
    }
    if !failed {
        return finished(end);
    }
    // Older versions name the status in the sentence only.
    let told = service::status_after(&end.text, &["API Error: "]);
    let cause = by_ending(end)
        .or_else(|| by_service(end))
        .or_else(|| {
            told.filter(|status| *status >= 500)
                .and_then(service::cause)
        })
        .or_else(|| by_text(&end.text).map(|(cause, _)| cause))
        .or((end.terminal == "api_error").then_some(Cause::Network))
        .unwrap_or(Cause::Protocol);
    let message = if end.text.is_empty() {
        format!("Claude Code ended the turn with {}.", end.subtype)
    } else {
        end.text.clone()
    };
    let special = by_text(&end.text)
        .filter(|(by, _)| *by == cause)
        .map(|(_, hint)| hint);
    with_hint(Outcome::new(cause, message), special).with(|d| {
        d.http_status = end.status.or(told);
        d.native = native(end);
        d.resets_at = end.resets_at.clone().filter(|_| cause == Cause::RateLimit);
    })
}

/// A turn that Claude Code itself calls a success.
fn finished(end: &Ending<'_>) -> Outcome {
    let outcome = match end.stop {
        "refusal" => Outcome::new(Cause::Refused, "The model refused to answer."),
        "max_tokens" => Outcome::new(
            Cause::OutputLimit,
            "The answer reached the model's limit on output.",
        ),
        _ if !end.denied.is_empty() && end.denials == Denials::Fail => {
            let message = format!("Tool calls were denied: {}.", end.denied.join(", "));
            Outcome::new(Cause::Denied, message).with(|d| d.denied_tools.clone_from(&end.denied))
        }
        _ => return Outcome::completed(),
    };
    // What the policy decides, the agent's own settings cannot change.
    let special = (outcome.cause == Cause::Denied && end.is_ruled).then_some(DENIED_BY_POLICY);
    with_hint(outcome, special).with(|d| d.native = native(end))
}

fn native(end: &Ending<'_>) -> Option<String> {
    [end.api_error, end.terminal, end.subtype]
        .into_iter()
        .find(|word| !word.is_empty())
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

/// Sentences of Claude Code, as it writes them to `result` or stderr, with a hint where the cause's own says too little.
/// `…` stands for anything on the same line.
const SENTENCES: &[(&str, Cause, &str)] = &[
    (
        "No conversation found",
        Cause::BadRequest,
        "There is no such session on this machine, in this directory; leave out resume to begin a new one.",
    ),
    (
        "--resume requires a valid session",
        Cause::BadRequest,
        "Give resume the id of a session; leave it out to begin a new one.",
    ),
    (
        "Session ID … is already in use",
        Cause::BadRequest,
        "Choose another session_id, or go on with that session (resume).",
    ),
    (
        "Invalid session ID",
        Cause::BadRequest,
        "session_id must be a UUID.",
    ),
    (
        "unknown option",
        Cause::BadRequest,
        "This version of claude does not have the option; update it (`claude update`), or remove the setting or extra argument.",
    ),
    (
        "is invalid. Allowed choices",
        Cause::BadRequest,
        "This version of claude does not know the value; update it (`claude update`), or choose another.",
    ),
    (
        "cannot be used with root",
        Cause::BadRequest,
        "bypassPermissions is refused to root; use another user, another permission_mode, or set IS_SANDBOX=1 inside a sandbox.",
    ),
    (
        "Invalid MCP configuration",
        Cause::BadRequest,
        "Check mcp_config: the file must exist and hold {\"mcpServers\": …}.",
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
        "Shorten the prompt, or begin a new session.",
    ),
    ("Not logged in", Cause::Auth, ""),
    ("Invalid API key", Cause::Auth, ""),
    ("Failed to authenticate", Cause::Auth, ""),
    ("OAuth token", Cause::Auth, ""),
    ("Please run /login", Cause::Auth, ""),
    (
        "Credit balance is too low",
        Cause::RateLimit,
        "Add credit to the account, or use another.",
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

fn by_text(text: &str) -> Option<(Cause, &'static str)> {
    SENTENCES
        .iter()
        .find(|(sentence, ..)| says(text, sentence))
        .map(|(_, cause, hint)| (*cause, *hint))
}

fn says(text: &str, sentence: &str) -> bool {
    match sentence.split_once('…') {
        Some((begin, end)) => text.lines().any(|line| {
            line.split_once(begin.trim_end())
                .is_some_and(|(_, rest)| rest.contains(end))
        }),
        None => text.contains(sentence),
    }
}

/// The blame for a process that went before it said anything; none when its last words do not explain it. Once it has
/// worked, its stderr can hold anything, and a sentence in it proves nothing.
pub(super) fn of_exit(exit: &Exit) -> Option<Outcome> {
    if exit.signal.is_some() || exit.code == Some(0) {
        return None;
    }
    let (cause, hint) = by_text(&exit.stderr)?;
    let why = exit
        .stderr
        .lines()
        .find(|line| by_text(line).is_some())
        .unwrap_or(&exit.stderr);
    let outcome = Outcome::new(cause, format!("claude did not start: {}", why.trim()));
    Some(with_hint(outcome, Some(hint)).with(|d| {
        d.exit_code = exit.code;
        d.stderr = Some(exit.stderr.clone());
    }))
}

/// The hint for tool calls that the permission policy denied.
const DENIED_BY_POLICY: &str = "Allow the tools by a rule (--permissions, policy.toml), or pass --tolerate-denials if the answer is good without them.";

fn with_hint(outcome: Outcome, special: Option<&'static str>) -> Outcome {
    let usual = match outcome.cause {
        Cause::Auth => "Run `claude auth login`, or set ANTHROPIC_API_KEY to a valid API key.",
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        Cause::Overloaded => {
            "The model's service is overloaded; try again in a moment, or set fallback_model."
        }
        Cause::ServerError => service::SERVER_ERROR_HINT,
        Cause::Network => "Check the network, the proxy and ANTHROPIC_BASE_URL, then try again.",
        Cause::Budget => "Raise max_budget_usd, or give a smaller task.",
        Cause::TurnLimit => {
            "Raise max_turns, or give a smaller task; resume goes on where it stopped."
        }
        Cause::OutputLimit => "Ask for less at a time, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS.",
        Cause::Refused => "Rephrase the request in a new session, or choose another model.",
        Cause::Denied => {
            "Allow the tools (--allowed-tools), choose another --permission-mode, or pass --tolerate-denials if the answer is good without them."
        }
        Cause::BadRequest => "Check the prompt, the model and the settings.",
        Cause::Protocol => "Try again; if a schema was given, a simpler one may help.",
        _ => return outcome,
    };
    let hint = special.filter(|hint| !hint.is_empty()).unwrap_or(usual);
    outcome.hint(hint)
}

#[cfg(test)]
mod tests;
