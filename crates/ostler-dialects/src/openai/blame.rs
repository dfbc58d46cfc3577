//! Blame: maps statuses, error codes and messages of many servers to one cause, with an actionable
//! hint.

use ostler_core::outcome::{Cause, Outcome};

use super::chunk::{ApiError, Chunk};
use super::reply::PartialReply;
use super::runner_protocol::{Failed, FailedKind};
use crate::http_status;

/// Error code of a script without a matching reply.
pub const NO_SCRIPTED_REPLY: &str = "script_has_no_reply";

/// Determines the outcome of a failed call.
pub(super) fn of_failure(failed: &Failed) -> Outcome {
    if let Some(outcome) = &failed.ended {
        return (**outcome).clone();
    }
    let api_error = api_error(&failed.body);
    let cause = cause_of(failed, &api_error);
    let message = match (&api_error.message, failed.status) {
        (message, Some(status)) if !message.is_empty() => {
            format!("The server answered with status {status}: {message}")
        }
        (_, Some(status)) => format!(
            "The server answered with status {status}: {}",
            failed.message
        ),
        (_, None) => failed.message.clone(),
    };
    let outcome = Outcome::new(cause, message);
    let outcome = if api_error.code == NO_SCRIPTED_REPLY {
        outcome.hint("Add a reply for it; see docs/agents/scripted.md.")
    } else {
        with_hint(outcome, failed.kind)
    };
    outcome.with(|detail| {
        detail.http_status = failed.status;
        detail.native = native(&api_error);
        detail.resets_at = failed
            .resets_at
            .clone()
            .filter(|_| matches!(cause, Cause::RateLimit | Cause::Overloaded));
    })
}

/// Determines the outcome of an error inside an answer.
pub(super) fn of_problem(api_error: &ApiError) -> Outcome {
    let cause = by_code(api_error)
        .or_else(|| api_error.code.parse().ok().and_then(by_status))
        .unwrap_or(Cause::ServerError);
    let message = if api_error.message.is_empty() {
        "no reason given"
    } else {
        &api_error.message
    };
    with_hint(
        Outcome::new(cause, format!("The server aborted its answer: {message}")),
        FailedKind::Status,
    )
    .with(|detail| detail.native = native(api_error))
}

/// Determines the outcome of an answer that ended without content.
pub(super) fn unfinished(reply: &PartialReply) -> Option<Outcome> {
    if let Some(api_error) = &reply.api_error {
        return Some(of_problem(api_error));
    }
    if reply.is_complete() && reply.chunks > 0 {
        return None;
    }
    Some(of_failure(&if reply.is_blank() || reply.unreadable > 0 {
        let message = match reply.unreadable {
            0 => "The server's response contains no answer.".to_owned(),
            n => format!("The server's response could not be parsed ({n} lines)."),
        };
        Failed {
            kind: FailedKind::Invalid,
            message,
            ..Failed::default()
        }
    } else {
        let message = "The answer ended prematurely.".to_owned();
        Failed {
            kind: FailedKind::Cut,
            message,
            ..Failed::default()
        }
    }))
}

/// Returns the outcome for a budget that cannot be enforced.
pub(super) fn unpriced() -> Outcome {
    Outcome::new(
        Cause::Budget,
        "The budget cannot be enforced because the model's price is \
        unknown.",
    )
    .hint(
        "Set the price in dollars per million tokens (--set price=INPUT/OUTPUT), or remove \
            the budget (--max-budget-usd).",
    )
}

/// Creates an outcome with the model's own finish reason.
pub(super) fn ending(cause: Cause, message: &str, code: &str) -> Outcome {
    Outcome::new(cause, message)
        .with(|detail| detail.native = Some(code.to_owned()).filter(|code| !code.is_empty()))
}

/// Returns true if another attempt can help.
#[must_use]
pub fn is_worth_retrying(failed: &Failed) -> bool {
    if let Some(outcome) = &failed.ended {
        return is_passing(outcome.cause);
    }
    let api_error = api_error(&failed.body);
    // An exhausted quota is reported as 429 too, but waiting does not help.
    let quota = [&api_error.code, &api_error.kind]
        .iter()
        .any(|code| *code == "insufficient_quota");
    let cause = cause_of(failed, &api_error);
    !quota && is_passing(cause) && failed.kind != FailedKind::Tls
}

