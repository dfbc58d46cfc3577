//! Processes that the fake agent leaves behind, its launcher mode, and its signal handling.

use std::io::{Error, Read, Result, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process, setsid};

use crate::dump::write_whole;
use crate::verb::Offspring;

/// First argument: run the rest as a child and swallow signals and the exit code, as npm's shims
/// do.
pub(crate) const LAUNCHER: &str = "--launcher";
/// First argument: start a sleeper and exit, so that the sleeper is orphaned.
pub(crate) const ORPHAN: &str = "--leave-orphan";
/// First argument: leave the session, report, sleep.
pub(crate) const SLEEPER: &str = "--sleep-apart";

const LONG: Duration = Duration::from_secs(1000);

/// Starts a process that outlives the script and writes its pid to the file, if one is given.
pub(crate) fn spawn(kind: Offspring, pid_file: Option<&Path>) -> Result<()> {
    match kind {
        Offspring::Child => sleep_in_session(Stdio::null(), pid_file),
        Offspring::HoldingStdout => sleep_in_session(Stdio::inherit(), pid_file),
        Offspring::Setsid => sleep_detached(Command::new(std::env::current_exe()?), pid_file),
        Offspring::Envless => {
            let mut command = Command::new(std::env::current_exe()?);
            command.env_clear();
            sleep_detached(command, pid_file)
        }
    }
}

/// Makes SIGTERM and SIGINT do nothing from now on.
pub(crate) fn ignore_termination() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        // A handler instead of SIG_IGN: children must not inherit it.
        signal_hook::flag::register(signal.as_raw(), Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Kills this process with a signal.
pub(crate) fn die_by(signal: i32) -> Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or_else(|| Error::other("unknown signal"))?;
    kill_process(getpid(), signal)?;
    // The signal may take a moment, or stop the process instead of killing it. The script must not
    // continue either way.
    std::thread::sleep(LONG);
    Ok(())
}

/// Runs as a launcher: the child gets our streams, signals are ignored, and the exit code is
/// always 0.
pub(crate) fn launch() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let started = ignore_termination().and_then(|()| {
        Command::new(std::env::current_exe()?)
            .arg0(name)
            .args(args.skip(1))
            .status()
    });
    started.map_or(ExitCode::FAILURE, |_| ExitCode::SUCCESS)
}

/// Runs as the middle process of a double fork.
pub(crate) fn leave_orphan(pid_file: &[&str]) -> ExitCode {
    let mut command = match std::env::current_exe() {
        Ok(program) => Command::new(program),
        Err(_) => return ExitCode::FAILURE,
    };
    let started = command
        .arg(SLEEPER)
        .args(pid_file)
        .stdout(Stdio::piped())
        .spawn();
    // The first byte means that it has left the session; from then on the script may rely on it.
    let ready = started
        .ok()
        .and_then(|child| child.stdout)
        .map(|mut out| out.read_exact(&mut [0]));
    if matches!(ready, Some(Ok(()))) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs as the last process of a double fork: orphaned, in its own session.
pub(crate) fn sleep_apart(pid_file: &[&str]) -> ExitCode {
    let ready = setsid().map_err(Error::from).and_then(|_| {
        if let Some(path) = pid_file.first() {
            write_whole(Path::new(path), std::process::id().to_string().as_bytes())?;
        }
        std::io::stdout().write_all(b"\n")
    });
    if ready.is_err() {
        return ExitCode::FAILURE;
    }
    std::thread::sleep(LONG);
    ExitCode::SUCCESS
}

fn sleep_in_session(stdout: Stdio, pid_file: Option<&Path>) -> Result<()> {
    let mut command = Command::new("sleep");
    command
        .arg(LONG.as_secs().to_string())
        .stdin(Stdio::null())
        .stdout(stdout);
    let child = command.stderr(Stdio::null()).spawn()?;
    match pid_file {
        Some(path) => write_whole(path, child.id().to_string().as_bytes()),
        None => Ok(()),
    }
}

fn sleep_detached(mut command: Command, pid_file: Option<&Path>) -> Result<()> {
    command
        .arg(ORPHAN)
        .args(pid_file)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::other("the orphan did not start"))
    }
}
