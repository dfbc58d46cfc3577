//! What went wrong: the many words of many agents for it become one cause, with a hint that a person can act on.
//!
//! This is the only file that looks into texts, and it does so last: codes first, words where there is nothing else.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};

use super::conversation::AcpConversation;
use super::entry::Entry;
use super::options;
use super::quirks::Wrote;
use super::rpc;
use super::version::Version;
use super::wire::{Details, Fault};
use crate::lenient::{Node, Scalar};
use crate::service;

/// The code of ACP for somebody who is not logged in.
const AUTH_REQUIRED: i64 = -32000;

/// Words that tell a cause, in lower case, the surest first.
const WORDS: &[(&str, Cause)] = &[
    ("unauthenticated", Cause::Auth),
    ("unauthorized", Cause::Auth),
    ("authentication", Cause::Auth),
    ("api key", Cause::Auth),
    ("api_key", Cause::Auth),
    ("api-key", Cause::Auth),
    ("not logged in", Cause::Auth),
    ("401", Cause::Auth),
    ("permission_denied", Cause::Auth),
    ("forbidden", Cause::Auth),
    ("rate limit", Cause::RateLimit),
    ("rate_limit", Cause::RateLimit),
    ("too many requests", Cause::RateLimit),
    ("resource_exhausted", Cause::RateLimit),
    ("quota", Cause::RateLimit),
    ("429", Cause::RateLimit),
    ("overloaded", Cause::Overloaded),
    ("unavailable", Cause::Overloaded),
    ("503", Cause::Overloaded),
    ("529", Cause::Overloaded),
    ("econnrefused", Cause::Network),
    ("enotfound", Cause::Network),
    ("etimedout", Cause::Network),
    ("econnreset", Cause::Network),
    ("fetch failed", Cause::Network),
    ("unable to connect", Cause::Network),
    ("connection", Cause::Network),
    ("network", Cause::Network),
    ("socket", Cause::Network),
    ("server error", Cause::ServerError),
    ("server_error", Cause::ServerError),
    ("context length", Cause::BadRequest),
    ("prompt budget", Cause::BadRequest),
    ("too long", Cause::BadRequest),
    ("maximum length", Cause::BadRequest),
    ("too large", Cause::BadRequest),
    ("invalid_request", Cause::BadRequest),
    ("invalid request", Cause::BadRequest),
    ("not found", Cause::BadRequest),
    // The model's service said something, and the agent does not say what.
    ("apierror", Cause::Network),
];

fn by_words(text: &str) -> Option<Cause> {
    let text = text.to_lowercase();
    WORDS
        .iter()
        .find(|(word, _)| text.contains(word))
        .map(|(_, cause)| *cause)
}

fn code(fault: &Fault<'_>) -> Option<i64> {
    match fault.code {
        Scalar::Count(code) => i64::try_from(code).ok(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a code of JSON-RPC has five digits"
        )]
        Scalar::Amount(code) if code.abs() < 1e9 => Some(code as i64),
        _ => None,
    }
}

/// The HTTP status, when the code is one, or the details begin with one.
fn status(fault: &Fault<'_>) -> Option<u16> {
    let by_code = code(fault).and_then(|code| u16::try_from(code).ok());
    let first = |words: String| {
        words
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
    };
    by_code
        .or_else(|| details(fault).and_then(first))
        .filter(|status| (400..600).contains(status))
}

/// What an error says in its details.
fn details(fault: &Fault<'_>) -> Option<String> {
    let details: Node<'_, Details<'_>> = serde_json::from_str(fault.data?.get()).ok()?;
    details.map()?.details.owned()
}

/// What stands before a status in the words of agents.
const BEFORE_STATUS: &[&str] = &[
    "(HTTP ",
    "API Error: ",
    "Request rejected (",
    "last status: ",
    "unexpected status ",
];

/// The HTTP status in an agent's words.
fn told_status(text: &str) -> Option<u16> {
    service::status_after(text, BEFORE_STATUS)
}

fn by_status(status: u16) -> Option<Cause> {
    service::cause(status).or_else(|| (400..500).contains(&status).then_some(Cause::BadRequest))
}

/// What an error says, on one line: its message, and its details where the message says nothing.
pub(super) fn words(fault: &Fault<'_>) -> String {
    let message = fault.message.or_empty().trim();
    let said = details(fault);
    let details = said
        .as_deref()
        .or(fault.data.map(|data| data.get()))
        .filter(|data| !matches!(*data, "null" | "{}"));
    match (message, details) {
        ("", None) => "an error without a word".to_owned(),
        ("", Some(details)) => details.to_owned(),
        (message, Some(details)) if message.eq_ignore_ascii_case("internal error") => {
            format!("{message}: {details}")
        }
        (message, _) => message.to_owned(),
    }
}

