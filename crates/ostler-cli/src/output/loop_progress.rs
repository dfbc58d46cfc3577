//! Display of a loop: iterations, the check of the result, and how to resume.

use ostler::event::Notice;
use ostler::{Cause, Outcome, RawJson, display};

use super::style::{BAD, DIM, GOOD};
use super::value::one_line;
use super::{ResumeCommand, is_safe_to_type};

/// Maximum number of lines shown from the end of a check's output.
const LINES: usize = 6;

/// Progress of a loop.
#[derive(Default)]
pub(super) struct LoopProgress {
    count: u64,
    resume: Option<ResumeCommand>,
}

/// How a notice of the loop is shown.
pub(super) enum LoopNotice {
    /// In the status line.
    Doing(String),
    /// As lines.
    Lines(Vec<String>),
}

impl LoopProgress {
    pub(super) fn new(resume: Option<ResumeCommand>) -> Self {
        Self { count: 0, resume }
    }

    /// Returns how to show a notice, or `None` if it is not specific to loops.
    pub(super) fn notice(&mut self, notice: &Notice) -> Option<LoopNotice> {
        Some(match &*notice.code {
            "iteration" => {
                self.count += 1;
                LoopNotice::Doing(format!("thinking, iteration {}", self.count))
            }
            "verifying" => LoopNotice::Doing("checking the result".to_owned()),
            "verified" => LoopNotice::Lines(vec![format!(
                "{GOOD}✓{GOOD:#} {}",
                one_line(&notice.message, 200)
            )]),
            "not_verified" => LoopNotice::Lines(unverified(notice)),
            _ => return None,
        })
    }

    /// Formats the number of iterations.
    pub(super) fn counted(&self) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some("1 iteration".to_owned()),
            count => Some(format!("{count} iterations")),
        }
    }

    /// Returns the command line that resumes this session.
    pub(super) fn resume_line(&self, session: &str, outcome: &Outcome) -> Option<String> {
        let session = display::short_id(session);
        let resume = self.resume.as_ref().filter(|_| is_safe_to_type(session))?;
        let approval = outcome.cause == Cause::NeedsInput
            && outcome
                .detail
                .as_ref()
                .is_some_and(|detail| detail.native.as_deref() == Some("approval"));
        Some(resume.line(session, if approval { "approve" } else { "…" }))
    }
}

/// Formats why the check failed, with the end of its output.
fn unverified(notice: &Notice) -> Vec<String> {
    let mut lines = vec![format!("{BAD}✗{BAD:#} {}", one_line(&notice.message, 300))];
    let output: String = notice
        .raw
        .as_ref()
        .map(RawJson::get)
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    // The message contains the first line of the reason; the last paragraph is only for the model.
    let reason = output.rsplit_once("\n\n").map_or("", |(reason, _)| reason);
    let all: Vec<&str> = reason
        .lines()
        .skip(3)
        .filter(|line| !line.trim().is_empty() && *line != "It printed:")
        .collect();
    let from = all.len().saturating_sub(LINES);
    lines.extend(
        all[from..]
            .iter()
            .map(|line| format!("  {DIM}│ {}{DIM:#}", one_line(line, 110))),
    );
    lines
}