/// Returns true if the same call can succeed a moment later.
fn is_passing(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimit | Cause::Overloaded | Cause::ServerError | Cause::Network
    )
}

/// Returns true if the conversation is too long for the model.
pub(super) fn is_too_long(failed: &Failed) -> bool {
    let api_error = match &failed.ended {
        Some(outcome) => ApiError {
            message: outcome.message.clone(),
            code: outcome
                .detail
                .as_ref()
                .and_then(|detail| detail.native.clone())
                .unwrap_or_default(),
            ..ApiError::default()
        },
        None => api_error(&failed.body),
    };
    let message = api_error.message.to_lowercase();
    let refused = match &failed.ended {
        Some(outcome) => outcome.cause == Cause::BadRequest,
        None => matches!(failed.status, Some(400 | 413 | 422)),
    };
    refused
        && (api_error.code == "context_length_exceeded"
            || [
                "context length",
                "context window",
                "maximum context",
                "too many tokens",
                "prompt is too long",
                "exceeds the available context",
            ]
            .iter()
            .any(|words| message.contains(words)))
}

fn cause_of(failed: &Failed, api_error: &ApiError) -> Cause {
    match failed.kind {
        FailedKind::NoKey => Cause::Auth,
        FailedKind::Connect | FailedKind::Tls | FailedKind::Cut => Cause::Network,
        FailedKind::Invalid => Cause::Protocol,
        FailedKind::Status => {
            let by_status = failed.status.and_then(by_status);
            // A proxy describes an upstream error in its message and answers with 500 or 400
            // itself.
            let vague = matches!(failed.status, None | Some(400 | 500..=599));
            let by_code = if vague { by_code(api_error) } else { None };
            by_code.or(by_status).unwrap_or(Cause::Protocol)
        }
    }
}

fn by_status(status: u16) -> Option<Cause> {
    http_status::cause(status).or(match status {
        407 => Some(Cause::Auth),
        300..=399 | 405 | 409..=426 => Some(Cause::BadRequest),
        _ => None,
    })
}

/// Maps error codes and types that servers send along with the status.
fn by_code(api_error: &ApiError) -> Option<Cause> {
    [api_error.code.as_str(), api_error.kind.as_str()]
        .into_iter()
        .find_map(|code| {
            Some(match code {
                "invalid_api_key"
                | "authentication_error"
                | "permission_error"
                | "AuthenticationError" => Cause::Auth,
                "rate_limit_exceeded"
                | "rate_limit_error"
                | "insufficient_quota"
                | "requests"
                | "tokens"
                | "RateLimitError"
                | "throttling_error" => Cause::RateLimit,
                "overloaded_error"
                | "server_overloaded"
                | "engine_overloaded"
                | "service_unavailable"
                | "ServiceUnavailableError"
                | "overloaded" => Cause::Overloaded,
                "content_filter" | "content_policy_violation" => Cause::Refused,
                "model_not_found"
                | "context_length_exceeded"
                | "invalid_request_error"
                | "NotFoundError"
                | "BadRequestError" => Cause::BadRequest,
                _ => return None,
            })
        })
}

fn native(api_error: &ApiError) -> Option<String> {
    [&api_error.code, &api_error.kind]
        .into_iter()
        .find(|code| !code.is_empty())
        .cloned()
}

/// Parses the server's error message.
fn api_error(body: &str) -> ApiError {
    let body = body.trim();
    // Some servers wrap it in a list.
    let body = body
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(body);
    let chunk = serde_json::from_str::<Chunk<'_>>(body).ok();
    chunk
        .and_then(|chunk| chunk.api_error())
        .unwrap_or_else(|| {
            let plain = if body.starts_with('<') { "" } else { body };
            ApiError {
                message: plain.chars().take(500).collect(),
                ..ApiError::default()
            }
        })
}

