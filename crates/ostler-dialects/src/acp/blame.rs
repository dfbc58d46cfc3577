//! Failure causes: maps the error messages of all ACP agents to a cause, with a hint that a person
//! can act on.
//!
//! This is the only file that inspects message texts, and it does so last: codes first, texts if
//! there is nothing else.

use ostler_core::dialect::Exit;
use ostler_core::event::NoticeCode;
use ostler_core::outcome::{Cause, Outcome};

use super::conversation::AcpConversation;
use super::options;
use super::profile::AgentProfile;
use super::quirks::ErrorText;
use super::rpc;
use super::version::Version;
use super::wire::Details;
use crate::blame::{Blame, Phrases, cause_by_phrase, status_after, with_exit};
use crate::http_status;
use crate::jsonrpc::{INVALID_PARAMS, RpcError};
use crate::lenient::{self, Object};

/// ACP's error code for a missing login.
const AUTH_REQUIRED: i64 = -32000;

/// Keywords that indicate a cause, in lower case, the most certain first.
const KEYWORDS: Phrases = &[
    (
        Cause::Auth,
        &[
            "unauthenticated",
            "unauthorized",
            "authentication",
            "api key",
            "api_key",
            "api-key",
            "not logged in",
            "401",
            "permission_denied",
            "forbidden",
        ],
    ),
    (
        Cause::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "too many requests",
            "resource_exhausted",
            "quota",
            "429",
        ],
    ),
    (
        Cause::Overloaded,
        &["overloaded", "unavailable", "503", "529"],
    ),
    (
        Cause::Network,
        &[
            "econnrefused",
            "enotfound",
            "etimedout",
            "econnreset",
            "fetch failed",
            "unable to connect",
            "connection",
            "network",
            "socket",
        ],
    ),
    (Cause::ServerError, &["server error", "server_error"]),
    (
        Cause::BadRequest,
        &[
            "context length",
            "prompt budget",
            "too long",
            "maximum length",
            "too large",
            "invalid_request",
            "invalid request",
            "not found",
        ],
    ),
    // The model API failed, and the agent does not say how.
    (Cause::Network, &["apierror"]),
];

fn cause_by_keyword(text: &str) -> Option<Cause> {
    cause_by_phrase(KEYWORDS, text)
}

/// Returns the HTTP status, if the code is one or the details begin with one.
fn status(error: &RpcError<'_>) -> Option<u16> {
    let by_code = error.code().and_then(|code| u16::try_from(code).ok());
    let first = |words: String| {
        words
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
    };
    by_code
        .or_else(|| details(error).and_then(first))
        .filter(|status| (400..600).contains(status))
}

/// Returns the details of an error.
fn details(error: &RpcError<'_>) -> Option<String> {
    let details: Object<Details<'_>> = lenient::parse(error.data);
    details.details.owned()
}

/// Texts that precede a status in messages of agents.
const BEFORE_STATUS: &[&str] = &[
    "(HTTP ",
    "API Error: ",
    "Request rejected (",
    "last status: ",
    "unexpected status ",
];

/// Returns the HTTP status in an agent's message.
fn status_in_text(text: &str) -> Option<u16> {
    status_after(text, BEFORE_STATUS)
}

fn cause_of_status(status: u16) -> Option<Cause> {
    http_status::cause(status).or_else(|| (400..500).contains(&status).then_some(Cause::BadRequest))
}

/// Returns an error's message, with its details if the message alone says nothing.
pub(super) fn text_of(error: &RpcError<'_>) -> String {
    let message = error.message.or_empty().trim();
    let reply = details(error);
    let details = reply
        .as_deref()
        .or(error.data.map(|data| data.get()))
        .filter(|data| !matches!(*data, "null" | "{}"));
    match (message, details) {
        ("", None) => "an error without a message".to_owned(),
        ("", Some(details)) => details.to_owned(),
        (message, Some(details)) if message.eq_ignore_ascii_case("internal error") => {
            format!("{message}: {details}")
        }
        (message, _) => message.to_owned(),
    }
}

/// Returns the outcome of a failed request.
pub(super) fn of_fault(conversation: &AcpConversation, error: &RpcError<'_>) -> Outcome {
    let text = text_of(error);
    let whole = format!("{text} {}", error.data.map_or("", |data| data.get()));
    let status = status(error).or_else(|| status_in_text(&text));
    let cause = match (error.code(), status.and_then(cause_of_status)) {
        (Some(AUTH_REQUIRED), _) => Cause::Auth,
        (_, Some(Cause::BadRequest)) => cause_by_keyword(&whole).unwrap_or(Cause::BadRequest),
        (_, Some(cause)) => cause,
        (Some(code), _) if code == i64::from(INVALID_PARAMS) => {
            cause_by_keyword(&whole).unwrap_or(Cause::BadRequest)
        }
        _ => cause_by_keyword(&whole).unwrap_or(Cause::Protocol),
    };
    let native = error.code().map(|code| code.to_string());
    with_hint(conversation.profile, Outcome::new(cause, text)).with(|d| {
        d.http_status = status;
        d.native = native;
    })
}

