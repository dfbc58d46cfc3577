//! Blame: maps Copilot's ways to end a turn to one cause, with an actionable hint.

use ostler_core::dialect::Exit;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Denials;

use super::wire::Data;
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
        match (self.kind.as_str(), self.status) {
            ("authentication" | "authorization", _) | (_, Some(401 | 403)) => Cause::Auth,
            ("rate_limit" | "quota", _) | (_, Some(402 | 429)) => Cause::RateLimit,
            (_, Some(503 | 529)) => Cause::Overloaded,
            ("context_limit", _) | (_, Some(400 | 404 | 413 | 422)) => Cause::BadRequest,
            (_, Some(408)) => Cause::Network,
            (_, Some(500..=599)) => Cause::ServerError,
            _ => by_text(&self.message).map_or(Cause::Protocol, |(cause, _)| cause),
        }
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
        return Outcome::new(Cause::Interrupted, "The turn was interrupted.")
            .with(|d| d.acknowledged = Some(true));
    }
    if let Some(error) = end.error {
        let cause = error.cause();
        let specific = by_text(&error.message)
            .filter(|(by, _)| *by == cause)
            .map(|(_, hint)| hint);
        return with_hint(Outcome::new(cause, error.message), specific).with(|d| {
            d.http_status = error.status;
            d.native = Some(error.kind);
        });
    }
    let outcome = match end.finish {
        _ if end.failed => Outcome::new(
            Cause::Protocol,
            "Copilot reported a failure without a reason.",
        ),
        "content_filter" => Outcome::new(Cause::Refused, "The model refused to answer."),
        "length" => Outcome::new(
            Cause::OutputLimit,
            "The answer reached the model's output limit.",
        ),
        _ if !end.denied.is_empty() && end.denials == Denials::Fail => {
            let message = format!("Tool calls were denied: {}.", end.denied.join(", "));
            Outcome::new(Cause::Denied, message).with(|d| d.denied_tools = end.denied)
        }
        _ => return Outcome::completed(),
    };
    with_hint(outcome, None)
}

/// Messages of the program, on stderr or in an error without a status.
const SENTENCES: &[(&str, Cause, &str)] = &[
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

fn by_text(text: &str) -> Option<(Cause, &'static str)> {
    SENTENCES
        .iter()
        .find(|(sentence, ..)| text.contains(sentence))
        .map(|(_, cause, hint)| (*cause, *hint))
}

/// Determines the outcome of a process that exited before it produced output, or `None` if stderr
/// does not explain it.
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
    let outcome = Outcome::new(cause, format!("copilot did not start: {}", why.trim()));
    Some(with_hint(outcome, Some(hint)).with(|d| {
        d.exit_code = exit.code;
        d.stderr = Some(exit.stderr.clone());
    }))
}

fn with_hint(outcome: Outcome, specific: Option<&'static str>) -> Outcome {
    let default = match outcome.cause {
        Cause::Auth => {
            "Run `copilot login`, set COPILOT_GITHUB_TOKEN, or check COPILOT_PROVIDER_API_KEY if \
             you use a custom provider."
        }
        Cause::RateLimit => "Wait until the limit resets, or use another account or model.",
        Cause::Overloaded => {
            "The model API is overloaded; try again in a moment, or choose another model."
        }
        Cause::ServerError => http_status::SERVER_ERROR_HINT,
        Cause::Network => {
            "Check the network, the proxy and COPILOT_PROVIDER_BASE_URL, then try again."
        }
        Cause::OutputLimit => "Ask for less at a time.",
        Cause::Refused => "Rephrase the request in a new session, or choose another model.",
        Cause::Denied => {
            "Allow the tools (--allowed-tools, or a rule with --permissions), choose another \
             --permission-mode, or pass --tolerate-denials to accept the answer anyway."
        }
        Cause::BadRequest => "Check the prompt, the model and the settings.",
        Cause::Protocol => "Try again, or run `copilot` directly for more details.",
        _ => return outcome,
    };
    outcome.hint(specific.filter(|hint| !hint.is_empty()).unwrap_or(default))
}

#[cfg(test)]
mod tests {
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
        let unknown = of_exit(&exit(
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
            of_exit(&exit(1, "Error: No authentication information found."))
                .unwrap()
                .cause,
            Cause::Auth
        );
        assert_eq!(of_exit(&exit(1, "panicked")), None);
        assert_eq!(
            of_exit(&exit(0, "No authentication information found")),
            None
        );
    }
}
