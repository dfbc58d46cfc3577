//! Blame: maps Copilot's ways to end a turn to one cause, with an actionable hint.

use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::spec::Denials;

use super::wire::Data;
use crate::blame::{Blame, denied, interrupted, output_limit, refused};
use crate::http_status;

/// Error reported by `session.error`.
#[derive(Debug)]
pub(super) struct SessionError {
    kind: String,
    message: String,
    status: Option<u16>,
}

impl SessionError {
    pub(super) fn read(data: &Data<'_>) -> Self {
        Self {
            kind: data.error_type.or_empty().to_owned(),
            message: data.message.or_empty().to_owned(),
            status: data
                .status_code
                .count()
                .and_then(|status| u16::try_from(status).ok()),
        }
    }

    fn cause(&self) -> Cause {
        let by_kind = match self.kind.as_str() {
            "authentication" | "authorization" => Some(Cause::Auth),
            "rate_limit" | "quota" => Some(Cause::RateLimit),
            "context_limit" => Some(Cause::BadRequest),
            _ => None,
        };
        by_kind
            .or_else(|| self.status.and_then(http_status::cause))
            .or_else(|| BLAME.by_text(&self.message).map(|known| known.cause))
            .unwrap_or(Cause::Protocol)
    }
}

/// Everything known about the end of a turn.
#[derive(Debug)]
pub(super) struct Ending<'a> {
    pub(super) interrupted: bool,
    pub(super) error: Option<SessionError>,
    /// Whether the agent reported a failure.
    pub(super) failed: bool,
    /// The model API's finish reason.
    pub(super) finish: &'a str,
    pub(super) denied: Vec<String>,
    pub(super) denials: Denials,
}

/// Determines the outcome of a turn.
pub(super) fn of_turn(end: Ending<'_>) -> Outcome {
    if end.interrupted {
        return interrupted();
    }
    if let Some(error) = end.error {
        let cause = error.cause();
        let known = BLAME.by_text(&error.message);
        let outcome = Outcome::new(cause, error.message);
        return BLAME.explain(outcome, known).with(|d| {
            d.http_status = error.status;
            if error.kind == "context_limit" {
                d.reason = Some(Reason::ContextTooLong);
            }
            d.native = Some(error.kind);
        });
    }
    let outcome = match end.finish {
        _ if end.failed => Outcome::new(
            Cause::Protocol,
            "Copilot reported a failure without a reason.",
        ),
        "content_filter" => refused(),
        "length" => output_limit(),
        _ if !end.denied.is_empty() && end.denials == Denials::Fail => denied(end.denied),
        _ => return Outcome::completed(),
    };
    BLAME.with_hint(outcome)
}

/// Copilot's messages, on stderr or in an error without a status, and hints.
pub(super) const BLAME: Blame = Blame {
    program: "copilot",
    messages: MESSAGES,
    hints: &[
        (
            Cause::Auth,
            "Run `copilot login`, set COPILOT_GITHUB_TOKEN, or check COPILOT_PROVIDER_API_KEY if \
             you use a custom provider.",
        ),
        (
            Cause::Network,
            "Check the network, the proxy and COPILOT_PROVIDER_BASE_URL, then try again.",
        ),
        (
            Cause::Denied,
            "Allow the tools (--allowed-tools, or a rule with --permissions), choose another \
             --permission-mode, or pass --tolerate-denials to accept the answer anyway.",
        ),
    ],
};

const MESSAGES: &[(&str, Cause, &str)] = &[
    (
        "No session, task, or name matched",
        Cause::BadRequest,
        "No such session exists on this machine; leave out resume to start a new one.",
    ),
    ("No authentication information found", Cause::Auth, ""),
    (
        "prompt budget",
        Cause::BadRequest,
        "Shorten the prompt, or raise COPILOT_PROVIDER_MAX_PROMPT_TOKENS if you use a custom \
         provider.",
    ),
    (
        "unexpected argument",
        Cause::BadRequest,
        "This version of copilot lacks the option; run `copilot update`, or remove the setting or \
         extra argument.",
    ),
    (
        "invalid value",
        Cause::BadRequest,
        "This version of copilot does not support the value; run `copilot update`, or choose \
         another.",
    ),
    (
        "Custom agent",
        Cause::BadRequest,
        "Check agent; run `copilot` and type /agent to list the available ones.",
    ),
    ("Could not connect to provider", Cause::Network, ""),
    (
        "Failed to get response from the AI model",
        Cause::Network,
        "",
    ),
    ("error sending request", Cause::Network, ""),
    ("fetch failed", Cause::Network, ""),
    ("ECONNREFUSED", Cause::Network, ""),
];

#[cfg(test)]
mod tests {
    use ostler_core::dialect::Exit;

    use super::*;

    fn error(kind: &str, status: Option<u16>, message: &str) -> Cause {
        SessionError {
            kind: kind.to_owned(),
            message: message.to_owned(),
            status,
        }
        .cause()
    }

    // The messages are those of 1.0.102.
    #[test]
    fn every_error_has_its_cause() {
        assert_eq!(
            error(
                "authentication",
                Some(401),
                "Authentication failed with provider"
            ),
            Cause::Auth
        );
        assert_eq!(
            error("rate_limit", Some(429), "retried 5 times"),
            Cause::RateLimit
        );
        assert_eq!(error("query", Some(503), ""), Cause::Overloaded);
        assert_eq!(error("query", Some(500), "500 boo"), Cause::ServerError);
        assert_eq!(
            error("query", Some(404), "Model 'x' not found on provider"),
            Cause::BadRequest
        );
        let budget = "Request exceeds the model's prompt budget after reserving output (1261319 \
            tokens; limit 128000).";
        assert_eq!(error("query", None, budget), Cause::BadRequest);
        let cut = "Failed to get response from the AI model; retried 5 times (total retry wait \
            time: 5.00 seconds)";
        assert_eq!(error("query", None, cut), Cause::Network);
        assert_eq!(error("query", None, "something new"), Cause::Protocol);
    }

    #[test]
    fn stderr_explains_a_failed_start() {
        let exit = |code, stderr: &str| Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        };
        let unknown = BLAME
            .of_exit(&exit(
                1,
                "Error: No session, task, or name matched 'x'.\n\nTo resume …",
            ))
            .unwrap();
        assert_eq!(unknown.cause, Cause::BadRequest);
        assert!(
            unknown.message.ends_with("matched 'x'.")
                && unknown.hint.unwrap().contains("leave out resume")
        );
        assert_eq!(
            BLAME
                .of_exit(&exit(1, "Error: No authentication information found."))
                .unwrap()
                .cause,
            Cause::Auth
        );
        assert_eq!(BLAME.of_exit(&exit(1, "panicked")), None);
        assert_eq!(
            BLAME.of_exit(&exit(0, "No authentication information found")),
            None
        );
    }

    #[test]
    fn no_message_hides_another() {
        crate::blame::testing::check(&BLAME);
    }
}
