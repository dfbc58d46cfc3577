//! The status line of a live run: elapsed time, what the agent does, tokens and cost. It is there only while nothing else
//! stands on its line.
//!
//! The cursor stays behind the text: where a progress bar fills its line to the edge, the `^C` that a terminal echoes
//! goes to the next line, and the one that is cleared then is not the bar's.

use std::io::Write;
use std::time::Duration;

use ostler::Usage;

use super::value::word;

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How much of what the agent does is told.
const DOING: usize = 100;

/// The status line; none when stderr is not a terminal.
pub(crate) struct Status {
    /// Straight to the terminal: these sequences are not colours.
    terminal: Option<Box<dyn Write + Send>>,
    is_shown: bool,
    turn: usize,
    doing: String,
    usage_summary: String,
}

impl Status {
    pub(crate) fn new(terminal: Option<Box<dyn Write + Send>>) -> Self {
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

    pub(crate) fn doing(&mut self, kind: &str) {
        self.doing = word(kind, DOING);
    }

    pub(crate) fn usage_summary(&mut self, usage: &Usage) {
        self.usage_summary = super::human::usage_summary(usage);
    }

    /// Shows the line, or moves it on.
    pub(crate) fn show(&mut self, elapsed: Duration) {
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        let spinner = SPINNER[self.turn % SPINNER.len()];
        let usage_summary = if self.usage_summary.is_empty() {
            String::new()
        } else {
            format!(" · {}", self.usage_summary)
        };
        // Without wrapping (7l) a line that is too long ends at the edge; K takes away the rest of the one before.
        let line = format!(
            "\r\x1b[?7l{spinner} {}s · {}{usage_summary}\x1b[K\x1b[?7h",
            elapsed.as_secs(),
            self.doing
        );
        // A terminal that is gone needs no status line.
        let _ = terminal
            .write_all(line.as_bytes())
            .and_then(|()| terminal.flush());
        self.turn += 1;
        self.is_shown = true;
    }

    /// Takes the line away, so that something else can be written.
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
    fn the_line_comes_and_goes_and_says_nothing_of_the_agents_own() {
        let (to, written) = channel();
        let mut status = Status::new(Some(Box::new(Screen(to))));
        status.hide();
        assert_eq!(drain(&written), "", "what was not shown is not taken away");
        status.doing("Ba\x1b[2Jsh\nls");
        status.show(Duration::from_secs(3));
        assert_eq!(drain(&written), "\r\x1b[?7l⠋ 3s · Bash ls\x1b[K\x1b[?7h");
        status.hide();
        status.hide();
        assert_eq!(drain(&written), "\r\x1b[2K");
    }
}
