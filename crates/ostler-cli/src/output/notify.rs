//! Notifications: a sign for whoever looked away while an agent worked.

use std::io::Write;
use std::time::Duration;

use crate::args::Notification;

/// Shorter work needs no notification.
const LONG: Duration = Duration::from_secs(30);

/// Notifies through the terminal.
pub(super) struct Notify {
    terminal: Box<dyn Write + Send>,
    how: Notification,
}

impl Notify {
    pub(super) fn new(terminal: Box<dyn Write + Send>, how: Notification) -> Self {
        Self { terminal, how }
    }

    /// Gives a sign that something ended, if it took long. `message` is text of Ostler's own.
    pub(super) fn ended(&mut self, message: &str, took: Duration) {
        if took < LONG {
            return;
        }
        let sign = match self.how {
            Notification::Bell => "\x07".to_owned(),
            // Terminals that do not know it ignore it.
            Notification::Desktop => format!("\x1b]9;{message}\x07"),
        };
        // A terminal that is gone needs no sign.
        let _ = self
            .terminal
            .write_all(sign.as_bytes())
            .and_then(|()| self.terminal.flush());
    }
}
