//! Only the answer, on stdout; if there is none, why, on stderr.

use std::io::{self, Write};

use ostler::{Event, What};

use super::Output;

/// The plain form.
pub(super) struct Text<W, E> {
    out: W,
    err: E,
}

impl<W: Write, E: Write> Text<W, E> {
    pub(super) fn new(out: W, err: E) -> Self {
        Self { out, err }
    }
}

impl<W: Write, E: Write> Output for Text<W, E> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.what {
            What::TurnEnded(turn) if !turn.text.is_empty() => writeln!(self.out, "{}", turn.text.trim_end())?,
            What::Ended(ended) if !ended.outcome.is_success() => {
                writeln!(self.err, "{}: {}", ended.outcome.cause, ended.outcome.message)?;
                if let Some(hint) = &ended.outcome.hint {
                    writeln!(self.err, "  hint: {hint}")?;
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
