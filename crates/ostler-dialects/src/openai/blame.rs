//! Why there is no answer: statuses, codes and words of many servers become one cause, with a hint that a person can act on.

use ostler_core::outcome::{Cause, Outcome};

use super::chunk::{Chunk, Problem};
use super::orders::{Failed, FailedKind};
use super::reply::Reply;
use crate::service;

/// The code of a script that has nothing to say.
pub const SCRIPT: &str = "script_has_no_reply";

/// What a failed call comes to.
pub(super) fn of_failure(failed: &Failed) -> Outcome {
    if let Some(outcome) = &failed.ended {
        return (**outcome).clone();
    }
    let problem = problem(&failed.body);
    let cause = cause_of(failed, &problem);
    let message = match (&problem.message, failed.status) {
        (said, Some(status)) if !said.is_empty() => {
            format!("The server answered with status {status}: {said}")
        }
        (_, Some(status)) => format!(
            "The server answered with status {status}: {}",
            failed.message
        ),
        (_, None) => failed.message.clone(),
    };
    let outcome = Outcome::new(cause, message);
    let outcome = if problem.code == SCRIPT {
        outcome.hint("Write a reply for it: docs/agents/scripted.md says how.")
    } else {
        hinted(outcome, failed.kind)
    };
    outcome.with(|detail| {
        detail.http_status = failed.status;
        detail.native = native(&problem);
        detail.resets_at = failed
            .resets_at
            .clone()
            .filter(|_| matches!(cause, Cause::RateLimit | Cause::Overloaded));
    })
}

/// What an error inside an answer comes to.
pub(super) fn of_problem(problem: &Problem) -> Outcome {
    let cause = by_words(problem)
        .or_else(|| problem.code.parse().ok().and_then(by_status))
        .unwrap_or(Cause::ServerError);
    let said = if problem.message.is_empty() {
        "no reason was given"
    } else {
        &problem.message
    };
    hinted(
        Outcome::new(cause, format!("The server broke off its answer: {said}")),
        FailedKind::Status,
    )
    .with(|detail| detail.native = native(problem))
}

/// Why an answer that came to its end is none.
pub(super) fn unfinished(reply: &Reply) -> Option<Outcome> {
    if let Some(problem) = &reply.problem {
        return Some(of_problem(problem));
    }
    if reply.is_whole() && reply.pieces > 0 {
        return None;
    }
    Some(of_failure(&if reply.is_blank() || reply.unreadable > 0 {
        let message = match reply.unreadable {
            0 => "The server's answer holds nothing of an answer.".to_owned(),
            n => format!("The server's answer could not be understood ({n} lines)."),
        };
        Failed {
            kind: FailedKind::Invalid,
            message,
            ..Failed::default()
        }
    } else {
        let message = "The answer broke off in the middle.".to_owned();
        Failed {
            kind: FailedKind::Cut,
            message,
            ..Failed::default()
        }
    }))
}

/// A budget that cannot be kept is not kept by going on.
pub(super) fn unpriced() -> Outcome {
    Outcome::new(Cause::Budget, "The budget cannot be kept: what the model costs is not known.")
        .hint("Give the price in dollars per million tokens (--set price=INPUT/OUTPUT), or leave out the budget (--max-budget-usd).")
}

/// An ending in the model's own word.
pub(super) fn ending(cause: Cause, message: &str, word: &str) -> Outcome {
    Outcome::new(cause, message)
        .with(|detail| detail.native = Some(word.to_owned()).filter(|word| !word.is_empty()))
}

/// Whether another attempt can help.
#[must_use]
pub fn is_worth_retrying(failed: &Failed) -> bool {
    if let Some(outcome) = &failed.ended {
        return is_passing(outcome.cause);
    }
    let problem = problem(&failed.body);
    // A spent quota comes as 429 too; waiting does not fill it.
    let quota = [&problem.code, &problem.kind]
        .iter()
        .any(|word| *word == "insufficient_quota");
    let cause = cause_of(failed, &problem);
    !quota && is_passing(cause) && failed.kind != FailedKind::Tls
}

/// Returns true if the same call can succeed a moment later.
fn is_passing(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RateLimit | Cause::Overloaded | Cause::ServerError | Cause::Network
    )
}

