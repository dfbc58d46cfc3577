//! Meaning of HTTP statuses and errors from model APIs, whichever agent reports them.

use crate::outcome::{Cause, Outcome, Reason};

/// Hint for [`Cause::ServerError`].
pub const SERVER_ERROR_HINT: &str = "The model API failed; this is usually temporary. Try \
    again in a few minutes, or use another model.";

/// Returns the cause of a status that all providers use alike, or `None` for a status that means
/// nothing by itself.
pub fn cause(status: u16) -> Option<Cause> {
    Some(match status {
        401 | 403 => Cause::Auth,
        402 | 429 => Cause::RateLimit,
        503 | 529 => Cause::Overloaded,
        400 | 404 | 413 | 422 => Cause::BadRequest,
        408 => Cause::Network,
        500..=599 => Cause::ServerError,
        _ => return None,
    })
}

/// Returns the first error status (400 to 599) that follows one of these markers in an agent's
/// message.
pub fn status_after(text: &str, markers: &[&str]) -> Option<u16> {
    markers
        .iter()
        .flat_map(|marker| text.split(marker).skip(1))
        .find_map(|rest| {
            let digits = rest
                .get(..3)
                .filter(|_| !rest[3..].starts_with(|c: char| c.is_ascii_digit()))?;
            digits
                .parse()
                .ok()
                .filter(|status| (400..600).contains(status))
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
#[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn server_errors_are_neither_overload_nor_network() {
        for (status, want) in [
            (500, Some(Cause::ServerError)),
            (502, Some(Cause::ServerError)),
            (504, Some(Cause::ServerError)),
            (520, Some(Cause::ServerError)),
            (503, Some(Cause::Overloaded)),
            (529, Some(Cause::Overloaded)),
            (408, Some(Cause::Network)),
            (600, None),
        ] {
            assert_eq!(cause(status), want, "{status}");
        }
    }

    #[test]
    fn status_is_read_after_its_marker() {
        for (text, want) in [
            ("request failed (HTTP 401)", Some(401)),
            ("HTTP 4011", None),
            ("HTTP 40", None),
            ("HTTP é", None),
            ("HTTP 200, then HTTP 502", Some(502)),
            ("500", None),
        ] {
            assert_eq!(status_after(text, &["HTTP "]), want, "{text}");
        }
    }
}
