//! The one place that starts child processes, and makes sure that they end.

#![expect(clippy::disallowed_methods, reason = "this is the door to child processes")]

mod command;
#[cfg(target_os = "linux")]
mod confined;
mod direct;
#[cfg(target_os = "linux")]
pub mod guard;
#[cfg(target_os = "linux")]
mod guarded;
mod once;
mod sandboxed;
mod spawn_error;
#[cfg(target_os = "linux")]
mod sweep;

use std::future::Future;
use std::pin::Pin;

use ostler_core::event::Notice;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use command::Prepared;
pub(crate) use once::{Finished, run_once};
pub(crate) use spawn_error::{Interrupted, SpawnError};

/// A running agent, seen from its session: three streams and a way to end it.
pub(crate) struct Child {
    pub(crate) stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) pid: Option<u32>,
    /// What the caller should know about the way it was started.
    pub(crate) remark: Option<Notice>,
    pub(crate) control: Box<dyn Control>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExitStatus {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// Ends a child and all that it started.
pub(crate) trait Control: Send {
    /// Tells the agent's process group to end.
    fn terminate(&mut self);

    /// Kills everything that belongs to the agent.
    fn kill(&mut self);

    /// Whether it was killed because there were more processes than its confinement allows.
    fn overran(&self) -> bool {
        false
    }

    /// Stops everything that belongs to the agent where it is.
    fn freeze(&mut self) {}

    /// Lets it go on.
    fn thaw(&mut self) {}

    /// The session ends although the agent did not: the last resort.
    fn abandon(&mut self) {
        self.kill();
    }

    /// Ends all of it before it returns, blocking for a moment: for a runtime that is going away.
    fn end(&mut self) {
        self.abandon();
    }

    /// Resolves when the agent's process is gone and what it left behind was ended too. Can be dropped and called again.
    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>>;
}

/// Processes that leave their group are found through `/proc`; where there is none, the caller must know.
fn remark_on_system() -> Option<Notice> {
    let blind = cfg!(target_os = "linux") && !std::path::Path::new("/proc/self/stat").exists();
    let message =
        "/proc is not there: commands that the agent moves out of its process group cannot be found and ended.";
    blind.then(|| Notice::new(ostler_core::event::Level::Warning, "no_proc", message))
}

/// Starts what was prepared: under a guard where there is one, else directly.
pub(crate) async fn spawn(prepared: Prepared) -> Result<Child, SpawnError> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = prepared.guard.clone() {
        return guarded::spawn(prepared, &guard).await;
    }
    direct::spawn(prepared)
}

/// A new directory below `parent` that only this user can enter.
pub(crate) fn private_directory(parent: &std::path::Path) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ostler-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(parent)
}
