//! Terminal modes and unread input while the line editor is not active.

#[cfg(unix)]
pub(crate) use unix::{Terminal, line};

/// Input from the terminal.
#[derive(Debug)]
pub(crate) enum TypedLine {
    /// A line.
    Line(String),
    /// End of input: Ctrl-D, or the terminal is gone.
    End,
}

#[cfg(unix)]
mod unix {
    use std::cell::Cell;
    use std::io::{self, IsTerminal};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec};
    use rustix::io::Errno;
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };

    use super::TypedLine;

    /// The terminal on stdin. Its original mode is restored on drop.
    pub(crate) struct Terminal {
        original: Termios,
        is_changed: Cell<bool>,
        /// Whether echo is off outside questions.
        is_hidden: Cell<bool>,
    }

    impl Terminal {
        /// Opens the terminal on stdin, if it is one.
        pub(crate) fn open() -> Option<Self> {
            if !io::stdin().is_terminal() {
                return None;
            }
            let original = tcgetattr(io::stdin()).ok()?;
            Some(Self {
                original,
                is_changed: Cell::new(false),
                is_hidden: Cell::new(false),
            })
        }

        /// Turns echo off outside questions, so that typed keys do not mix with the agent's output.
        pub(crate) fn hide_input(&self) {
            self.is_hidden.set(true);
            self.restore_mode();
        }

        /// Sets the mode used outside questions.
        pub(crate) fn restore_mode(&self) {
            let mut mode = self.original.clone();
            if self.is_hidden.get() {
                // No line editing either: the prompt reads Ctrl-D and arrow keys later.
                mode.local_modes
                    .remove(LocalModes::ECHO | LocalModes::ICANON);
                // Ctrl-C does not discard earlier input.
                mode.local_modes.insert(LocalModes::NOFLSH);
            }
            self.set(&mode);
        }

        /// Turns on echo and line mode, for a question.
        pub(crate) fn show_input(&self) {
            let mut mode = self.original.clone();
            mode.local_modes
                .insert(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            self.set(&mode);
        }

        /// Takes all unread input, including incomplete lines.
        pub(crate) fn drain(&self) -> String {
            let mut mode = self.original.clone();
            mode.local_modes
                .remove(LocalModes::ECHO | LocalModes::ICANON);
            // Reads return what is available without blocking.
            mode.special_codes[SpecialCodeIndex::VMIN] = 0;
            mode.special_codes[SpecialCodeIndex::VTIME] = 0;
            let mut input = Vec::new();
            if tcsetattr(io::stdin(), OptionalActions::Now, &mode).is_ok() {
                self.is_changed.set(true);
                let mut buffer = [0; 1024];
                while let Ok(some @ 1..) = rustix::io::read(io::stdin(), &mut buffer[..]) {
                    input.extend_from_slice(&buffer[..some]);
                }
            }
            self.restore_mode();
            String::from_utf8_lossy(&input).replace('\r', "\n")
        }

        fn set(&self, mode: &Termios) {
            // Fails only if the terminal is gone.
            self.is_changed
                .set(tcsetattr(io::stdin(), OptionalActions::Now, mode).is_ok());
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            if self.is_changed.get() {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.original);
            }
        }
    }

    /// Polling interval for typed lines.
    const POLL_INTERVAL: Duration = Duration::from_millis(25);

    /// Waits for the next typed line. Cancel safe.
    ///
    /// It polls, because a thread blocked in a read could not be cancelled when a question is
    /// withdrawn.
    pub(crate) async fn line() -> TypedLine {
        let stdin = io::stdin();
        loop {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&Timespec::default())) {
                Ok(0) | Err(Errno::INTR) => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                Err(_) => return TypedLine::End,
                Ok(_) => {}
            }
            let mut buffer = [0; 4096];
            return match rustix::io::read(&stdin, &mut buffer[..]) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Ok(0) | Err(_) => TypedLine::End,
                Ok(some) => TypedLine::Line(String::from_utf8_lossy(&buffer[..some]).into_owned()),
            };
        }
    }
}

#[cfg(not(unix))]
pub(crate) use fallback::{Terminal, line};

/// No questions are asked on platforms where they cannot be withdrawn.
#[cfg(not(unix))]
mod fallback {
    use super::TypedLine;

    pub(crate) struct Terminal;

    impl Terminal {
        pub(crate) fn open() -> Option<Self> {
            None
        }

        pub(crate) fn hide_input(&self) {}

        pub(crate) fn restore_mode(&self) {}

        pub(crate) fn show_input(&self) {}

        pub(crate) fn drain(&self) -> String {
            String::new()
        }
    }

    pub(crate) async fn line() -> TypedLine {
        TypedLine::End
    }
}
