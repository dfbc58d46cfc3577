//! A program on a terminal of its own: keys go in, and what a person would see comes out.

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

use crate::processes::wait_until;

/// High enough that nothing a test shows scrolls away.
const ROWS: NonZeroU16 = NonZeroU16::new(100).expect("not zero");
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).expect("not zero");

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal.
pub struct Pty {
    keys: File,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Pty {
    /// Starts a command on a new terminal, which becomes its controlling one: Ctrl-C is a signal there.
    ///
    /// # Panics
    /// When there is no terminal to be had, or no `setsid`.
    #[must_use]
    pub fn start(command: &Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("open a terminal");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("unlock the terminal");
        let name = ptsname(&terminal, Vec::new()).expect("name the terminal");
        let far = || -> OwnedFd {
            rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("open it")
        };
        let size = Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("set its size");
        let mut start = Command::new("/usr/bin/setsid");
        start.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            start.env(name, value);
        }
        if let Some(dir) = command.get_current_dir() {
            start.current_dir(dir);
        }
        start.env("TERM", "xterm-256color").stdin(far()).stdout(Stdio::from(far())).stderr(Stdio::from(far()));
        let child = start.spawn().expect("start setsid");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let keys = File::from(terminal);
        let (mut seen, into) = (keys.try_clone().expect("read from it too"), screen.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the last process on it is gone, a read fails.
            while let Ok(some @ 1..) = seen.read(&mut buffer) {
                into.lock().expect("nobody panics with it").process(&buffer[..some]);
            }
        });
        Self { keys, child, screen }
    }

    /// Types.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("type");
    }

    fn parser(&self) -> MutexGuard<'_, vt100::Parser> {
        self.screen.lock().expect("nobody panics with it")
    }

    /// What is on the screen, without the spaces at the ends of its lines.
    #[must_use]
    pub fn seen(&self) -> String {
        let text = self.parser().screen().contents();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Waits until the screen is as it should be.
    ///
    /// # Panics
    /// When it does not become so; the message shows it.
    pub fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        assert!(wait_until(PATIENCE, || is_so(&self.seen())), "{what} was not seen:\n{}", self.seen());
    }

    /// Waits until a text has been on the screen so many times.
    ///
    /// # Panics
    /// When it does not come; the message shows the screen.
    pub fn until_seen(&self, text: &str, times: usize) {
        self.until(text, |seen| seen.matches(text).count() >= times);
    }

    /// Whether the terminal shows what is typed, as it did at first.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[must_use]
    pub fn echoes(&self) -> bool {
        tcgetattr(&self.keys).expect("ask the terminal").local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// The number of the program's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program, and gives its exit code.
    ///
    /// # Panics
    /// When it does not end; the message shows the screen.
    pub fn end(&mut self) -> Option<i32> {
        let child = &mut self.child;
        let ended = wait_until(PATIENCE, || child.try_wait().expect("wait for it").is_some());
        assert!(ended, "still there:\n{}", self.seen());
        self.child.wait().expect("it has ended").code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