/// A request failed.
pub(super) fn of_fault(talk: &AcpConversation, fault: &Fault<'_>) -> Outcome {
    let text = words(fault);
    let whole = format!("{text} {}", fault.data.map_or("", |data| data.get()));
    let status = status(fault).or_else(|| told_status(&text));
    let cause = match (code(fault), status.and_then(by_status)) {
        (Some(AUTH_REQUIRED), _) => Cause::Auth,
        (_, Some(Cause::BadRequest)) => by_words(&whole).unwrap_or(Cause::BadRequest),
        (_, Some(cause)) => cause,
        (Some(code), _) if code == i64::from(rpc::BAD_PARAMS) => {
            by_words(&whole).unwrap_or(Cause::BadRequest)
        }
        _ => by_words(&whole).unwrap_or(Cause::Protocol),
    };
    let native = code(fault).map(|code| code.to_string());
    with_hint(talk.entry, Outcome::new(cause, text)).with(|d| {
        d.http_status = status;
        d.native = native;
    })
}

/// Returns the outcome of a turn whose session the agent has dropped, or `None` if the fault says
/// something else.
pub(super) fn of_lost_session(talk: &AcpConversation, fault: &Fault<'_>) -> Option<Outcome> {
    let known = [rpc::INTERNAL, rpc::BAD_PARAMS, rpc::NOT_FOUND].map(|code| Some(i64::from(code)));
    let text = words(fault);
    let said = text.to_lowercase();
    let named = format!("session {} not found", talk.session.to_lowercase());
    let is_lost = known.contains(&code(fault))
        && (said.contains("session not found") || said.contains(&named));
    let message = format!("{} no longer has the session: {text}", talk.entry.name);
    is_lost.then(|| {
        Outcome::new(Cause::AgentDied, message)
            .hint("Send the message again: the agent is started anew and the session resumed.")
            .with(|d| d.native = code(fault).map(|code| code.to_string()))
    })
}

/// A turn failed, and this was its last text: the agent's own words, and no answer.
pub(super) fn of_turn(talk: &AcpConversation, fault: &Fault<'_>, said: Option<String>) -> Outcome {
    let outcome = of_fault(talk, fault);
    let Some(said) = said.filter(|said| !outcome.message.contains(said.trim())) else {
        return outcome;
    };
    let message = format!("{}: {}", outcome.message, said.trim());
    Outcome { message, ..outcome }
        .with(|d| d.http_status = d.http_status.or_else(|| told_status(&said)))
}

/// A turn that ended well and whose agent said before that it failed, with its words and the last status that it told.
pub(super) fn of_words(entry: &Entry, words: &str, status: Option<u16>) -> Outcome {
    let words = if words.trim().is_empty() {
        "The agent failed, and did not say why."
    } else {
        words.trim()
    };
    let status = told_status(words).or(status);
    let cause = status
        .and_then(by_status)
        .or_else(|| by_words(words))
        .unwrap_or(Cause::Network);
    with_hint(entry, Outcome::new(cause, words)).with(|d| d.http_status = status)
}

/// How a warning of the program's own begins.
const REMARKS: &[&str] = &["Warning: ", "Config warning: ", "*Context compacted"];

/// Whether a text is a remark of the program's, and none of the model: what it says.
pub(super) fn remark(text: &str) -> Option<&str> {
    REMARKS
        .iter()
        .any(|begin| text.starts_with(begin))
        .then(|| text.trim())
}

/// A session could not be gone on with. Agents have many codes for one that they do not know.
pub(super) fn of_load(talk: &AcpConversation, fault: &Fault<'_>) -> Outcome {
    let other = of_fault(talk, fault);
    if matches!(other.cause, Cause::Auth | Cause::RateLimit) {
        return other;
    }
    let message = format!(
        "{} cannot go on with that session: {}",
        talk.entry.name, other.message
    );
    let lost = talk.entry.lost;
    let hint = format!(
        "There is no such session on this machine, in this directory; leave out resume to begin a new one.{lost}"
    );
    Outcome {
        detail: other.detail,
        ..Outcome::new(Cause::BadRequest, message).hint(hint)
    }
}

/// A setting was refused.
pub(super) fn of_setup(talk: &AcpConversation, key: &str, fault: &Fault<'_>) -> Outcome {
    let message = format!(
        "{} does not take this {key}: {}",
        talk.entry.name,
        words(fault)
    );
    let hint = options::listed(talk, key).map_or_else(
        || format!("Check {key}."),
        |all| format!("There are: {all}."),
    );
    Outcome::new(Cause::BadRequest, message).hint(hint)
}

