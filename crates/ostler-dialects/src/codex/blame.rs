//! Failure causes: maps Codex's errors to a cause, with a hint that a person can act on.
//!
//! This is the only file that inspects message texts, and it does so last: Codex has codes for most
//! causes, but not for all.

use ostler_core::dialect::Exit;
use ostler_core::event::NoticeCode;
use ostler_core::outcome::{Cause, Outcome, Reason};

use super::wire::{ErrorTable, TurnError};
use crate::blame::{Blame, Known, status_after};
use crate::http_status;
use crate::jsonrpc::RpcError;
use crate::lenient::Scalar;

/// Codex's error codes.
const ERROR_CODES: &[(&str, Cause)] = &[
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

/// Error codes that carry the HTTP status of the model API, if there was one.
const CONNECTION: &[&str] = &[
    "httpConnectionFailed",
    "responseStreamConnectionFailed",
    "responseStreamDisconnected",
    "responseTooManyFailedAttempts",
];

/// Codex's messages and hints.
pub(super) const BLAME: Blame = Blame {
    program: "codex",
    messages: MESSAGES,
    hints: &[
        (
            Cause::Auth,
            "Run `codex login`, or set the API key of the provider that config.toml names.",
        ),
        (
            Cause::Network,
            "Check the network, the proxy and the provider's base_url in config.toml, then try \
             again.",
        ),
        (Cause::Budget, "Raise the budget, or give a smaller task."),
        (
            Cause::Denied,
            "Allow the calls by rules (policy.toml, --permissions), choose another \
             --permission-mode, or pass --tolerate-denials to accept the answer anyway.",
        ),
    ],
};

const MESSAGES: &[(&str, Cause, &str)] = &[
    (
        "no rollout found",
        Cause::BadRequest,
        "No such session exists on this machine; leave out resume to start a new one.",
    ),
    (
        "invalid thread id",
        Cause::BadRequest,
        "Pass the id of a session to resume; leave it out to start a new one.",
    ),
    (
        "already has an active writer",
        Cause::BadRequest,
        "Another process has this session open. End it first, or continue in a copy (fork).",
    ),
    (
        "unexpected argument",
        Cause::BadRequest,
        "This version of codex does not support the option; update it, or remove the setting or \
         extra argument.",
    ),
    (
        "unknown variant",
        Cause::BadRequest,
        "This version of codex does not support the value; update it, or change the setting.",
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
        "Set the variable that config.toml names as the provider's env_key; --env NAME passes it \
         through.",
    ),
    (
        "exceeds the maximum length",
        Cause::BadRequest,
        "Codex accepts at most a megabyte per message; put the rest into a file that it can read.",
    ),
    ("context_length_exceeded", Cause::BadRequest, CONTEXT),
    ("context window", Cause::BadRequest, CONTEXT),
    (
        "invalid_json_schema",
        Cause::BadRequest,
        "Check json_schema: every object in it needs \"additionalProperties\": false and all its \
         properties required.",
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

const CONTEXT: &str = "Shorten the prompt, or start a new session.";

/// Returns the outcome of a failed turn.
pub(super) fn of_error(error: &TurnError<'_>) -> Outcome {
    let (code, status) = error_code(error);
    let message = error.message.or_empty();
    let status = status.or_else(|| status_after(message, STATUS_MARKS));
    let known = BLAME.by_text(message);
    let by_code = ERROR_CODES
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, cause)| *cause);
    let is_connection = CONNECTION.contains(&code.as_str());
    let by_status = status.and_then(http_status::cause);
    let cause = by_code
        .or(by_status)
        .or(known.map(|known| known.cause))
        .or(is_connection.then_some(Cause::Network))
        .unwrap_or(Cause::Protocol);
    let text = if message.is_empty() {
        "Codex ended the turn with an error."
    } else {
        message
    };
    let too_long = code == "contextWindowExceeded";
    let context = too_long.then_some(Known {
        cause,
        hint: CONTEXT,
    });
    let known = known.filter(|known| known.cause == cause).or(context);
    BLAME.explain(Outcome::new(cause, text), known).with(|d| {
        d.http_status = status;
        if too_long {
            d.reason = Some(Reason::ContextTooLong);
        }
        d.native = Some(code).filter(|code| !code.is_empty());
    })
}

/// Returns the outcome of a failed turn from its message alone.
pub(super) fn of_text(message: &str) -> Outcome {
    of_error(&TurnError {
        message: Scalar::Text(message.into()),
        ..TurnError::default()
    })
}

/// Returns the code of an error, and the HTTP status of the model API.
fn error_code(error: &TurnError<'_>) -> (String, Option<u16>) {
    let text = error.codex_error_info.map_or("null", |raw| raw.get());
    if let Ok(Scalar::Text(code)) = serde_json::from_str::<Scalar<'_>>(text) {
        return (code.into_owned(), None);
    }
    let table: ErrorTable<'_> = serde_json::from_str(text).unwrap_or_default();
    let Some((code, details)) = table.0.unwrap_or_default().into_iter().next() else {
        return (String::new(), None);
    };
    let status = details.http_status_code.count();
    (
        code.into_owned(),
        status.and_then(|status| u16::try_from(status).ok()),
    )
}

