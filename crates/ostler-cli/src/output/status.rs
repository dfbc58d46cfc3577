//! Status line of a live run: elapsed time, activity, tokens and cost. It is shown only while
//! nothing else is on its line.
//!
//! The cursor stays right after the text. If the line were full, the terminal would echo `^C` on
//! the next line, and the wrong line would be cleared.

use std::io::Write;
use std::time::Duration;

use ostler::Usage;

use super::Sink;
use super::value::one_line;

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Maximum length of the activity.
const MAX_ACTIVITY: usize = 100;

/// The status line; inactive if stderr is not a terminal.
pub(crate) struct Status {
    /// Unfiltered terminal, because the line uses control sequences.
    terminal: Option<Sink>,
    is_shown: bool,
    turn: usize,
    doing: String,
    usage_summary: String,
}

impl Status {
    pub(crate) fn new(terminal: Option<Sink>) -> Self {
        Self {
            terminal,
            is_shown: false,
            turn: 0,
            doing: "starting".into(),
            usage_summary: String::new(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.terminal.is_some()
    }

    pub(crate) fn doing(&mut self, activity: &str) {
        self.doing = one_line(activity, MAX_ACTIVITY);
    }

    pub(crate) fn usage_summary(&mut self, usage: &Usage) {
        self.usage_summary = super::human::usage_summary(usage);
    }

    /// Shows or updates the line.
    pub(crate) fn show(&mut self, elapsed: Duration) {
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        let spinner = SPINNER[self.turn % SPINNER.len()];
        let dot = if self.usage_summary.is_empty() {
            ""
        } else {
            " · "
        };
        // Without wrapping (7l), a long line is cut at the edge; K clears the rest of the previous
        // one.
        let line = format!(
            "\r\x1b[?7l{spinner} {}s · {}{dot}{}\x1b[K\x1b[?7h",
            elapsed.as_secs(),
            self.doing,
            self.usage_summary
        );
        // Fails only if the terminal is gone.
        let _ = terminal
            .write_all(line.as_bytes())
            .and_then(|()| terminal.flush());
        self.turn += 1;
        self.is_shown = true;
    }

    /// Clears the line, so that other output can be written.
    pub(crate) fn hide(&mut self) {
        if let Some(terminal) = &mut self.terminal
            && std::mem::take(&mut self.is_shown)
        {
            let _ = terminal
                .write_all(b"\r\x1b[2K")
                .and_then(|()| terminal.flush());
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.hide();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    struct Screen(Sender<u8>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            bytes.iter().for_each(|b| self.0.send(*b).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn drain(written: &Receiver<u8>) -> String {
        String::from_utf8(written.try_iter().collect()).unwrap()
    }

    #[test]
    fn line_is_shown_and_hidden_with_sanitized_text() {
        let (to, written) = channel();
        let mut status = Status::new(Some(Box::new(Screen(to))));
        status.hide();
        assert_eq!(
            drain(&written),
            "",
            "a line that was not shown is not cleared"
        );
        status.doing("Ba\x1b[2Jsh\nls");
        status.show(Duration::from_secs(3));
        assert_eq!(drain(&written), "\r\x1b[?7l⠋ 3s · Bash ls\x1b[K\x1b[?7h");
        status.hide();
        status.hide();
        assert_eq!(drain(&written), "\r\x1b[2K");
    }
}
