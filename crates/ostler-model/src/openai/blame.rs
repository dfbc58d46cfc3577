//! Blame: maps statuses, error codes and messages of many servers to one cause, with an actionable
//! hint.

use ostler_core::http_status;
use ostler_core::outcome::{Cause, Outcome, Reason};

use super::chunk::{ApiError, Chunk};
use crate::runner_protocol::{Failed, FailedKind};

impl Failed {
    /// Returns the outcome of the failed call.
    pub fn outcome(&self) -> Outcome {
        if let Some(outcome) = &self.ended {
            return (**outcome).clone();
        }
        let api_error = api_error(&self.body);
        let cause = cause_of(self, &api_error);
        let message = match (&*api_error.message, self.status) {
            ("", Some(status)) => {
                format!("The server answered with status {status}: {}", self.message)
            }
            (message, Some(status)) => {
                format!("The server answered with status {status}: {message}")
            }
            (_, None) => self.message.clone(),
        };
        with_hint(Outcome::new(cause, message), self.kind).with(|detail| {
            detail.http_status = self.status;
            detail.native = native(&api_error);
            if api_error.code == "context_length_exceeded" {
                detail.reason = Some(Reason::ContextTooLong);
            }
            detail.resets_at = self
                .resets_at
                .clone()
                .filter(|_| matches!(cause, Cause::RateLimit | Cause::Overloaded));
        })
    }

    /// Returns true if another attempt can help.
    #[must_use]
    pub fn is_worth_retrying(&self) -> bool {
        if let Some(outcome) = &self.ended {
            return is_passing(outcome.cause);
        }
        let api_error = api_error(&self.body);
        // An exhausted quota is reported as 429 too, but waiting does not help.
        let quota = [&api_error.code, &api_error.kind]
            .iter()
            .any(|code| *code == "insufficient_quota");
        !quota && is_passing(cause_of(self, &api_error)) && self.kind != FailedKind::Tls
    }

    /// Returns true if the conversation is too long for the model.
    pub(crate) fn is_too_long(&self) -> bool {
        self.outcome().reason() == Some(&Reason::ContextTooLong)
    }
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

/// Returns true if the same call can succeed a moment later.
fn is_passing(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimit | Cause::Overloaded | Cause::ServerError | Cause::Network
    )
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

/// Parts of servers' messages about a prompt that is too long for the model, in lower case.
const TOO_LONG: &[&str] = &[
    "context length",
    "context window",
    "context_length_exceeded",
    "maximum context",
    "too many tokens",
    "prompt is too long",
    "prompt budget",
    "exceeds the available context",
];

/// Adds the reason to a bad request whose message says that the prompt is too long for the model.
pub fn with_reason(outcome: Outcome) -> Outcome {
    let message = outcome.message.to_lowercase();
    let is_too_long =
        outcome.cause == Cause::BadRequest && TOO_LONG.iter().any(|words| message.contains(words));
    if is_too_long {
        outcome.with(|detail| detail.reason = Some(Reason::ContextTooLong))
    } else {
        outcome
    }
}

fn with_hint(outcome: Outcome, kind: FailedKind) -> Outcome {
    let outcome = with_reason(outcome);
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
    fn only_a_bad_request_can_be_a_prompt_that_is_too_long() {
        for (cause, message, want) in [
            (Cause::BadRequest, "Prompt is too long", true),
            (
                Cause::BadRequest,
                "maximum context length is 8 tokens",
                true,
            ),
            (Cause::BadRequest, "bad temperature", false),
            (Cause::RateLimit, "too many tokens per minute", false),
        ] {
            let outcome = with_reason(Outcome::new(cause, message));
            let reason = want.then_some(Reason::ContextTooLong);
            assert_eq!(outcome.reason(), reason.as_ref(), "{message}");
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
            let outcome = failed.outcome();
            assert_eq!(outcome.cause, *cause, "{status} {body}");
            assert_eq!(failed.is_worth_retrying(), *again, "{status} {body}");
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
        assert!(
            failed(
                400,
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#
            )
            .is_too_long()
        );
        assert!(
            failed(
                400,
                r#"{"object":"error","message":"This model's maximum context length is 8 tokens"}"#
            )
            .is_too_long()
        );
        assert!(!failed(400, r#"{"error":{"message":"bad temperature"}}"#).is_too_long());
    }
}
