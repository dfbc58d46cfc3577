//! How a turn ended: Codex's words for it become one cause, with a hint that a person can act on.
//!
//! This is the only file that looks into texts, and it does so last: Codex names most causes, but not all.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};

use super::wire::{ErrorTable, Fault, TurnError};
use crate::lenient::Scalar;
use crate::service;

/// Codex's own words for what went wrong.
const WORDS: &[(&str, Cause)] = &[
    ("unauthorized", Cause::Auth),
    ("usageLimitExceeded", Cause::RateLimit),
    ("rateLimitExceeded", Cause::RateLimit),
    ("serverOverloaded", Cause::Overloaded),
    ("flexUnavailable", Cause::Overloaded),
    ("policyCapacityUnavailable", Cause::Overloaded),
    ("contextWindowExceeded", Cause::BadRequest),
    ("badRequest", Cause::BadRequest),
    ("modelNotFound", Cause::BadRequest),
    ("sandboxError", Cause::BadRequest),
    ("sessionBudgetExceeded", Cause::Budget),
    ("internalServerError", Cause::ServerError),
    ("cyberPolicy", Cause::Refused),
    ("misalignmentPolicyViolation", Cause::Refused),
    ("tooManyDenials", Cause::Denied),
];

/// These come with the status of the model's service, when there was one.
const CONNECTION: &[&str] = &[
    "httpConnectionFailed",
    "responseStreamConnectionFailed",
    "responseStreamDisconnected",
    "responseTooManyFailedAttempts",
];

/// Sentences of Codex, with a hint where the cause's own says too little.
const SENTENCES: &[(&str, Cause, &str)] = &[
    (
        "no rollout found",
        Cause::BadRequest,
        "There is no such session on this machine; leave out resume to begin a new one.",
    ),
    (
        "invalid thread id",
        Cause::BadRequest,
        "Give resume the id of a session; leave it out to begin a new one.",
    ),
    (
        "already has an active writer",
        Cause::BadRequest,
        "Another process has this session open. End it first, or go on with a copy (fork).",
    ),
    (
        "unexpected argument",
        Cause::BadRequest,
        "This version of codex does not have the option; update it, or remove the setting or extra argument.",
    ),
    (
        "unknown variant",
        Cause::BadRequest,
        "This version of codex does not know that; update it, or change the setting.",
    ),
    (
        "Error loading config",
        Cause::BadRequest,
        "Check Codex's config.toml, and the settings config and permission_mode.",
    ),
    (
        "error loading config",
        Cause::BadRequest,
        "Check Codex's config.toml, and the settings config and permission_mode.",
    ),
    (
        "Missing environment variable",
        Cause::Auth,
        "Set the variable that config.toml names as the provider's env_key; --env NAME passes it on.",
    ),
    (
        "exceeds the maximum length",
        Cause::BadRequest,
        "Codex takes at most a megabyte in a message; put the rest into a file that it can read.",
    ),
    ("context_length_exceeded", Cause::BadRequest, CONTEXT),
    ("context window", Cause::BadRequest, CONTEXT),
    (
        "invalid_json_schema",
        Cause::BadRequest,
        "Check json_schema: every object in it needs \"additionalProperties\": false and all its properties required.",
    ),
    ("reason: max_output_tokens", Cause::OutputLimit, ""),
    ("reason: content_filter", Cause::Refused, ""),
    ("401 Unauthorized", Cause::Auth, ""),
    ("403 Forbidden", Cause::Auth, ""),
    ("Not logged in", Cause::Auth, ""),
    ("429 Too Many Requests", Cause::RateLimit, ""),
    ("usage limit", Cause::RateLimit, ""),
    (
        "Quota exceeded",
        Cause::RateLimit,
        "Add credit to the account, or use another.",
    ),
    ("at capacity", Cause::Overloaded, ""),
    ("503 Service Unavailable", Cause::Overloaded, ""),
    ("high demand", Cause::Overloaded, ""),
    ("error sending request", Cause::Network, ""),
    ("stream disconnected", Cause::Network, ""),
    ("unexpected status 4", Cause::BadRequest, ""),
    ("unexpected status 503", Cause::Overloaded, ""),
    ("unexpected status 5", Cause::ServerError, ""),
    ("invalid_request_error", Cause::BadRequest, ""),
];

