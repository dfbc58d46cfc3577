//! Blame: maps each way a pi turn can end to one cause, with an actionable hint if it failed.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};

use super::wire::Message;
use crate::blame::{self, Blame, status_after};
use crate::http_status;

const TOO_LONG: &str = "Shorten the prompt, start a new session, or use a model with a larger \
                        context window.";

/// Messages from pi and its providers' libraries, with causes and hints.
const BLAME: Blame = Blame {
    program: "pi",
    messages: &[
        ("No API key found", Cause::Auth, ""),
        ("No API key for", Cause::Auth, ""),
        ("No models available", Cause::Auth, ""),
        ("Authentication failed for", Cause::Auth, ""),
        (
            "No model selected",
            Cause::BadRequest,
            "Choose one with --model, as provider/model; `pi --list-models` lists them.",
        ),
        (
            "No session found matching",
            Cause::BadRequest,
            "No such session exists on this machine; leave out resume to start a new one.",
        ),
        (
            "Session found in different project",
            Cause::BadRequest,
            "Run it in the session's own directory, or pass --fork to resume a copy here.",
        ),
        (
            "Use --list-models",
            Cause::BadRequest,
            "Check --model: `pi --list-models` lists the models that pi has credentials for.",
        ),
        (
            "Unknown option",
            Cause::BadRequest,
            "This version of pi lacks the option; update pi, or remove the extra argument.",
        ),
        ("finish_reason: content_filter", Cause::Refused, ""),
        ("Context overflow", Cause::BadRequest, TOO_LONG),
        ("exceeds the context window", Cause::BadRequest, TOO_LONG),
        ("context_length_exceeded", Cause::BadRequest, TOO_LONG),
        ("prompt is too long", Cause::BadRequest, TOO_LONG),
        ("Connection error", Cause::Network, ""),
        ("fetch failed", Cause::Network, ""),
        ("ECONNREFUSED", Cause::Network, ""),
        ("ECONNRESET", Cause::Network, ""),
        ("socket hang up", Cause::Network, ""),
        ("terminated", Cause::Network, ""),
        ("Stream ended without", Cause::Network, ""),
        ("timed out", Cause::Network, ""),
    ],
    hints: &[
        (
            Cause::Auth,
            "Run `pi` and type /login, set the API key of the model's provider, or check \
             ~/.pi/agent/models.json.",
        ),
        (
            Cause::Network,
            "Check the network, the proxy and the address of the model (baseUrl in \
             ~/.pi/agent/models.json), then try again.",
        ),
    ],
};

/// How a model call ended.
#[derive(Debug)]
pub(super) struct Stop {
    /// The stop reason that pi reported.
    reason: String,
    /// pi's error message, if the call failed.
    error: String,
}

impl Stop {
    pub(super) fn from_message(message: &Message<'_>) -> Self {
        Self {
            reason: message.stop_reason.or_empty().to_owned(),
            error: message.error_message.or_empty().to_owned(),
        }
    }

    /// Returns true if the call failed. Text that was not streamed is then not emitted.
    pub(super) fn is_error(&self) -> bool {
        self.reason == "error"
    }

    /// Returns true if the call failed or was interrupted.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_error() || self.reason == "aborted"
    }
}

/// Determines the outcome of a turn. A turn without a model call was handled by an extension.
pub(super) fn of_turn(stop: Option<&Stop>, interrupted: bool) -> Outcome {
    let reason = stop.map_or("", |stop| stop.reason.as_str());
    match (reason, stop) {
        ("aborted", _) => blame::interrupted(),
        ("error" | "toolUse", _) | (_, None) if interrupted => blame::interrupted(),
        ("error", Some(stop)) => of_error(&stop.error),
        ("length", _) => BLAME.with_hint(blame::output_limit()),
        _ => Outcome::completed(),
    }
}

/// Determines the outcome of a failed call, or of a prompt that pi rejected.
pub(super) fn of_error(error: &str) -> Outcome {
    let (status, known) = (status(error), BLAME.by_text(error));
    // A provider's message may contain anything, so its HTTP status takes precedence.
    let cause = status
        .and_then(http_status::cause)
        .or_else(|| known.map(|known| known.cause))
        .unwrap_or(Cause::Protocol);
    let message = error.lines().next().map(str::trim).unwrap_or_default();
    let message = if message.is_empty() {
        "pi reported a failure without a reason."
    } else {
        message
    };
    let outcome = BLAME.explain(Outcome::new(cause, message), known);
    outcome.with(|detail| detail.http_status = status)
}