/// Whether the conversation is too long for the model.
pub(super) fn is_too_long(failed: &Failed) -> bool {
    let problem = match &failed.ended {
        Some(outcome) => Problem {
            message: outcome.message.clone(),
            code: outcome
                .detail
                .as_ref()
                .and_then(|detail| detail.native.clone())
                .unwrap_or_default(),
            ..Problem::default()
        },
        None => problem(&failed.body),
    };
    let said = problem.message.to_lowercase();
    let refused = match &failed.ended {
        Some(outcome) => outcome.cause == Cause::BadRequest,
        None => matches!(failed.status, Some(400 | 413 | 422)),
    };
    refused
        && (problem.code == "context_length_exceeded"
            || [
                "context length",
                "context window",
                "maximum context",
                "too many tokens",
                "prompt is too long",
                "exceeds the available context",
            ]
            .iter()
            .any(|words| said.contains(words)))
}

fn cause_of(failed: &Failed, problem: &Problem) -> Cause {
    match failed.kind {
        FailedKind::NoKey => Cause::Auth,
        FailedKind::Connect | FailedKind::Tls | FailedKind::Cut => Cause::Network,
        FailedKind::Invalid => Cause::Protocol,
        FailedKind::Status => {
            let by_status = failed.status.and_then(by_status);
            // A server in front of another one puts what happened behind it into words, and answers 500 or 400 itself.
            let vague = matches!(failed.status, None | Some(400 | 500..=599));
            let by_words = if vague { by_words(problem) } else { None };
            by_words.or(by_status).unwrap_or(Cause::Protocol)
        }
    }
}

fn by_status(status: u16) -> Option<Cause> {
    service::cause(status).or(match status {
        407 => Some(Cause::Auth),
        300..=399 | 405 | 409..=426 => Some(Cause::BadRequest),
        _ => None,
    })
}

/// Codes and types that servers use beside the status.
fn by_words(problem: &Problem) -> Option<Cause> {
    [problem.code.as_str(), problem.kind.as_str()]
        .into_iter()
        .find_map(|word| {
            Some(match word {
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

fn native(problem: &Problem) -> Option<String> {
    [&problem.code, &problem.kind]
        .into_iter()
        .find(|word| !word.is_empty())
        .cloned()
}

/// What the server wrote about the error.
fn problem(body: &str) -> Problem {
    let body = body.trim();
    // Some wrap it into a list of one.
    let body = body
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(body);
    let chunk = serde_json::from_str::<Chunk<'_>>(body).ok();
    chunk.and_then(|chunk| chunk.fault()).unwrap_or_else(|| {
        let plain = if body.starts_with('<') { "" } else { body };
        Problem {
            message: plain.chars().take(500).collect(),
            ..Problem::default()
        }
    })
}

fn hinted(outcome: Outcome, kind: FailedKind) -> Outcome {
    let hint = match (outcome.cause, kind) {
        (Cause::Auth, _) => {
            "Set OPENAI_API_KEY (or name another variable with --set api_key_env=NAME), and check that the key is for this server (--set base_url=…)."
        }
        (Cause::RateLimit, _) => "Wait, or check the plan and the quota of the account.",
        (Cause::Overloaded, _) => "The server is busy: try again later, or use another model.",
        (Cause::ServerError, _) => service::SERVER_ERROR_HINT,
        (Cause::Network, FailedKind::Tls) => {
            "The server's certificate is not trusted, or it does not speak TLS: check the base URL (http or https); SSL_CERT_FILE names further certificates."
        }
        (Cause::Network, _) => {
            "Check that the server runs and that the base URL is right (--set base_url=…, OPENAI_BASE_URL)."
        }
        (Cause::BadRequest, _) => {
            "Check the model's name (--model) and the base URL; `ostler doctor` asks the server which models it has."
        }
        (Cause::Protocol, _) => {
            "Is this an OpenAI-compatible server? The base URL usually ends with /v1."
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
            assert!(
                outcome.hint.is_some(),
                "{status}: a failure says what to do"
            );
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
            assert_eq!(of_problem(&chunk.fault().unwrap()).cause, cause, "{line}");
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_is_told_apart() {
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
