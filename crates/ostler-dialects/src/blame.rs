//! Outcomes that every agent has: failures recognized by their messages, hints, denials and
//! interrupts.

use ostler_core::dialect::Exit;
use ostler_core::http_status::SERVER_ERROR_HINT;
use ostler_core::outcome::{Cause, Outcome};
use ostler_model::openai::with_reason;

/// How one agent's failures are recognized and explained.
#[derive(Debug)]
pub(crate) struct Blame {
    /// The program.
    pub(crate) program: &'static str,
    /// Its messages, each with a hint where the cause's says too little. `…` matches anything on
    /// the same line.
    pub(crate) messages: &'static [(&'static str, Cause, &'static str)],
    /// Hints by cause, where the common ones do not fit.
    pub(crate) hints: &'static [(Cause, &'static str)],
}

/// Hints by cause that fit most agents.
const HINTS: &[(Cause, &str)] = &[
    (
        Cause::RateLimit,
        "Wait until the limit resets, or use another account or model.",
    ),
    (
        Cause::Overloaded,
        "The model API is overloaded; try again in a moment, or choose another model.",
    ),
    (Cause::ServerError, SERVER_ERROR_HINT),
    (Cause::OutputLimit, "Ask for less at a time."),
    (
        Cause::Refused,
        "Rephrase the request in a new session, or choose another model.",
    ),
    (
        Cause::BadRequest,
        "Check the prompt, the model and the settings.",
    ),
];

/// A known message: its cause, and a hint that is empty if the cause's is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) cause: Cause,
    pub(crate) hint: &'static str,
}

impl Blame {
    /// Returns the cause of the first known message in the text.
    pub(crate) fn by_text(&self, text: &str) -> Option<Known> {
        let mut rows = self.messages.iter();
        let (_, cause, hint) = rows.find(|(message, ..)| contains(text, message))?;
        Some(Known {
            cause: *cause,
            hint,
        })
    }

    /// Returns the outcome of a process that exited before it produced output, or `None` if stderr
    /// does not explain it. Once the agent has worked, its stderr proves nothing.
    pub(crate) fn of_exit(&self, exit: &Exit) -> Option<Outcome> {
        if exit.signal.is_some() || exit.code == Some(0) {
            return None;
        }
        let known = self.by_text(&exit.stderr)?;
        let mut lines = exit.stderr.lines();
        let why = lines.find(|line| self.by_text(line).is_some());
        let why = why.unwrap_or(&exit.stderr).trim();
        let outcome = Outcome::new(
            known.cause,
            format!("{} did not start: {why}", self.program),
        );
        Some(with_exit(self.explain(outcome, Some(known)), exit))
    }

    /// Adds the hint of a known message, if it has one and its cause is the outcome's, otherwise
    /// the hint of the cause.
    pub(crate) fn explain(&self, outcome: Outcome, known: Option<Known>) -> Outcome {
        let specific = known.filter(|known| known.cause == outcome.cause && !known.hint.is_empty());
        match specific {
            Some(known) => with_reason(outcome).hint(known.hint),
            None => self.with_hint(outcome),
        }
    }

    /// Adds the hint of the outcome's cause.
    pub(crate) fn with_hint(&self, outcome: Outcome) -> Outcome {
        let outcome = with_reason(outcome);
        let mut all = self.hints.iter().chain(HINTS);
        match all.find(|(cause, _)| *cause == outcome.cause) {
            Some((_, hint)) => outcome.hint(*hint),
            None if outcome.cause == Cause::Protocol => {
                let program = self.program;
                outcome.hint(format!(
                    "Try again, or run `{program}` directly for more details."
                ))
            }
            None => outcome,
        }
    }
}

