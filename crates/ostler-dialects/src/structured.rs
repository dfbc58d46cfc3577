//! Structured answers: the answer as JSON, according to the caller's schema.

use ostler_core::dialect::Outbox;
use ostler_core::event::NoticeCode;
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;

/// Warns if a successful turn has no structured answer although one was requested.
pub(crate) fn warn_if_missing(answer: Option<&RawJson>, outcome: &Outcome, out: &mut Outbox) {
    if answer.is_none() && outcome.is_success() {
        out.warn(
            NoticeCode::NoStructuredAnswer,
            "The agent gave no structured answer although one was requested.",
        );
    }
}

/// Parses the text of an answer that must be JSON, and warns if it is not.
pub(crate) fn parse(text: Option<&str>, outcome: &Outcome, out: &mut Outbox) -> Option<RawJson> {
    let answer = text.and_then(|text| RawJson::parse(text).ok());
    warn_if_missing(answer.as_ref(), outcome, out);
    answer
}
