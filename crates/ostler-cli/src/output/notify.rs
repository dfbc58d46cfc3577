//! Notifications for a user who looked away while an agent was working.

use std::time::Duration;

use super::Sink;
use crate::args::Notification;

/// Minimum duration of work that is worth a notification.
const MIN_DURATION: Duration = Duration::from_secs(30);

/// Notifies through the terminal.
pub(super) struct Notify {
    terminal: Sink,
    how: Notification,
}

impl Notify {
    pub(super) fn new(terminal: Sink, how: Notification) -> Self {
        Self { terminal, how }
    }

    /// Notifies that work ended, if it took long. `message` must be Ostler's own text.
    pub(super) fn ended(&mut self, message: &str, took: Duration) {
        if took < MIN_DURATION {
            return;
        }
        let sequence = match self.how {
            Notification::Bell => "\x07".to_owned(),
            // Terminals that do not support it ignore it.
            Notification::Desktop => format!("\x1b]9;{message}\x07"),
        };
        // Fails only if the terminal is gone.
        let _ = self
            .terminal
            .write_all(sequence.as_bytes())
            .and_then(|()| self.terminal.flush());
    }
}