/// Lower-case phrases in messages, by cause.
pub(crate) type Phrases = &'static [(Cause, &'static [&'static str])];

/// Returns the cause of the first phrase that the text contains, in any case.
pub(crate) fn cause_by_phrase(phrases: Phrases, text: &str) -> Option<Cause> {
    let text = text.to_lowercase();
    let mut rows = phrases.iter();
    rows.find(|(_, phrases)| phrases.iter().any(|phrase| text.contains(phrase)))
        .map(|(cause, _)| *cause)
}

/// Returns the first error status (400 to 599) that follows one of these markers in an agent's
/// message.
pub(crate) fn status_after(text: &str, markers: &[&str]) -> Option<u16> {
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

fn contains(text: &str, message: &str) -> bool {
    match message.split_once('…') {
        Some((begin, end)) => text.lines().any(|line| {
            line.split_once(begin.trim_end())
                .is_some_and(|(_, rest)| rest.contains(end))
        }),
        None => text.contains(message),
    }
}

/// Adds the exit code and stderr of the process.
pub(crate) fn with_exit(outcome: Outcome, exit: &Exit) -> Outcome {
    outcome.with(|detail| {
        detail.exit_code = exit.code;
        detail.stderr = Some(exit.stderr.clone()).filter(|stderr| !stderr.is_empty());
    })
}

/// Returns the outcome of a turn that the agent stopped because it was interrupted.
pub(crate) fn interrupted() -> Outcome {
    Outcome::new(Cause::Interrupted, "The turn was interrupted.")
        .with(|detail| detail.acknowledged = Some(true))
}

/// Returns the outcome of a turn in which calls of these tools were denied, without a hint.
pub(crate) fn denied(tools: Vec<String>) -> Outcome {
    let message = format!("Tool calls were denied: {}.", tools.join(", "));
    Outcome::new(Cause::Denied, message).with(|detail| detail.denied_tools = tools)
}

/// Returns the outcome of a turn that the model refused, without a hint.
pub(crate) fn refused() -> Outcome {
    Outcome::new(Cause::Refused, "The model refused to answer.")
}

/// Returns the outcome of a turn whose answer was cut off, without a hint.
pub(crate) fn output_limit() -> Outcome {
    Outcome::new(
        Cause::OutputLimit,
        "The answer reached the model's output limit.",
    )
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Checks that each message is recognized, that no earlier one hides it, and that whatever it
    /// leads to has a hint.
    pub(crate) fn check(blame: &Blame) {
        for (message, cause, hint) in blame.messages {
            let text = message.replace('…', "anything");
            let known = blame.by_text(&text);
            assert_eq!(
                known.map(|it| (it.cause, it.hint)),
                Some((*cause, *hint)),
                "{message}"
            );
            let stderr = format!("a warning\n  error: {text} \nmore");
            let exit = Exit {
                code: Some(1),
                signal: None,
                stderr,
            };
            let outcome = blame.of_exit(&exit).unwrap();
            assert_eq!(outcome.cause, *cause, "{message}");
            let start = format!("{} did not start: error: {text}", blame.program);
            assert_eq!(outcome.message, start);
            assert!(outcome.hint.is_some_and(|it| !it.is_empty()), "{message}");
        }
        for (at, (cause, _)) in blame.hints.iter().enumerate() {
            let first = blame.hints.iter().position(|(other, _)| other == cause);
            assert_eq!(first, Some(at), "{cause:?} has one hint");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLAME: Blame = Blame {
        program: "agent",
        messages: &[
            ("no session … found", Cause::BadRequest, "Leave out resume."),
            ("not logged in", Cause::Auth, ""),
        ],
        hints: &[
            (Cause::Auth, "Log in."),
            (Cause::Overloaded, "Set another model."),
        ],
    };

    fn exit(code: i32, stderr: &str) -> Exit {
        Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn hints_are_the_agents_the_common_ones_or_none() {
        testing::check(&BLAME);
        for (cause, hint) in [
            (Cause::Auth, Some("Log in.")),
            (Cause::Overloaded, Some("Set another model.")),
            (Cause::OutputLimit, Some("Ask for less at a time.")),
            (
                Cause::Protocol,
                Some("Try again, or run `agent` directly for more details."),
            ),
            (Cause::AgentDied, None),
        ] {
            let outcome = BLAME.with_hint(Outcome::new(cause, "x"));
            assert_eq!(outcome.hint.as_deref(), hint, "{cause:?}");
        }
    }

    #[test]
    fn a_message_explains_only_its_own_cause() {
        let known = BLAME.by_text("no session x found");
        let hint = |cause| BLAME.explain(Outcome::new(cause, "x"), known).hint;
        assert_eq!(
            hint(Cause::BadRequest).as_deref(),
            Some("Leave out resume.")
        );
        assert_eq!(hint(Cause::Auth).as_deref(), Some("Log in."));
    }

    #[test]
    fn a_gap_in_a_message_stays_on_its_line() {
        for (text, found) in [
            ("no session 7 found", true),
            ("error: no session found", true),
            ("no session 7\nnothing found", false),
            ("found no session", false),
        ] {
            assert_eq!(BLAME.by_text(text).is_some(), found, "{text}");
        }
    }

    #[test]
    fn common_outcomes_have_their_details() {
        let tools = vec!["b".to_owned(), "a".to_owned()];
        let outcome = denied(tools.clone());
        assert_eq!(outcome.message, "Tool calls were denied: b, a.");
        assert_eq!(outcome.detail.unwrap().denied_tools, tools);
        let detail = interrupted().detail.unwrap();
        assert_eq!(detail.acknowledged, Some(true));
        let detail = with_exit(refused(), &exit(3, "")).detail.unwrap();
        assert_eq!((detail.exit_code, detail.stderr), (Some(3), None));
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

    proptest! {
        // A success and a signal explain nothing, whatever was printed.
        #[test]
        fn only_failures_are_explained(
            code in proptest::option::of(-3_i32..4),
            signal in proptest::option::of(1_i32..20),
            stderr in "(not logged in|no session|found|x|\\n){0,6}",
        ) {
            let outcome = BLAME.of_exit(&Exit { code, signal, stderr: stderr.clone() });
            let explained = signal.is_none() && code != Some(0) && BLAME.by_text(&stderr).is_some();
            prop_assert_eq!(outcome.is_some(), explained);
            if let Some(outcome) = outcome {
                prop_assert!(outcome.hint.is_some());
                prop_assert_eq!(outcome.detail.unwrap().stderr, Some(stderr));
            }
        }
    }
}