/// Texts that precede the status in Codex's messages: `codex exec` reports nothing else.
const STATUS_MARKS: &[&str] = &["unexpected status ", "last status: "];

/// JSON-RPC error code that Codex uses for overload.
const OVERLOADED: i64 = -32_001;

/// Returns the outcome of a refused request.
pub(super) fn of_rpc_error(kind: &str, error: Option<&RpcError<'_>>) -> Outcome {
    let code = error.and_then(RpcError::code);
    let message = error
        .map(|error| error.message.or_empty())
        .filter(|it| !it.is_empty())
        .unwrap_or("no reason given");
    let known = BLAME.by_text(message);
    let cause = match (code, known) {
        (Some(OVERLOADED), _) => Cause::Overloaded,
        (_, Some(known)) => known.cause,
        // Codex uses the codes of invalid requests for anything that was wrong with one.
        (Some(-32_602..=-32_600), _) => Cause::BadRequest,
        _ => Cause::Protocol,
    };
    let outcome = Outcome::new(cause, format!("Codex refused {kind}: {message}"));
    BLAME
        .explain(outcome, known)
        .with(|d| d.native = code.map(|code| code.to_string()))
}

/// Returns true if a program exited at once because it has no app-server. A program with the
/// subcommand never calls it unknown; one without it takes the name for a prompt and reports a
/// missing terminal.
pub(super) fn lacks_app_server(exit: &Exit) -> bool {
    let says = |text: &str| exit.stderr.contains(text);
    match exit.code {
        Some(2) => says("unrecognized subcommand") || says("unexpected argument 'app-server'"),
        Some(1) => says("stdin is not a terminal"),
        _ => false,
    }
}

/// Returns the outcome of a turn with denied calls.
pub(super) fn denied(mut tools: Vec<String>) -> Outcome {
    tools.sort();
    tools.dedup();
    BLAME.with_hint(crate::blame::denied(tools))
}

/// Returns the notice code of a warning. A limitation of the sandbox concerns the machine, not the
/// task.
pub(super) fn code_of_warning(text: &str) -> NoticeCode {
    if text.contains("bubblewrap") {
        NoticeCode::SandboxWarning
    } else {
        NoticeCode::AgentWarning
    }
}

/// Returns true if an error of `codex exec` announces another attempt. The app-server has a field
/// for this; `codex exec` has only the message.
pub(super) fn is_retry(message: &str) -> bool {
    message.starts_with("Reconnecting")
}

/// Describes a retried error in one sentence.
pub(super) fn retry(error: &TurnError<'_>) -> String {
    let details = Some(error.additional_details.or_empty()).filter(|it| !it.is_empty());
    let details = details.map(|it| format!(" ({it})")).unwrap_or_default();
    format!(
        "The model API failed: {}{details}.",
        error.message.or_empty()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(error: &str) -> Outcome {
        of_error(&serde_json::from_str(error).unwrap())
    }

    // S1-23…S1-27
    #[test]
    fn every_error_has_a_cause_and_a_hint() {
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
            let outcome = outcome_of(error);
            assert_eq!(outcome.cause, cause, "{error}");
            assert!(
                outcome.hint.is_some() && !outcome.message.is_empty(),
                "{error}"
            );
        }
    }

    #[test]
    fn status_is_read_from_the_message() {
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

    #[test]
    fn only_an_announced_attempt_is_a_retry() {
        for (message, retry) in [
            (
                "Reconnecting... 2/5 (unexpected status 502 Bad Gateway: x)",
                true,
            ),
            (
                "unexpected status 401 Unauthorized: Reconnecting is useless",
                false,
            ),
            ("stream disconnected before completion", false),
            ("", false),
        ] {
            assert_eq!(is_retry(message), retry, "{message}");
        }
    }

    // P55
    #[test]
    fn refused_requests_have_hints() {
        let of = |error: &str| {
            of_rpc_error("thread/resume", Some(&serde_json::from_str(error).unwrap()))
        };
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
    fn only_programs_without_app_server_fall_back_to_exec() {
        let exit = |code, stderr: &str| Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        };
        assert!(lacks_app_server(&exit(
            2,
            "error: unrecognized subcommand 'app-server'\n\nUsage: codex"
        )));
        assert!(lacks_app_server(&exit(
            1,
            "Error: stdin is not a terminal\n"
        )));
        assert!(!lacks_app_server(&exit(
            2,
            "error: unexpected argument '--foo' found"
        )));
        assert!(!lacks_app_server(&exit(1, "Error loading config.toml: x")));
        assert!(!lacks_app_server(&Exit {
            signal: Some(9),
            ..Exit::default()
        }));
    }

    #[test]
    fn no_message_hides_another() {
        crate::blame::testing::check(&BLAME);
    }
}
