//! Display of a loop: iterations, the check of the result, and how to resume.

use ostler::event::{Notice, NoticeCode};
use ostler::outcome::Reason;
use ostler::render::display;
use ostler::{Cause, Outcome};

use super::style::{BAD, DIM, GOOD};
use super::value::one_line;
use super::{counted, is_safe_to_type};

/// Maximum number of lines shown from the end of a check's output.
const LINES: usize = 6;

/// Progress of a loop.
#[derive(Clone, Default)]
pub(crate) struct LoopProgress {
    count: u64,
    /// The command line that resumes the loop, without session and message.
    resume: Option<String>,
}

/// How a notice of the loop is shown.
pub(super) enum LoopNotice {
    /// In the status line.
    Doing(String),
    /// As lines.
    Lines(Vec<String>),
}

impl LoopProgress {
    pub(crate) fn new(resume: Option<String>) -> Self {
        Self { count: 0, resume }
    }

    /// Returns how to show a notice, or `None` if it is not specific to loops.
    pub(super) fn notice(&mut self, notice: &Notice) -> Option<LoopNotice> {
        Some(match notice.code {
            NoticeCode::Iteration => {
                self.count += 1;
                LoopNotice::Doing(format!("thinking, iteration {}", self.count))
            }
            NoticeCode::Verifying => LoopNotice::Doing("checking the result".to_owned()),
            NoticeCode::Verified => LoopNotice::Lines(vec![format!(
                "{GOOD}✓{GOOD:#} {}",
                one_line(&notice.message, 200)
            )]),
            NoticeCode::NotVerified => LoopNotice::Lines(unverified(notice)),
            _ => return None,
        })
    }

    /// Formats the number of iterations.
    pub(super) fn counted(&self) -> Option<String> {
        (self.count > 0).then(|| counted(self.count, "iteration"))
    }

    /// Returns the command line that resumes this session.
    pub(super) fn resume_line(&self, session: &str, outcome: &Outcome) -> Option<String> {
        let session = display::short_id(session);
        let resume = self.resume.as_ref().filter(|_| is_safe_to_type(session))?;
        let approval =
            outcome.cause == Cause::NeedsInput && outcome.reason() == Some(&Reason::Approval);
        let words = if approval { "approve" } else { "…" };
        Some(format!("{resume} --resume {session} \"{words}\""))
    }
}

/// Formats why the check failed, with the end of its output.
fn unverified(notice: &Notice) -> Vec<String> {
    let mut lines = vec![format!("{BAD}✗{BAD:#} {}", one_line(&notice.message, 300))];
    let raw = notice.raw.as_ref();
    let output = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let output = output.unwrap_or_default();
    // The message contains the first line of the reason; the last paragraph is only for the model.
    let reason = output.rsplit_once("\n\n").map_or("", |(reason, _)| reason);
    let all: Vec<&str> = reason
        .lines()
        .skip(3)
        .filter(|line| !line.trim().is_empty() && *line != "It printed:")
        .collect();
    let from = all.len().saturating_sub(LINES);
    let shown = |line: &&str| format!("  {DIM}│ {}{DIM:#}", one_line(line, 110));
    lines.extend(all[from..].iter().map(shown));
    lines
}
