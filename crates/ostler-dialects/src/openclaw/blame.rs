//! Blame: maps OpenClaw's ways to end a turn to one cause, with an actionable hint.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};

use super::document::Document;
use crate::blame::{Blame, Phrases, cause_by_phrase, status_after, with_exit};
use crate::http_status;

/// Hints for OpenClaw's failures. Its messages are matched by [`PHRASES`].
pub(super) const BLAME: Blame = Blame {
    program: "openclaw",
    messages: &[],
    hints: &[
        (
            Cause::Auth,
            "Run `openclaw configure`, or set the API key of the model's provider. A rejected key \
             is not retried for about a minute.",
        ),
        (
            Cause::RateLimit,
            "Wait until the limit resets, or use another model (fallback).",
        ),
        (
            Cause::Overloaded,
            "The model API is overloaded; try again in a moment, or set fallback.",
        ),
        (Cause::WallLimit, "Raise timeout, or give a smaller task."),
        (
            Cause::Network,
            "Check the network, the proxy and the provider's URL in OpenClaw's configuration.",
        ),
        (
            Cause::BadRequest,
            "Check the prompt (at most 4 MiB), the model (provider/model), the configuration and \
             the settings.",
        ),
    ],
};

/// Exit code of a turn that exceeded OpenClaw's own time limit.
const TIMEOUT: i32 = 2;

/// Determines the outcome from the document.
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
    // The kind of an error says little: except for a timeout, it is always `exception`.
    let status = status_after(message, &["HTTP "]);
    let cause = status
        .and_then(http_status::cause)
        .or_else(|| by_text(message))
        .unwrap_or(Cause::Protocol);
    let message = if message.is_empty() {
        "OpenClaw reported a failure without a reason."
    } else {
        message
    };
    with_native(Outcome::new(cause, message), kind).with(|d| d.http_status = status)
}

fn with_native(outcome: Outcome, kind: &str) -> Outcome {
    let outcome = BLAME.with_hint(outcome);
    if kind.is_empty() {
        outcome
    } else {
        outcome.with(|d| d.native = Some(kind.to_owned()))
    }
}

fn timed_out(message: &str) -> Outcome {
    let default = "The turn exceeded OpenClaw's time limit.";
    Outcome::new(
        Cause::WallLimit,
        if message.is_empty() { default } else { message },
    )
}

/// Returns the outcome of a turn whose output exceeded the limit.
pub(super) fn output_too_large() -> Outcome {
    Outcome::new(
        Cause::OutputLimit,
        "OpenClaw printed more than 16 MiB, the limit for an answer.",
    )
    .hint("Ask for less at a time, or for a file.")
}

/// Determines the outcome of a process that printed no document, or `None` if its exit does not
/// explain it.
pub(super) fn of_exit(exit: &Exit) -> Option<Outcome> {
    let outcome = match exit.code {
        Some(TIMEOUT) => timed_out(""),
        Some(code) if code != 0 => {
            // stderr is noisy even on success: only the last matching line counts.
            let lines: Vec<&str> = exit
                .stderr
                .lines()
                .filter(|line| by_text(line).is_some())
                .collect();
            let why = lines.last()?;
            Outcome::new(by_text(why)?, why.trim())
        }
        _ => return None,
    };
    Some(with_exit(BLAME.with_hint(outcome), exit))
}

/// Lowercase phrases in messages, most specific first. Only some messages contain the status.
const PHRASES: Phrases = &[
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
    // OpenClaw appends this to the message of a rate-limited provider, which can be anything.
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
    cause_by_phrase(PHRASES, text)
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
