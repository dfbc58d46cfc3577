//! The text format: only the answer on stdout; warnings and errors on stderr.

use std::io::{self, Write};

use ostler::event::Level;
use ostler::render::clip::sanitize;
use ostler::{Cause, Event, EventKind};

use super::loop_progress::LoopProgress;
use super::{Output, Sink, warning};

/// The text format.
pub(super) struct Text {
    pub out: Sink,
    pub err: Sink,
    /// Whether stdout is a terminal, for which the answer is sanitized.
    pub on_screen: bool,
    /// For a loop: if it waits for an answer, the resume command is shown.
    pub loop_progress: Option<LoopProgress>,
}

impl Output for Text {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::TurnEnded(turn) if !turn.text.is_empty() => {
                let text = turn.text.trim_end();
                if self.on_screen {
                    writeln!(self.out, "{}", sanitize(text))?;
                } else {
                    writeln!(self.out, "{text}")?;
                }
            }
            EventKind::Notice(notice) if notice.level == Level::Warning => {
                writeln!(self.err, "{}", warning(notice))?;
            }
            EventKind::Ended(ended) if !ended.outcome.is_success() => {
                let outcome = &ended.outcome;
                writeln!(
                    self.err,
                    "{}: {}",
                    outcome.cause,
                    sanitize(&outcome.message)
                )?;
                if let Some(hint) = &outcome.hint {
                    writeln!(self.err, "  hint: {}", sanitize(hint))?;
                }
                let waits = outcome.cause == Cause::NeedsInput;
                let progress = self.loop_progress.as_ref().filter(|_| waits);
                let resume = progress.and_then(|it| it.resume_line(&event.session, outcome));
                if let Some(resume) = resume {
                    writeln!(self.err, "  resume with: {resume}")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
