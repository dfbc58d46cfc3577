//! The text format: only the answer on stdout; warnings and errors on stderr.

use std::io::{self, Write};

use ostler::clip::sanitize;
use ostler::event::Level;
use ostler::{Cause, Event, EventKind};

use super::loop_progress::LoopProgress;
use super::{Output, warning};

/// The text format.
pub(super) struct Text {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Whether stdout is a terminal, for which the answer is sanitized.
    on_screen: bool,
    loop_progress: Option<LoopProgress>,
}

impl Text {
    pub(super) fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        on_screen: bool,
    ) -> Self {
        Self {
            out,
            err,
            on_screen,
            loop_progress: None,
        }
    }

    /// Adapts the output for a loop: if it waits for an answer, the resume command is shown.
    pub(super) fn for_loop(self, loop_progress: LoopProgress) -> Self {
        Self {
            loop_progress: Some(loop_progress),
            ..self
        }
    }
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
                writeln!(
                    self.err,
                    "{}: {}",
                    ended.outcome.cause,
                    sanitize(&ended.outcome.message)
                )?;
                if let Some(hint) = &ended.outcome.hint {
                    writeln!(self.err, "  hint: {}", sanitize(hint))?;
                }
                let waits = ended.outcome.cause == Cause::NeedsInput;
                let resume = self
                    .loop_progress
                    .as_ref()
                    .filter(|_| waits)
                    .and_then(|it| it.resume_line(&event.session, &ended.outcome));
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
