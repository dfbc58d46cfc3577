//! Runs a program on a pseudo-terminal: keys go in, and the rendered screen comes out.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::fake;
use crate::processes::wait_until;

/// Tall enough that nothing a test prints scrolls away.
const ROWS: NonZeroU16 = NonZeroU16::new(100).expect("not zero");
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).expect("not zero");

/// Timeout for anything a test waits for.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts the report of a pid in the output of `terminal-leader`.
pub const STARTED: &str = "\u{1b}]terminal-leader;started;";
/// Starts the report of an exit code, which is empty after a signal.
pub const ENDED: &str = "\u{1b}]terminal-leader;ended;";
/// Ends a report.
pub const END_OF_REPORT: char = '\u{7}';

/// Terminal output so far.
struct TerminalOutput {
    screen: vt100::Parser,
    /// Every byte that the program wrote.
    bytes: Vec<u8>,
    /// Output that may be the start of a report.
    pending: Vec<u8>,
    pid: Option<u32>,
    /// Exit code; the inner `None` means that a signal ended the program.
    ended: Option<Option<i32>>,
}

impl TerminalOutput {
    fn read(&mut self, output: &[u8]) {
        self.pending.extend_from_slice(output);
        for (prefix, is_end) in [(STARTED, false), (ENDED, true)] {
            let Some(at) = find(&self.pending, prefix.as_bytes()) else {
                continue;
            };
            let value = at + prefix.len();
            let Some(length) = self.pending[value..]
                .iter()
                .position(|byte| *byte == END_OF_REPORT as u8)
            else {
                continue;
            };
            let text = String::from_utf8_lossy(&self.pending[value..value + length]);
            if is_end {
                self.ended = Some(text.parse().ok());
            } else {
                self.pid = text.parse().ok();
            }
            self.pending.drain(at..=value + length);
        }
        // An incomplete report stays until the rest of it is read.
        let escape = self
            .pending
            .iter()
            .rposition(|byte| *byte == 0x1b)
            .filter(|at| {
                let rest = &self.pending[*at..];
                let begins = |prefix: &str| {
                    rest.starts_with(prefix.as_bytes()) || prefix.as_bytes().starts_with(rest)
                };
                begins(STARTED) || begins(ENDED)
            });
        let plain = escape.unwrap_or(self.pending.len());
        self.screen.process(&self.pending[..plain]);
        self.bytes.extend(self.pending.drain(..plain));
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A program on a pseudo-terminal.
pub struct Pty {
    keys: File,
    leader: Child,
    output: Arc<Mutex<TerminalOutput>>,
}

impl Pty {
    /// Starts a command on a new terminal, which becomes its controlling terminal: Ctrl-C sends a
    /// signal.
    ///
    /// # Panics
    /// If no terminal can be opened, or `terminal-leader` has not been built.
    #[must_use]
    pub fn start(command: &Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("open a terminal");
        grantpt(&terminal)
            .and_then(|()| unlockpt(&terminal))
            .expect("unlock the terminal");
        let name = ptsname(&terminal, Vec::new()).expect("name the terminal");
        let open_tty = || -> OwnedFd {
            rustix::fs::open(
                &*name,
                OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .expect("open it")
        };
        let size = Winsize {
            ws_row: ROWS.get(),
            ws_col: COLUMNS.get(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).expect("set its size");
        let mut start = Command::new(fake::built("terminal-leader"));
        start
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear();
        for (name, value) in command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            start.env(name, value);
        }
        if let Some(dir) = command.get_current_dir() {
            start.current_dir(dir);
        }
        start
            .env("TERM", "xterm-256color")
            .stdin(open_tty())
            .stdout(Stdio::from(open_tty()))
            .stderr(Stdio::from(open_tty()));
        let leader = start.spawn().expect("start terminal-leader");
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        let output = TerminalOutput {
            screen,
            bytes: Vec::new(),
            pending: Vec::new(),
            pid: None,
            ended: None,
        };
        let output = Arc::new(Mutex::new(output));
        let keys = File::from(terminal);
        let (mut reader, shared) = (
            keys.try_clone().expect("clone the terminal"),
            output.clone(),
        );
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once the last process on the terminal has exited.
            while let Ok(some @ 1..) = reader.read(&mut buffer) {
                shared
                    .lock()
                    .expect("the lock is not poisoned")
                    .read(&buffer[..some]);
            }
        });
        Self {
            keys,
            leader,
            output,
        }
    }

    /// Types keys.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("type");
    }

    fn output(&self) -> MutexGuard<'_, TerminalOutput> {
        self.output.lock().expect("the lock is not poisoned")
    }

    /// Returns the screen's text, without trailing spaces.
    #[must_use]
    pub fn seen(&self) -> String {
        let text = self.output().screen.screen().contents();
        text.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
            .trim_end()
            .to_owned()
    }

    /// Waits for the program to exit and returns everything it wrote, as raw bytes.
    ///
    /// # Panics
    /// If it does not exit.
    pub fn written(&mut self) -> Vec<u8> {
        self.end();
        self.output().bytes.clone()
    }

    /// Waits until the screen satisfies a condition.
    ///
    /// # Panics
    /// If it does not; the message shows the screen.
    pub fn until(&self, expected: &str, condition: impl Fn(&str) -> bool) {
        assert!(
            wait_until(TIMEOUT, || condition(&self.seen())),
            "{expected} did not appear:\n{}",
            self.seen()
        );
    }

    /// Waits until a text is on the screen `times` times.
    ///
    /// # Panics
    /// If it does not appear; the message shows the screen.
    pub fn until_seen(&self, text: &str, times: usize) {
        self.until(text, |seen| seen.matches(text).count() >= times);
    }

    /// Returns true if the terminal echoes what is typed, as it does by default.
    ///
    /// # Panics
    /// If the terminal is closed.
    #[must_use]
    pub fn echoes(&self) -> bool {
        tcgetattr(&self.keys)
            .expect("read the terminal's mode")
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Returns the program's pid.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn id(&self) -> u32 {
        assert!(
            wait_until(TIMEOUT, || self.output().pid.is_some()),
            "not started:\n{}",
            self.seen()
        );
        self.output().pid.expect("the program has started")
    }

    /// Waits for the program to exit and returns its exit code.
    ///
    /// # Panics
    /// If it does not exit; the message shows the screen.
    pub fn end(&mut self) -> Option<i32> {
        assert!(
            wait_until(TIMEOUT, || self.output().ended.is_some()),
            "still there:\n{}",
            self.seen()
        );
        self.output().ended.flatten()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // A failed test leaves nothing behind: without its leader the terminal hangs up.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, END_OF_REPORT, ENDED, ROWS, STARTED, TerminalOutput};

    #[test]
    fn reports_are_taken_out_wherever_reads_split_them() {
        let stream =
            format!("a{STARTED}42{END_OF_REPORT}b\u{1b}[1mc\u{1b}]0;t\u{7}{ENDED}7{END_OF_REPORT}");
        for at in 0..stream.len() {
            let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
            let mut output = TerminalOutput {
                screen,
                bytes: Vec::new(),
                pending: Vec::new(),
                pid: None,
                ended: None,
            };
            output.read(&stream.as_bytes()[..at]);
            assert!(output.ended.is_none());
            output.read(&stream.as_bytes()[at..]);
            assert_eq!(
                (output.pid, output.ended),
                (Some(42), Some(Some(7))),
                "at {at}"
            );
            assert_eq!(output.bytes, b"ab\x1b[1mc\x1b]0;t\x07", "at {at}");
        }
    }
}