const CONTEXT: &str = "Shorten the prompt, or begin a new session.";

/// The outcome of a turn that failed.
pub(super) fn of_error(error: &TurnError<'_>) -> Outcome {
    let (word, status) = named(error);
    let message = error.message.or_empty();
    let status = status.or_else(|| service::status_after(message, STATUS_MARKS));
    let (said, special) = by_text(message).unzip();
    let known = WORDS
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, cause)| *cause);
    let connected = CONNECTION.contains(&word.as_str());
    let by_status = status.and_then(service::cause);
    let cause = known
        .or(by_status)
        .or(said)
        .or(connected.then_some(Cause::Network))
        .unwrap_or(Cause::Protocol);
    let text = if message.is_empty() {
        "Codex ended the turn with an error."
    } else {
        message
    };
    let special = special
        .filter(|_| said == Some(cause))
        .or((word == "contextWindowExceeded").then_some(CONTEXT));
    with_hint(Outcome::new(cause, text), special).with(|d| {
        d.http_status = status;
        d.native = Some(word).filter(|word| !word.is_empty());
    })
}

/// The outcome of a turn of which there is only a sentence.
pub(super) fn of_text(message: &str) -> Outcome {
    of_error(&TurnError {
        message: Scalar::Text(message.into()),
        ..TurnError::default()
    })
}

/// The word for an error, and the status that the model's service answered with.
pub(super) fn named(error: &TurnError<'_>) -> (String, Option<u16>) {
    let text = error.codex_error_info.map_or("null", |raw| raw.get());
    if let Ok(Scalar::Text(word)) = serde_json::from_str::<Scalar<'_>>(text) {
        return (word.into_owned(), None);
    }
    let table: ErrorTable<'_> = serde_json::from_str(text).unwrap_or_default();
    let Some((word, facts)) = table.0.unwrap_or_default().into_iter().next() else {
        return (String::new(), None);
    };
    let status = facts.map().and_then(|facts| facts.http_status_code.count());
    (
        word.into_owned(),
        status.and_then(|status| u16::try_from(status).ok()),
    )
}

/// Words before the status in a sentence of Codex: `codex exec` has nothing else.
const STATUS_MARKS: &[&str] = &["unexpected status ", "last status: "];

/// JSON-RPC's codes, as Codex uses them.
const OVERLOADED: i64 = -32_001;

/// The outcome of a request that was refused.
pub(super) fn of_fault(kind: &str, fault: Option<&Fault<'_>>) -> Outcome {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "codes are small whole numbers"
    )]
    let code = fault
        .and_then(|fault| fault.code.amount())
        .map(|code| code as i64);
    let message = fault
        .map(|fault| fault.message.or_empty())
        .filter(|it| !it.is_empty())
        .unwrap_or("no reason given");
    let (said, special) = by_text(message).unzip();
    let cause = match code {
        Some(OVERLOADED) => Cause::Overloaded,
        // What Codex calls an invalid request can be anything that was wrong with it.
        Some(-32_602..=-32_600) => said.unwrap_or(Cause::BadRequest),
        _ => said.unwrap_or(Cause::Protocol),
    };
    let outcome = Outcome::new(cause, format!("Codex refused {kind}: {message}"));
    with_hint(outcome, special).with(|d| d.native = code.map(|code| code.to_string()))
}

/// The blame for a process that went before it said anything; none when its last words do not explain it.
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
    let outcome = Outcome::new(cause, format!("codex did not start: {}", why.trim()));
    Some(with_hint(outcome, Some(hint)).with(|d| {
        d.exit_code = exit.code;
        d.stderr = Some(exit.stderr.clone());
    }))
}

