//! Runs a program on the terminal at stdin and remains its session leader:
//! `terminal-leader program args…`.
//!
//! When a session leader exits, the kernel hangs up the terminal and drops unread output. So this
//! leader reports the program's pid and exit code in the terminal output, after everything else,
//! and waits to be killed.

#![expect(
    clippy::disallowed_methods,
    reason = "a test tool that starts a program"
)]

use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ostler_testkit::pty::{END_OF_REPORT, ENDED, STARTED};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

fn report(kind: &str, value: &str) -> io::Result<()> {
    let mut terminal = io::stdout().lock();
    write!(terminal, "{kind}{value}{END_OF_REPORT}")?;
    terminal.flush()
}

fn run() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(io::stdin())?;
    // Unlike an ignored signal, a handler is not inherited by the program.
    for signal in [SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut args = std::env::args_os().skip(1);
    let program = args
        .next()
        .ok_or_else(|| io::Error::other("usage: terminal-leader PROGRAM [ARGS]"))?;
    let mut child = Command::new(program).args(args).spawn()?;
    report(STARTED, &child.id().to_string())?;
    let code = child
        .wait()?
        .code()
        .map_or_else(String::new, |code| code.to_string());
    report(ENDED, &code)?;
    loop {
        std::thread::park();
    }
}

fn main() -> ExitCode {
    if let Err(error) = run() {
        let _ = writeln!(io::stderr(), "terminal-leader: {error}");
    }
    ExitCode::FAILURE
}
