//! How a turn ended: OpenClaw's words for it become one cause, with a hint that a person can act on.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};

use super::document::Document;
use crate::service;

/// The exit code of a turn that took longer than OpenClaw's own limit.
const TIMEOUT: i32 = 2;

/// The outcome that a document tells.
pub(super) fn of_document(document: &Document<'_>, exit: Option<&Exit>) -> Outcome {
    let code = exit.and_then(|exit| exit.code);
    let error = document.error.map();
    let (message, kind) = error.map_or(("", ""), |error| {
        (error.message.or_empty(), error.kind.or_empty())
    });
    if document.status.text() == Some("timeout") || code == Some(TIMEOUT) {
        return with_native(timed_out(message), kind);
    }
    let failed =
        document.ok.is_false() || document.status.text() == Some("error") || error.is_some();
    if !failed && code.is_none_or(|code| code == 0) {
        return Outcome::completed();
    }
    // The kind of an error tells no status: but for a timeout it is always `exception`.
    let status = service::status_after(message, &["HTTP "]);
    let cause = status
        .and_then(service::cause)
        .or_else(|| by_text(message))
        .unwrap_or(Cause::Protocol);
    let message = if message.is_empty() {
        "OpenClaw calls the turn a failure and does not say why."
    } else {
        message
    };
    with_native(Outcome::new(cause, message), kind).with(|d| d.http_status = status)
}

fn with_native(outcome: Outcome, kind: &str) -> Outcome {
    let outcome = hinted(outcome);
    if kind.is_empty() {
        outcome
    } else {
        outcome.with(|d| d.native = Some(kind.to_owned()))
    }
}

fn timed_out(message: &str) -> Outcome {
    let usual = "The turn took longer than OpenClaw allows.";
    Outcome::new(
        Cause::WallLimit,
        if message.is_empty() { usual } else { message },
    )
}

/// The caller wanted the turn ended.
pub(super) fn interrupted() -> Outcome {
    Outcome::new(Cause::Interrupted, "The turn was interrupted.")
        .with(|d| d.acknowledged = Some(true))
}

/// More was printed than is gathered.
pub(super) fn too_much() -> Outcome {
    Outcome::new(
        Cause::OutputLimit,
        "OpenClaw printed more than 16 MiB, which is too much for an answer.",
    )
    .hint("Ask for less at a time, or for a file.")
}

/// The blame for a process that printed no document; none when its exit does not explain it.
pub(super) fn of_exit(exit: &Exit) -> Option<Outcome> {
    let outcome = match exit.code {
        Some(TIMEOUT) => timed_out(""),
        Some(code) if code != 0 => {
            // Its stderr is noisy when all is well, too: only what is said last counts.
            let said: Vec<&str> = exit
                .stderr
                .lines()
                .filter(|line| by_text(line).is_some())
                .collect();
            let why = said.last()?;
            Outcome::new(by_text(why)?, why.trim())
        }
        _ => return None,
    };
    Some(hinted(outcome).with(|d| {
        d.exit_code = exit.code;
        d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    }))
}

/// Words in sentences, in small letters, the telling ones first. Only some sentences hold the status.
const WORDS: &[(Cause, &[&str])] = &[
    (
        Cause::Auth,
        &["authentication", "api key", "unauthorized", "credential"],
    ),
    (
        Cause::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "quota",
            "billing",
            "too many requests",
            "usage limit",
        ],
    ),
    (Cause::Overloaded, &["overloaded"]),
    // What it adds to the words of a limited provider, which can be any.
    (Cause::RateLimit, &["retry-after:"]),
    (Cause::WallLimit, &["timed out"]),
    (
        Cause::Network,
        &[
            "network",
            "econnrefused",
            "enotfound",
            "fetch failed",
            "connection",
        ],
    ),
    (
        Cause::BadRequest,
        &[
            "unknown model",
            "model_not_found",
            "provider rejected the request",
            "stdin exceeds",
            "invalid",
            "unknown option",
            "context",
            "config",
        ],
    ),
];

fn by_text(text: &str) -> Option<Cause> {
    let small = text.to_lowercase();
    WORDS
        .iter()
        .find(|(_, words)| words.iter().any(|word| small.contains(word)))
        .map(|(cause, _)| *cause)
}

fn hinted(outcome: Outcome) -> Outcome {
    let hint = match outcome.cause {
        Cause::Auth => {
            "Log in (`openclaw configure`) or set the key of the model's provider. A rejected key is not tried again for about a minute."
        }
        Cause::RateLimit => "Wait until the limit resets, or use another model (fallback).",
        Cause::Overloaded => {
            "The model's service is overloaded; try again in a moment, or set fallback."
        }
        Cause::WallLimit => "Raise timeout, or give a smaller task.",
        Cause::ServerError => service::SERVER_ERROR_HINT,
        Cause::Network => {
            "Check the network, the proxy and the provider's address in OpenClaw's configuration."
        }
        Cause::BadRequest => {
            "Check the prompt (at most 4 MiB), the model (provider/model), the configuration and the settings."
        }
        Cause::Protocol => "Try again; `openclaw` by itself may say more.",
        _ => return outcome,
    };
    outcome.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(json: &str) -> Cause {
        of_document(&serde_json::from_str(json).unwrap(), None).cause
    }

    #[test]
    fn every_document_has_its_cause() {
        assert_eq!(cause(r#"{"ok":true,"status":"ok"}"#), Cause::Completed);
        assert_eq!(cause(r#"{"status":"timeout"}"#), Cause::WallLimit);
        let error = |message: &str| {
            format!(r#"{{"ok":false,"error":{{"message":"{message}","kind":"exception"}}}}"#)
        };
        assert_eq!(
            cause(&error(
                "⚠️ a/b request failed (authentication failed, HTTP 401). Try again."
            )),
            Cause::Auth
        );
        assert_eq!(cause(&error("request failed (HTTP 429)")), Cause::RateLimit);
        assert_eq!(
            cause(&error("⚠️ the provider's words; Retry-After: 0 seconds")),
            Cause::RateLimit
        );
        assert_eq!(cause(&error("⚠️ Too Many Requests")), Cause::RateLimit);
        assert_eq!(
            cause(&error("request failed (HTTP 529)")),
            Cause::Overloaded
        );
        assert_eq!(
            cause(&error("request failed (HTTP 502)")),
            Cause::ServerError
        );
        assert_eq!(
            cause(&error(
                "LLM request failed: provider rejected the request schema."
            )),
            Cause::BadRequest
        );
        assert_eq!(
            cause(&error("stdin exceeds 4194304 bytes")),
            Cause::BadRequest
        );
        assert_eq!(cause(&error("something new")), Cause::Protocol);
        assert_eq!(cause(r#"{"status":"error"}"#), Cause::Protocol);
        let exit = |code| Exit {
            code: Some(code),
            signal: None,
            stderr: "(node) warning\nError: Unknown model: x/y\nbye".into(),
        };
        assert_eq!(of_exit(&exit(2)).unwrap().cause, Cause::WallLimit);
        let unknown = of_exit(&exit(1)).unwrap();
        assert_eq!(
            (unknown.cause, unknown.message.as_str()),
            (Cause::BadRequest, "Error: Unknown model: x/y")
        );
        assert_eq!(of_exit(&exit(0)), None);
    }
}