/// Returns the HTTP status that a provider's error begins with or contains as a code.
fn status(error: &str) -> Option<u16> {
    let first = error.split([' ', ':']).next().unwrap_or_default();
    let leading = first.parse().ok().filter(|it| (400..600).contains(it));
    leading.or_else(|| status_after(error, &["\"code\":", "\"status\":", "HTTP "]))
}

/// Returns the outcome of a process that exited before it reported its state, or `None` if stderr
/// does not explain the exit.
pub(super) fn of_exit(exit: &Exit) -> Option<Outcome> {
    // pi asks on stderr whether to fork a session from another directory, and without an answer
    // exits with code 0.
    let code = exit.code.map(|code| if code == 0 { 1 } else { code });
    let failed = Exit {
        code,
        ..exit.clone()
    };
    let outcome = BLAME.of_exit(&failed)?;
    Some(blame::with_exit(outcome, exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(reason: &str, error: &str) -> Stop {
        Stop {
            reason: reason.to_owned(),
            error: error.to_owned(),
        }
    }

    // The formats are those of pi 0.74.2.
    #[test]
    fn every_error_has_its_cause() {
        for (error, cause, status) in [
            ("401 the provider's words", Cause::Auth, Some(401)),
            ("429 slow down", Cause::RateLimit, Some(429)),
            (
                "529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
                Cause::Overloaded,
                Some(529),
            ),
            ("500 boo", Cause::ServerError, Some(500)),
            ("503: unavailable", Cause::Overloaded, Some(503)),
            ("400 no such model", Cause::BadRequest, Some(400)),
            (
                "{\"error\":{\"code\":403,\"message\":\"x\"}}",
                Cause::Auth,
                Some(403),
            ),
            ("Connection error.", Cause::Network, None),
            (
                "Provider finish_reason: content_filter",
                Cause::Refused,
                None,
            ),
            (
                "No API key found for openai.\n\nUse /login to log into a provider",
                Cause::Auth,
                None,
            ),
            (
                "400 prompt is too long: 9 tokens",
                Cause::BadRequest,
                Some(400),
            ),
            ("something new", Cause::Protocol, None),
            ("", Cause::Protocol, None),
        ] {
            let outcome = of_turn(Some(&stop("error", error)), false);
            assert_eq!(outcome.cause, cause, "{error}");
            let found = outcome
                .detail
                .as_ref()
                .and_then(|detail| detail.http_status);
            assert_eq!(found, status, "{error}");
            assert!(
                outcome.hint.is_some() && !outcome.message.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn every_reason_has_its_cause() {
        for (stop, interrupted, cause) in [
            (Some(stop("stop", "")), false, Cause::Completed),
            // The answer was complete before the interrupt arrived.
            (Some(stop("stop", "")), true, Cause::Completed),
            (Some(stop("length", "")), false, Cause::OutputLimit),
            (
                Some(stop("aborted", "Request was aborted")),
                false,
                Cause::Interrupted,
            ),
            (Some(stop("error", "429 x")), true, Cause::Interrupted),
            (Some(stop("toolUse", "")), true, Cause::Interrupted),
            (None, false, Cause::Completed),
            (None, true, Cause::Interrupted),
        ] {
            assert_eq!(of_turn(stop.as_ref(), interrupted).cause, cause, "{stop:?}");
        }
    }

    #[test]
    fn stderr_explains_a_failed_start() {
        let exit = |code, stderr: &str| Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        };
        for (code, stderr, part, hint) in [
            (
                1,
                "No session found matching '0195'\n",
                "'0195'",
                "leave out resume",
            ),
            (
                0,
                "Session found in different project: /work\nFork this session? [y/N] Aborted.\n",
                "project: /work",
                "--fork",
            ),
            (
                1,
                "Error: Model \"x/y\" not found. Use --list-models to see available models.\n",
                "\"x/y\" not found",
                "--model",
            ),
        ] {
            let outcome = of_exit(&exit(code, stderr)).unwrap();
            assert_eq!(outcome.cause, Cause::BadRequest, "{stderr}");
            assert!(outcome.message.contains(part), "{}", outcome.message);
            assert_eq!(outcome.detail.unwrap().exit_code, Some(code));
            assert!(outcome.hint.unwrap().contains(hint), "{stderr}");
        }
        assert_eq!(of_exit(&exit(1, "panicked")), None);
        let killed = Exit {
            signal: Some(9),
            ..exit(0, "No session found matching 'x'")
        };
        assert_eq!(of_exit(&killed), None);
    }
}
