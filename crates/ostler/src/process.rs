//! The one place that starts child processes, and makes sure that they end.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the door to child processes"
)]

mod command;
#[cfg(target_os = "linux")]
mod confined;
mod direct;
#[cfg(target_os = "linux")]
pub mod guard;
#[cfg(target_os = "linux")]
mod guarded;
mod once;
mod restoring;
mod sandboxed;
mod spawn_error;
#[cfg(target_os = "linux")]
mod sweep;
mod workspace_lock;

use std::future::Future;
use std::pin::Pin;

use ostler_core::event::Notice;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use command::PreparedCommand;
#[cfg(target_os = "linux")]
pub(crate) use confined::probe as probe_layers;
pub(crate) use once::{Finished, run_once, run_with_input};
pub(crate) use sandboxed::{Wanted, confine as confine_agent};
pub(crate) use spawn_error::{Interrupted, SpawnError};
pub(crate) use workspace_lock::WorkspaceLock;

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
    /// Whether something that it started may still run.
    pub(crate) left_over: bool,
    /// Whether the kernel killed a process for the memory that all of them had together.
    pub(crate) out_of_memory: bool,
}

/// Whether everything that belonged to a child is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    /// It is.
    Confirmed,
    /// It was killed, and could not be seen to end.
    Unknown,
}

/// How often, at intervals of 10 ms, the end of everything is looked for when a runtime goes away.
const LAST_LOOKS: u32 = 1000;

/// Ends a child and all that it started.
pub(crate) trait Control: Send {
    /// Tells the agent's process group to end.
    fn terminate(&mut self);

    /// Kills everything that belongs to the agent.
    fn kill(&mut self);

    /// What the caller should know once it has ended. Each is told once.
    fn remarks(&mut self) -> Vec<Notice> {
        Vec::new()
    }

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

    /// Ends all of it before it returns, blocking: for a runtime that is going away.
    fn end(&mut self) -> Ended {
        self.abandon();
        Ended::Unknown
    }

    /// Resolves when the agent's process is gone and what it left behind was ended too. Can be dropped and called again.
    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>>;
}

/// Processes that leave their group are found through `/proc`; where there is none, the caller must know.
fn remark_on_system() -> Option<Notice> {
    let blind = cfg!(target_os = "linux") && !std::path::Path::new("/proc/self/stat").exists();
    let message = "/proc is not there: commands that the agent moves out of its process group cannot be found and ended.";
    blind.then(|| Notice::new(ostler_core::event::Level::Warning, "no_proc", message))
}

/// Starts what was prepared: under a guard where there is one, otherwise directly. What is protected in its workspaces is put back
/// once it has ended.
pub(crate) async fn spawn(mut prepared: PreparedCommand) -> Result<Child, SpawnError> {
    let workspaces = std::mem::take(&mut prepared.restore);
    if workspaces.is_empty() {
        return spawn_plain(prepared).await;
    }
    let program = prepared.program.clone();
    let snapshots = restoring::take(workspaces).await;
    let snapshots = snapshots.map_err(|source| SpawnError::Other { program, source })?;
    let child = spawn_plain(prepared).await?;
    Ok(Child {
        control: Box::new(restoring::Restoring::new(child.control, snapshots)),
        ..child
    })
}

async fn spawn_plain(prepared: PreparedCommand) -> Result<Child, SpawnError> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = prepared.guard.clone() {
        return guarded::spawn(prepared, &guard).await;
    }
    direct::spawn(prepared)
}

/// Which layers a child would really enter here: none on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn probe_layers(
    _: &mut ostler_tools::confine::Confinement,
) -> ostler_tools::confine::Layers {
    ostler_tools::confine::Layers::default()
}

/// Whether any process of a session still runs, apart from this one.
#[cfg(target_os = "linux")]
pub(crate) fn is_anything_left(session: &str) -> bool {
    !sweep::marked(&format!("{}={session}", crate::host::SESSION_VARIABLE)).is_empty()
}

/// A directory for temporary files that goes when this does, whatever was done to it.
#[derive(Debug)]
pub(crate) struct PrivateDirectory(tempfile::TempDir);

impl PrivateDirectory {
    /// A new one below `parent`, which only this user can enter.
    pub(crate) fn new(parent: &std::path::Path) -> std::io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("ostler-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.tempdir_in(parent).map(Self)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // A directory that a command has closed to its owner would stay otherwise.
        let _ = ostler_tools::command::remove_tree(self.0.path());
    }
}
