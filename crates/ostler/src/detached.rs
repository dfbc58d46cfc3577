//! Processes that outlive the one that started them: a daemon, and what a killed one left behind.

#[cfg(unix)]
use std::ffi::OsString;
#[cfg(unix)]
use std::path::Path;

use crate::process;

/// Starts a program that outlives this process: in its own process session, with this environment,
/// and with its output in a file. Must be called within a tokio runtime.
///
/// # Errors
/// If it cannot be started.
#[cfg(unix)]
pub fn spawn(
    program: &Path,
    args: &[OsString],
    output: std::fs::File,
) -> std::io::Result<DetachedChild> {
    process::spawn_detached(program, args, output).map(DetachedChild)
}

/// A program that was started with [`spawn`]. It continues when this value is dropped.
#[cfg(unix)]
#[derive(Debug)]
pub struct DetachedChild(Box<dyn process_wrap::tokio::ChildWrapper>);

#[cfg(unix)]
impl DetachedChild {
    /// Waits until the program exits. Cancel safe.
    ///
    /// # Errors
    /// If its state cannot be read.
    pub async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.0.wait().await
    }
}

/// Runs a command of the user with this input, without its output. It has its own process group,
/// and is killed after `timeout` or if the future is dropped.
///
/// # Errors
/// If it cannot be started, does not end in time, or fails.
#[cfg(unix)]
pub async fn run(
    program: &Path,
    args: &[String],
    input: Vec<u8>,
    timeout: std::time::Duration,
) -> std::io::Result<()> {
    process::run_unattended(program, args, input, timeout).await
}

/// Kills the processes that a session left behind when the process that ran it was killed, and
/// returns how many there were. Blocks briefly. Linux only; elsewhere, it finds none.
///
/// Every process is identified by the session's mark in its environment and by its start time, so
/// no other process is ever killed.
///
/// ```
/// assert_eq!(ostler::detached::kill_leftovers("00000000-0000-4000-8000-000000000000"), 0);
/// ```
#[must_use]
pub fn kill_leftovers(session: &str) -> usize {
    process::kill_leftovers(session)
}
