//! Only the answer, on stdout; warnings, and why there is no answer, on stderr.

use std::io::{self, Write};

use ostler::clip::plain;
use ostler::event::Level;
use ostler::{Cause, Event, EventKind};

use super::loop_progress::LoopProgress;
use super::{Output, warning};

/// The plain form.
pub(super) struct Text {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// A file gets the answer as it is; a terminal gets nothing that it would obey.
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

    /// The same for a loop: one that waits for an answer says how to give it.
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
                    writeln!(self.out, "{}", plain(text))?;
                } else {
                    writeln!(self.out, "{text}")?;
                }
            }
            EventKind::Notice(notice) if notice.level == Level::Warning => {
                writeln!(self.err, "{}", warning(notice))?
            }
            EventKind::Ended(ended) if !ended.outcome.is_success() => {
                writeln!(
                    self.err,
                    "{}: {}",
                    ended.outcome.cause,
                    plain(&ended.outcome.message)
                )?;
                if let Some(hint) = &ended.outcome.hint {
                    writeln!(self.err, "  hint: {}", plain(hint))?;
                }
                let waits = ended.outcome.cause == Cause::NeedsInput;
                let again = self
                    .loop_progress
                    .as_ref()
                    .filter(|_| waits)
                    .and_then(|it| it.again(&event.session, &ended.outcome));
                if let Some(again) = again {
                    writeln!(self.err, "  resume with: {again}")?;
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