/// The agent speaks another version of the protocol.
pub(super) fn of_version(entry: &Entry, number: Option<u64>) -> Outcome {
    let theirs = number.map_or_else(
        || "no version that it names".to_owned(),
        |number| format!("version {number}"),
    );
    let ours = Version::WANTED;
    let message = format!(
        "{} speaks {theirs} of ACP; Ostler speaks version {ours}.",
        entry.name
    );
    Outcome::new(Cause::Protocol, message)
        .hint("Use a version of the agent that speaks it, or a newer Ostler.")
}

/// Whether a text can be an error that the agent wrote in place of an answer.
pub(super) fn may_be_error(wrote: &Wrote, text: &str) -> bool {
    text.starts_with(wrote.head) && text.trim_end().ends_with(wrote.tail)
}

/// The last words of a turn that ended well. If a model has answered, they can be its own: then only what is certain counts.
pub(super) fn of_text(
    entry: &Entry,
    (wrote, text): (&Wrote, &str),
    answered: bool,
) -> Option<Outcome> {
    if !may_be_error(wrote, text) || (answered && !text.starts_with(wrote.certain)) {
        return None;
    }
    let message = text
        .trim_end()
        .trim_end_matches(wrote.tail)
        .trim_start_matches(wrote.head)
        .trim();
    // "… (HTTP 401). …", "… Status: 401 …", "… Last error: 500 the provider's words", or those words alone.
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
        .and_then(by_status)
        .or_else(|| by_words(message))
        .unwrap_or(Cause::Network);
    let outcome = with_hint(entry, Outcome::new(cause, message));
    Some(match status.filter(|status| by_status(*status).is_some()) {
        Some(status) => outcome.with(|d| d.http_status = Some(status)),
        None => outcome,
    })
}

/// A turn that ended well and without a word.
pub(super) fn of_silence(entry: &Entry) -> Outcome {
    let message = format!(
        "{} ended the turn without a word, as it does when its key is rejected.",
        entry.name
    );
    with_hint(entry, Outcome::new(Cause::Auth, message))
}

/// Remarks that an agent writes into its answer: each becomes a notice.
const ASIDES: &[(&str, &str)] = &[
    (
        "Info: Request failed due to a transient API error. Retrying",
        "api_retry",
    ),
    ("Info: Operation cancelled by user", "agent_info"),
];

/// Whether a chunk is a remark of the program's, and none of the model: the notice's code, and what it says.
pub(super) fn aside(chunk: &str) -> Option<(&'static str, &str)> {
    let found = ASIDES.iter().find(|(begin, _)| chunk.starts_with(begin));
    found.map(|(_, code)| (*code, chunk.trim_start_matches("Info: ")))
}

/// What programs say that do not know the arguments that make an agent speak ACP.
const STRANGE: &[&str] = &[
    "unknown option",
    "unknown argument",
    "unexpected argument",
    "unknown command",
    "unrecognized",
];

/// The blame for a process that went before there was a session; none when its last words do not explain it.
pub(super) fn of_exit(entry: &Entry, exit: &Exit) -> Option<Outcome> {
    if exit.signal.is_some() || exit.code == Some(0) {
        return None;
    }
    let (cause, line, hint) = unreached(entry, exit).or_else(|| unspoken(exit))?;
    let message = format!("{} did not start: {}", entry.name, line.trim());
    Some(Outcome::new(cause, message).hint(hint).with(|d| {
        d.exit_code = exit.code;
        d.stderr = Some(exit.stderr.clone());
    }))
}

/// It is a bridge, and did not reach the other side.
fn unreached<'a>(entry: &Entry, exit: &'a Exit) -> Option<(Cause, &'a str, &'static str)> {
    let (words, hint) = entry.bridge?;
    let line = exit
        .stderr
        .lines()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix(words))?;
    Some((by_words(line).unwrap_or(Cause::Network), line, hint))
}

/// It does not know what it was told to do.
fn unspoken(exit: &Exit) -> Option<(Cause, &str, &'static str)> {
    let strange = |line: &&str| {
        STRANGE
            .iter()
            .any(|words| line.to_lowercase().contains(words))
    };
    let hint = "This version of the agent does not speak ACP, or does not know an extra argument; update it, or check the arguments.";
    exit.stderr
        .lines()
        .find(strange)
        .map(|line| (Cause::BadRequest, line, hint))
}

fn with_hint(entry: &Entry, outcome: Outcome) -> Outcome {
    let hint = match outcome.cause {
        Cause::Auth => entry.login_hint,
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        Cause::Overloaded => "The model's service is overloaded; try again in a moment.",
        Cause::ServerError => service::SERVER_ERROR_HINT,
        Cause::Network => {
            "Check the network, the proxy and the address of the model's service, then try again."
        }
        Cause::BadRequest => "Check the prompt, the model and the settings.",
        Cause::Protocol => "Try again; if it stays, run the agent by hand to see what it says.",
        _ => return outcome,
    };
    outcome.hint(hint)
}
