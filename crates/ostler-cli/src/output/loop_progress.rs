//! What is particular about a loop on the screen: its rounds, the check of its result, how to go on with it.

use ostler::event::Notice;
use ostler::{Cause, Outcome, RawJson, brief};

use super::style::{BAD, DIM, GOOD};
use super::value::word;
use super::{ResumeCommand, is_safe_to_type};

/// How many of the last lines are shown of what a check said.
const LINES: usize = 6;

/// A loop, as far as it was seen.
#[derive(Default)]
pub(super) struct LoopProgress {
    count: u64,
    again: Option<ResumeCommand>,
}

/// What a notice of the loop's own comes to.
pub(super) enum LoopNotice {
    /// Something is under way.
    Doing(String),
    /// Lines to show.
    Lines(Vec<String>),
}

impl LoopProgress {
    pub(super) fn new(again: Option<ResumeCommand>) -> Self {
        Self { count: 0, again }
    }

    /// What to show of a notice; none when it is like any other.
    pub(super) fn notice(&mut self, notice: &Notice) -> Option<LoopNotice> {
        Some(match &*notice.code {
            "iteration" => {
                self.count += 1;
                LoopNotice::Doing(format!("thinking, iteration {}", self.count))
            }
            "verifying" => LoopNotice::Doing("checking the result".to_owned()),
            "verified" => LoopNotice::Lines(vec![format!(
                "{GOOD}✓{GOOD:#} {}",
                word(&notice.message, 200)
            )]),
            "not_verified" => LoopNotice::Lines(unverified(notice)),
            _ => return None,
        })
    }

    /// How often the model was asked.
    pub(super) fn counted(&self) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some("1 iteration".to_owned()),
            count => Some(format!("{count} iterations")),
        }
    }

    /// What to type to go on with this session.
    pub(super) fn again(&self, session: &str, outcome: &Outcome) -> Option<String> {
        let session = brief::short_id(session);
        let again = self.again.as_ref().filter(|_| is_safe_to_type(session))?;
        let approval = outcome.cause == Cause::NeedsInput
            && outcome
                .detail
                .as_ref()
                .is_some_and(|detail| detail.native.as_deref() == Some("approval"));
        Some(again.line(session, if approval { "approve" } else { "…" }))
    }
}

/// Why the result is not right, with the end of what the check said.
fn unverified(notice: &Notice) -> Vec<String> {
    let mut lines = vec![format!("{BAD}✗{BAD:#} {}", word(&notice.message, 300))];
    let told: String = notice
        .raw
        .as_ref()
        .map(RawJson::get)
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    // The first line of the reason is in the message; the last paragraph only tells the model to go on.
    let reason = told.rsplit_once("\n\n").map_or("", |(reason, _)| reason);
    let all: Vec<&str> = reason
        .lines()
        .skip(3)
        .filter(|line| !line.trim().is_empty() && *line != "It printed:")
        .collect();
    let from = all.len().saturating_sub(LINES);
    lines.extend(
        all[from..]
            .iter()
            .map(|line| format!("  {DIM}│ {}{DIM:#}", word(line, 110))),
    );
    lines
}