/// Returns the outcome of a turn whose session the agent has dropped, or `None` for other errors.
pub(super) fn of_lost_session(
    conversation: &AcpConversation,
    error: &RpcError<'_>,
) -> Option<Outcome> {
    let known = [rpc::INTERNAL_ERROR, INVALID_PARAMS, rpc::RESOURCE_NOT_FOUND]
        .map(|code| Some(i64::from(code)));
    let text = text_of(error);
    let reply = text.to_lowercase();
    let named = format!("session {} not found", conversation.session.to_lowercase());
    let is_lost = known.contains(&error.code())
        && (reply.contains("session not found") || reply.contains(&named));
    let message = format!(
        "{} no longer has the session: {text}",
        conversation.profile.name
    );
    is_lost.then(|| {
        Outcome::new(Cause::AgentDied, message)
            .hint("Send the message again. The agent is restarted and the session resumed.")
            .with(|d| d.native = error.code().map(|code| code.to_string()))
    })
}

/// Returns the outcome of a failed turn. `reply` is its last text, if that is the agent's own error
/// text.
pub(super) fn of_turn(
    conversation: &AcpConversation,
    error: &RpcError<'_>,
    reply: Option<String>,
) -> Outcome {
    let outcome = of_fault(conversation, error);
    let Some(reply) = reply.filter(|reply| !outcome.message.contains(reply.trim())) else {
        return outcome;
    };
    let message = format!("{}: {}", outcome.message, reply.trim());
    Outcome { message, ..outcome }
        .with(|d| d.http_status = d.http_status.or_else(|| status_in_text(&reply)))
}

/// Returns the outcome of a turn that ended as successful although the agent reported a failure
/// before, with its text and the last status that it reported.
pub(super) fn of_failed_turn(profile: &AgentProfile, words: &str, status: Option<u16>) -> Outcome {
    let words = if words.trim().is_empty() {
        "The agent failed without giving a reason."
    } else {
        words.trim()
    };
    let status = status_in_text(words).or(status);
    let cause = status
        .and_then(cause_of_status)
        .or_else(|| cause_by_keyword(words))
        .unwrap_or(Cause::Network);
    with_hint(profile, Outcome::new(cause, words)).with(|d| d.http_status = status)
}

/// Prefixes of warnings that the program itself writes.
const REMARKS: &[&str] = &["Warning: ", "Config warning: ", "*Context compacted"];

/// Returns the text of a remark that the program itself, and not the model, wrote.
pub(super) fn agent_remark(text: &str) -> Option<&str> {
    REMARKS
        .iter()
        .any(|begin| text.starts_with(begin))
        .then(|| text.trim())
}

/// Returns the outcome of a failed resume. Agents have many codes for a session that they do not
/// know.
pub(super) fn of_load(conversation: &AcpConversation, error: &RpcError<'_>) -> Outcome {
    let other = of_fault(conversation, error);
    if matches!(other.cause, Cause::Auth | Cause::RateLimit) {
        return other;
    }
    let message = format!(
        "{} cannot resume that session: {}",
        conversation.profile.name, other.message
    );
    let lost_session_hint = conversation.profile.lost_session_hint;
    let hint = format!(
        "No such session exists on this machine for this directory; leave out resume to start a \
         new one.{lost_session_hint}"
    );
    Outcome {
        detail: other.detail,
        ..Outcome::new(Cause::BadRequest, message).hint(hint)
    }
}

/// Returns the outcome of a refused setting.
pub(super) fn of_setup(conversation: &AcpConversation, key: &str, error: &RpcError<'_>) -> Outcome {
    let message = format!(
        "{} does not accept this {key}: {}",
        conversation.profile.name,
        text_of(error)
    );
    let hint = options::available(conversation, key).map_or_else(
        || format!("Check {key}."),
        |all| format!("Available values: {all}."),
    );
    Outcome::new(Cause::BadRequest, message).hint(hint)
}

/// Returns the outcome of a protocol version mismatch.
pub(super) fn of_version(profile: &AgentProfile, number: Option<u64>) -> Outcome {
    let actual = number.map_or_else(
        || "an unnamed version".to_owned(),
        |number| format!("version {number}"),
    );
    let expected = Version::WANTED;
    let message = format!(
        "{} speaks {actual} of ACP; Ostler speaks version {expected}.",
        profile.name
    );
    Outcome::new(Cause::Protocol, message)
        .hint("Use a version of the agent that supports it, or a newer Ostler.")
}

/// Returns true if a text can be an error that the agent wrote in place of a reply.
pub(super) fn may_be_error(error_text: &ErrorText, text: &str) -> bool {
    text.starts_with(error_text.prefix) && text.trim_end().ends_with(error_text.suffix)
}