/// Whether a program that went at once did so because it knows no app-server. One that has the subcommand never says that it
/// is unknown; one that has it not takes the word for a prompt, and misses a terminal.
pub(super) fn knows_no_app_server(exit: &Exit) -> bool {
    let says = |text: &str| exit.stderr.contains(text);
    match exit.code {
        Some(2) => says("unrecognized subcommand") || says("unexpected argument 'app-server'"),
        Some(1) => says("stdin is not a terminal"),
        _ => false,
    }
}

fn by_text(text: &str) -> Option<(Cause, &'static str)> {
    SENTENCES
        .iter()
        .find(|(sentence, ..)| text.contains(sentence))
        .map(|(_, cause, hint)| (*cause, *hint))
}

/// The turn is over; some of its calls were not allowed.
pub(super) fn denied(mut tools: Vec<String>) -> Outcome {
    tools.sort();
    tools.dedup();
    let outcome = Outcome::new(
        Cause::Denied,
        format!("Tool calls were denied: {}.", tools.join(", ")),
    );
    with_hint(outcome, None).with(|d| d.denied_tools = tools)
}

fn with_hint(outcome: Outcome, special: Option<&'static str>) -> Outcome {
    let usual = match outcome.cause {
        Cause::Auth => {
            "Run `codex login`, or set the API key of the provider that config.toml names."
        }
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        Cause::Overloaded => {
            "The model's service is overloaded; try again in a moment, or choose another model."
        }
        Cause::ServerError => service::SERVER_ERROR_HINT,
        Cause::Network => {
            "Check the network, the proxy and the provider's base_url in config.toml, then try again."
        }
        Cause::Budget => "Raise the budget, or give a smaller task.",
        Cause::OutputLimit => "Ask for less at a time.",
        Cause::Refused => "Rephrase the request in a new session, or choose another model.",
        Cause::Denied => {
            "Allow the calls by rules (policy.toml, --permissions), choose another --permission-mode, or pass --tolerate-denials if the answer is good without them."
        }
        Cause::BadRequest => "Check the prompt, the model and the settings.",
        Cause::Protocol => "Try again; if it stays, codex may be too old or too new for Ostler.",
        _ => return outcome,
    };
    let hint = special.filter(|hint| !hint.is_empty()).unwrap_or(usual);
    outcome.hint(hint)
}

/// The code for what Codex says about its surroundings: what its sandbox lacks here is about the machine, not about the task.
pub(super) fn code_of_warning(text: &str) -> &'static str {
    if text.contains("bubblewrap") {
        "sandbox_warning"
    } else {
        "agent_warning"
    }
}