fn with_hint(outcome: Outcome, kind: FailedKind) -> Outcome {
    let hint = match (outcome.cause, kind) {
        (Cause::Auth, _) => {
            "Set OPENAI_API_KEY (or another variable with --set api_key_env=NAME), and check that \
             the key is for this server (--set base_url=…)."
        }
        (Cause::RateLimit, _) => "Wait, or check the plan and the quota of the account.",
        (Cause::Overloaded, _) => "Try again later, or use another model.",
        (Cause::ServerError, _) => http_status::SERVER_ERROR_HINT,
        (Cause::Network, FailedKind::Tls) => {
            "Check the base URL (http or https), or add the server's certificate with \
             SSL_CERT_FILE."
        }
        (Cause::Network, _) => {
            "Check that the server is running and the base URL is correct (--set base_url=…, \
             OPENAI_BASE_URL)."
        }
        (Cause::BadRequest, _) => {
            "Check the model's name (--model) and the base URL; `ostler doctor` lists the \
             server's models."
        }
        (Cause::Protocol, _) => {
            "Check that the server is OpenAI-compatible; the base URL usually ends with /v1."
        }
        _ => return outcome,
    };
    outcome.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: u16, body: &str) -> Failed {
        Failed {
            kind: FailedKind::Status,
            status: Some(status),
            body: body.into(),
            ..Failed::default()
        }
    }

    #[test]
    fn every_failure_has_its_cause() {
        let table: &[(u16, &str, Cause, bool)] = &[
            (
                401,
                r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#,
                Cause::Auth,
                false,
            ),
            (403, "", Cause::Auth, false),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                Cause::BadRequest,
                false,
            ),
            (
                404,
                r#"{"error":"model 'x' not found, try pulling it first"}"#,
                Cause::BadRequest,
                false,
            ),
            (
                429,
                r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#,
                Cause::RateLimit,
                true,
            ),
            (
                429,
                r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#,
                Cause::RateLimit,
                false,
            ),
            (
                400,
                r#"{"error":{"message":"bad","type":"invalid_request_error","code":null}}"#,
                Cause::BadRequest,
                false,
            ),
            (
                400,
                r#"{"object":"error","message":"no such thing","code":40303}"#,
                Cause::BadRequest,
                false,
            ),
            (500, "<html>oops</html>", Cause::ServerError, true),
            (
                500,
                r#"{"error":{"message":"litellm.AuthenticationError","type":"authentication_error"}}"#,
                Cause::Auth,
                false,
            ),
            (502, "", Cause::ServerError, true),
            (
                504,
                r#"{"error":{"message":"x","type":"server_error"}}"#,
                Cause::ServerError,
                true,
            ),
            (
                503,
                r#"{"error":{"message":"loading","type":"unavailable_error","code":503}}"#,
                Cause::Overloaded,
                true,
            ),
            (529, "", Cause::Overloaded, true),
            (418, "teapot", Cause::BadRequest, false),
        ];
        for (status, body, cause, again) in table {
            let failed = failed(*status, body);
            let outcome = of_failure(&failed);
            assert_eq!(outcome.cause, *cause, "{status} {body}");
            assert_eq!(is_worth_retrying(&failed), *again, "{status} {body}");
            assert_eq!(outcome.detail.and_then(|d| d.http_status), Some(*status));
            assert!(outcome.hint.is_some(), "{status}: every failure has a hint");
        }
    }

    #[test]
    fn an_error_inside_an_answer_has_its_cause() {
        for (line, cause) in [
            (
                r#"{"error":{"message":"slow","code":"rate_limit_exceeded"}}"#,
                Cause::RateLimit,
            ),
            (
                r#"{"error":{"message":"busy","type":"overloaded_error"}}"#,
                Cause::Overloaded,
            ),
            (r#"{"error":{"message":"key","code":401}}"#, Cause::Auth),
            (r#"{"error":"something broke"}"#, Cause::ServerError),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"code":502,"message":"up"}}]}"#,
                Cause::ServerError,
            ),
        ] {
            let chunk: Chunk<'_> = serde_json::from_str(line).unwrap();
            assert_eq!(
                of_problem(&chunk.api_error().unwrap()).cause,
                cause,
                "{line}"
            );
        }
    }

    #[test]
    fn overlong_conversations_are_recognized() {
        assert!(is_too_long(&failed(
            400,
            r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#
        )));
        assert!(is_too_long(&failed(
            400,
            r#"{"object":"error","message":"This model's maximum context length is 8 tokens"}"#
        )));
        assert!(!is_too_long(&failed(
            400,
            r#"{"error":{"message":"bad temperature"}}"#
        )));
    }
}