/// Returns the failure described by the last text of a turn reported as successful. If a model has
/// replied, the text can be its own: then only the certain prefix counts.
pub(super) fn of_text(
    profile: &AgentProfile,
    error_text: &ErrorText,
    text: &str,
    answered: bool,
) -> Option<Outcome> {
    if !may_be_error(error_text, text) || (answered && !text.starts_with(error_text.certain_prefix))
    {
        return None;
    }
    let message = text
        .trim_end()
        .trim_end_matches(error_text.suffix)
        .trim_start_matches(error_text.prefix)
        .trim();
    // "… (HTTP 401). …", "… Status: 401 …", "… Last error: 500 the provider's message", or that
    // message alone.
    let after = |mark: &str| {
        message
            .split(mark)
            .nth(1)
            .and_then(|rest| rest.split([')', ' ', '.']).next())
    };
    let named = after("(HTTP ").or_else(|| after("Status: "));
    let last = message
        .rsplit("Last error: ")
        .next()
        .and_then(|last| last.split_whitespace().next());
    let status = named.or(last).and_then(|word| word.parse().ok());
    let cause = status
        .and_then(cause_of_status)
        .or_else(|| cause_by_keyword(message))
        .unwrap_or(Cause::Network);
    let outcome = with_hint(profile, Outcome::new(cause, message));
    Some(
        match status.filter(|status| cause_of_status(*status).is_some()) {
            Some(status) => outcome.with(|d| d.http_status = Some(status)),
            None => outcome,
        },
    )
}

/// Returns the outcome of a turn that ended as successful without any text.
pub(super) fn of_silence(profile: &AgentProfile) -> Outcome {
    let message = format!(
        "{} ended the turn without any output, as it does when its API key is rejected.",
        profile.name
    );
    with_hint(profile, Outcome::new(Cause::Auth, message))
}

/// Remarks that an agent writes into its reply, each with the code of the notice it becomes.
const INLINE_NOTICES: &[(&str, NoticeCode)] = &[
    (
        "Info: Request failed due to a transient API error. Retrying",
        NoticeCode::ApiRetry,
    ),
    ("Info: Operation cancelled by user", NoticeCode::AgentInfo),
];

/// Returns the notice code and the text of a remark that the program itself, and not the model,
/// wrote.
pub(super) fn inline_notice(chunk: &str) -> Option<(NoticeCode, &str)> {
    let found = INLINE_NOTICES
        .iter()
        .find(|(begin, _)| chunk.starts_with(begin));
    found.map(|(_, code)| (code.clone(), chunk.trim_start_matches("Info: ")))
}

/// Error messages of programs that do not know the arguments for ACP mode.
const UNKNOWN_ARGUMENT: &[&str] = &[
    "unknown option",
    "unknown argument",
    "unexpected argument",
    "unknown command",
    "unrecognized",
];

/// Returns the outcome of a process that exited before it opened a session, or `None` if its stderr
/// does not explain it.
pub(super) fn of_exit(profile: &AgentProfile, exit: &Exit) -> Option<Outcome> {
    if exit.signal.is_some() || exit.code == Some(0) {
        return None;
    }
    let (cause, line, hint) =
        gateway_unreachable(profile, exit).or_else(|| unknown_argument(exit))?;
    let message = format!("{} did not start: {}", profile.name, line.trim());
    Some(with_exit(Outcome::new(cause, message).hint(hint), exit))
}

/// Recognizes an unreachable gateway.
fn gateway_unreachable<'a>(
    profile: &AgentProfile,
    exit: &'a Exit,
) -> Option<(Cause, &'a str, &'static str)> {
    let (words, hint) = profile.gateway_failure?;
    let line = exit
        .stderr
        .lines()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix(words))?;
    Some((cause_by_keyword(line).unwrap_or(Cause::Network), line, hint))
}

/// Recognizes an unknown argument.
fn unknown_argument(exit: &Exit) -> Option<(Cause, &str, &'static str)> {
    let strange = |line: &&str| {
        UNKNOWN_ARGUMENT
            .iter()
            .any(|words| line.to_lowercase().contains(words))
    };
    let hint = "This version of the agent does not speak ACP, or does not know an extra argument. \
                Update it, or check the arguments.";
    exit.stderr
        .lines()
        .find(strange)
        .map(|line| (Cause::BadRequest, line, hint))
}

/// Hints that fit any agent that speaks ACP, except for a missing login.
const BLAME: Blame = Blame {
    program: "",
    messages: &[],
    hints: &[
        (
            Cause::Overloaded,
            "The model API is overloaded; try again in a moment.",
        ),
        (
            Cause::Network,
            "Check the network, the proxy and the address of the model API, then try again.",
        ),
        (
            Cause::Protocol,
            "Try again, or run the agent directly for more details.",
        ),
    ],
};

/// Adds the hint of the outcome's cause.
pub(super) fn with_hint(profile: &AgentProfile, outcome: Outcome) -> Outcome {
    match outcome.cause {
        Cause::Auth => outcome.hint(profile.login_hint),
        _ => BLAME.with_hint(outcome),
    }
}