/// The error of a retry, in one sentence.
pub(super) fn retry(error: &TurnError<'_>) -> String {
    let details = Some(error.additional_details.or_empty()).filter(|it| !it.is_empty());
    let details = details.map(|it| format!(" ({it})")).unwrap_or_default();
    format!(
        "The model's service failed: {}{details}.",
        error.message.or_empty()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(error: &str) -> Outcome {
        of_error(&serde_json::from_str(error).unwrap())
    }

    // S1-23…S1-27
    #[test]
    fn every_error_has_its_cause_and_a_hint() {
        for (error, cause) in [
            (
                r#"{"message":"unexpected status 401 Unauthorized: x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}"#,
                Cause::Auth,
            ),
            (
                r#"{"message":"exceeded retry limit, last status: 429 Too Many Requests","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}"#,
                Cause::RateLimit,
            ),
            (
                r#"{"message":"Quota exceeded.","codexErrorInfo":"usageLimitExceeded"}"#,
                Cause::RateLimit,
            ),
            (
                r#"{"message":"x","codexErrorInfo":"serverOverloaded"}"#,
                Cause::Overloaded,
            ),
            (
                r#"{"message":"x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":503}}}"#,
                Cause::Overloaded,
            ),
            (
                r#"{"message":"x","codexErrorInfo":"internalServerError"}"#,
                Cause::ServerError,
            ),
            (
                r#"{"message":"x","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":502}}}"#,
                Cause::ServerError,
            ),
            (
                r#"{"message":"unexpected status 500 Internal Server Error: error sending request","codexErrorInfo":"other"}"#,
                Cause::ServerError,
            ),
            (
                r#"{"message":"x","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}"#,
                Cause::Network,
            ),
            (
                r#"{"message":"stream disconnected before completion: Transport error","codexErrorInfo":"other"}"#,
                Cause::Network,
            ),
            (
                r#"{"message":"no such model","codexErrorInfo":"modelNotFound"}"#,
                Cause::BadRequest,
            ),
            (
                r#"{"message":"{\"error\":{\"code\":\"context_length_exceeded\"}}","codexErrorInfo":"other"}"#,
                Cause::BadRequest,
            ),
            (
                r#"{"message":"Incomplete response returned, reason: max_output_tokens","codexErrorInfo":"other"}"#,
                Cause::OutputLimit,
            ),
            (
                r#"{"message":"stream disconnected before completion: Incomplete response returned, reason: content_filter","codexErrorInfo":"other"}"#,
                Cause::Refused,
            ),
            (
                r#"{"message":"brand new","codexErrorInfo":"brandNew"}"#,
                Cause::Protocol,
            ),
            ("{}", Cause::Protocol),
        ] {
            let outcome = blamed(error);
            assert_eq!(outcome.cause, cause, "{error}");
            assert!(
                outcome.hint.is_some() && !outcome.message.is_empty(),
                "{error}"
            );
        }
    }

    #[test]
    fn a_sentence_has_a_status_where_codex_says_nothing_else() {
        let status = |text: &str| of_text(text).detail.and_then(|detail| detail.http_status);
        assert_eq!(
            status("unexpected status 401 Unauthorized: the provider's words, url: x"),
            Some(401)
        );
        assert_eq!(
            status("exceeded retry limit, last status: 429 Too Many Requests"),
            Some(429)
        );
        for text in [
            "",
            "unexpected status ",
            "unexpected status 4",
            "last status: 99x",
            "last status: 200 OK",
            "last status: é",
        ] {
            assert_eq!(status(text), None, "{text}");
        }
    }

    // P55
    #[test]
    fn refused_requests_say_what_to_do() {
        let of = |fault: &str| of_fault("to go on", Some(&serde_json::from_str(fault).unwrap()));
        let busy = of(r#"{"code":-32600,"message":"thread x already has an active writer"}"#);
        assert_eq!(busy.cause, Cause::BadRequest);
        assert!(busy.hint.unwrap().contains("fork"));
        assert_eq!(
            of(r#"{"code":-32001,"message":"Server overloaded; retry later."}"#).cause,
            Cause::Overloaded
        );
        assert_eq!(
            of(r#"{"code":-32600,"message":"no rollout found for thread id x"}"#).cause,
            Cause::BadRequest
        );
        assert_eq!(
            of(r#"{"code":-32603,"message":"boom"}"#).cause,
            Cause::Protocol
        );
    }

    #[test]
    fn only_a_program_without_the_subcommand_is_driven_by_exec() {
        let exit = |code, stderr: &str| Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        };
        assert!(knows_no_app_server(&exit(
            2,
            "error: unrecognized subcommand 'app-server'\n\nUsage: codex"
        )));
        assert!(knows_no_app_server(&exit(
            1,
            "Error: stdin is not a terminal\n"
        )));
        assert!(!knows_no_app_server(&exit(
            2,
            "error: unexpected argument '--foo' found"
        )));
        assert!(!knows_no_app_server(&exit(
            1,
            "Error loading config.toml: x"
        )));
        assert!(!knows_no_app_server(&Exit {
            signal: Some(9),
            ..Exit::default()
        }));
    }
}
