//! Lines that are redrawn in place on a terminal.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use super::Sink;
use crate::environment;

/// Lines on the terminal.
pub(crate) struct LiveLines {
    /// Unfiltered terminal, because the cursor moves.
    terminal: Sink,
    has_colours: bool,
    /// Number of lines on the screen.
    shown: usize,
}

impl LiveLines {
    /// Opens stdout, if it is a terminal whose cursor can move.
    pub(crate) fn open() -> Option<Self> {
        let is_live = io::stdout().is_terminal() && !environment::is_dumb();
        is_live.then(|| Self {
            terminal: Box::new(io::stdout()),
            has_colours: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            shown: 0,
        })
    }

    /// Replaces the lines by these, as far as they fit. Foreign text in them must be sanitized.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let shown = lines.len().min(height().saturating_sub(1));
        let mut text = String::new();
        if self.shown > 0 {
            text.push_str(&format!("\x1b[{}A", self.shown));
        }
        // Without wrapping (7l), a long line is cut at the edge; K clears the rest of the previous
        // one, and J the lines below.
        text.push_str("\r\x1b[?7l");
        for line in &lines[..shown] {
            if self.has_colours {
                text.push_str(line);
            } else {
                text.push_str(&anstream::adapter::strip_str(line).to_string());
            }
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J\x1b[?7h");
        self.shown = shown;
        self.terminal.write_all(text.as_bytes())?;
        self.terminal.flush()
    }
}

/// Returns the height of the terminal.
fn height() -> usize {
    #[cfg(unix)]
    let found = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_row))
        .filter(|rows| *rows > 1);
    #[cfg(not(unix))]
    let found = None;
    found.unwrap_or(24)
}
