//! The terminal between the line editor's uses of it: how keys are heard, and what was typed that nobody has read.

#[cfg(unix)]
pub(crate) use unix::{Terminal, line};

/// What was typed.
#[derive(Debug)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// There is nothing more: Ctrl-D, or the terminal is gone.
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

    use super::Typed;

    /// The terminal on stdin, and how it was found. That is how it is left.
    pub(crate) struct Terminal {
        found: Termios,
        is_changed: Cell<bool>,
        /// Whether keys are to be heard without being shown, outside of questions.
        is_quiet: Cell<bool>,
    }

    impl Terminal {
        /// The terminal on stdin, if there is one.
        pub(crate) fn open() -> Option<Self> {
            if !io::stdin().is_terminal() {
                return None;
            }
            let found = tcgetattr(io::stdin()).ok()?;
            Some(Self {
                found,
                is_changed: Cell::new(false),
                is_quiet: Cell::new(false),
            })
        }

        /// From now on what is typed is not shown, but for questions: it would stand in the midst of an answer.
        pub(crate) fn quiet(&self) {
            self.is_quiet.set(true);
            self.settle();
        }

        /// How it is outside of questions.
        pub(crate) fn settle(&self) {
            let mut mode = self.found.clone();
            if self.is_quiet.get() {
                // Nothing is edited either: Ctrl-D and the arrows are for the prompt, which reads them later.
                mode.local_modes
                    .remove(LocalModes::ECHO | LocalModes::ICANON);
                // Ctrl-C leaves alone what was typed before it.
                mode.local_modes.insert(LocalModes::NOFLSH);
            }
            self.set(&mode);
        }

        /// What is typed is shown, and read line by line.
        pub(crate) fn loud(&self) {
            let mut mode = self.found.clone();
            mode.local_modes
                .insert(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            self.set(&mode);
        }

        /// Takes what was typed and not read, half lines included.
        pub(crate) fn drain(&self) -> String {
            let mut mode = self.found.clone();
            mode.local_modes
                .remove(LocalModes::ECHO | LocalModes::ICANON);
            // A read gives what there is and does not wait.
            mode.special_codes[SpecialCodeIndex::VMIN] = 0;
            mode.special_codes[SpecialCodeIndex::VTIME] = 0;
            let mut taken = Vec::new();
            if tcsetattr(io::stdin(), OptionalActions::Now, &mode).is_ok() {
                self.is_changed.set(true);
                let mut buffer = [0; 1024];
                while let Ok(some @ 1..) = rustix::io::read(io::stdin(), &mut buffer[..]) {
                    taken.extend_from_slice(&buffer[..some]);
                }
            }
            self.settle();
            String::from_utf8_lossy(&taken).replace('\r', "\n")
        }

        fn set(&self, mode: &Termios) {
            // A terminal that is gone needs no settings.
            self.is_changed
                .set(tcsetattr(io::stdin(), OptionalActions::Now, mode).is_ok());
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            if self.is_changed.get() {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.found);
            }
        }
    }

    /// How often it is looked whether a line was typed.
    const LOOK: Duration = Duration::from_millis(25);

    /// The next line that is typed. It can be dropped without losing anything.
    ///
    /// It looks again and again: a thread that waits in a read could not be called back when the question is withdrawn.
    pub(crate) async fn line() -> Typed {
        let stdin = io::stdin();
        loop {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&Timespec::default())) {
                Ok(0) | Err(Errno::INTR) => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(_) => return Typed::End,
                Ok(_) => {}
            }
            let mut buffer = [0; 4096];
            return match rustix::io::read(&stdin, &mut buffer[..]) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Ok(0) | Err(_) => Typed::End,
                Ok(some) => Typed::Line(String::from_utf8_lossy(&buffer[..some]).into_owned()),
            };
        }
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::{Terminal, line};

/// Nobody is asked where a question could not be taken back.
#[cfg(not(unix))]
mod elsewhere {
    use super::Typed;

    pub(crate) struct Terminal;

    impl Terminal {
        pub(crate) fn open() -> Option<Self> {
            None
        }

        pub(crate) fn quiet(&self) {}

        pub(crate) fn settle(&self) {}

        pub(crate) fn loud(&self) {}

        pub(crate) fn drain(&self) -> String {
            String::new()
        }
    }

    pub(crate) async fn line() -> Typed {
        Typed::End
    }
}
