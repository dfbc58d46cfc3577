//! Child processes: the only module that spawns them, and that makes sure they end.

#![expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that spawns processes"
)]

mod command;
#[cfg(target_os = "linux")]
mod confined;
mod direct;
#[cfg(target_os = "linux")]
pub mod guard;
#[cfg(target_os = "linux")]
mod guard_server;
#[cfg(target_os = "linux")]
mod guarded;
#[cfg(target_os = "linux")]
mod marked;
mod once;
#[cfg(target_os = "linux")]
mod recent_pids;
mod restoring;
mod sandboxed;
mod spawn_error;
mod spawner;
#[cfg(target_os = "linux")]
mod stdin_pipe;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod vfork;
mod workspace_lock;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ostler_core::event::{Notice, NoticeCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::{debug, warn};

pub(crate) use command::PreparedCommand;
#[cfg(target_os = "linux")]
pub(crate) use confined::probe as probe_layers;
pub(crate) use once::{RunOutput, run_once, run_with_input};
pub(crate) use sandboxed::{SandboxRequest, confine as confine_agent};
pub(crate) use spawn_error::{Interrupted, SpawnError};
pub(crate) use workspace_lock::WorkspaceLock;

/// A running child: its streams, and a way to end it.
pub(crate) struct Child {
    pub(crate) stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) pid: Option<u32>,
    /// A notice about how it was started.
    pub(crate) notice: Option<Notice>,
    pub(crate) control: Box<dyn Control>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExitStatus {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether processes that it started may still be running.
    pub(crate) left_over: bool,
    /// Whether the kernel killed a process because together they exceeded the memory limit.
    pub(crate) out_of_memory: bool,
}

/// Whether all processes of a child are known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Teardown {
    /// All of them have ended.
    Confirmed,
    /// They were killed, but their end could not be confirmed.
    Unknown,
}

/// Maximum number of polls, 10 ms apart, for the end of all processes.
const END_POLLS: u32 = 1000;

/// Controls a child and everything it started.
pub(crate) trait Control: Send {
    /// Sends SIGTERM to the child's process group.
    fn terminate(&mut self);

    /// Kills everything that belongs to the child.
    fn kill(&mut self);

    /// Takes the notices about the child, once it has ended.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Returns true if it was killed because it exceeded the process limit of its confinement.
    fn exceeded_processes(&self) -> bool {
        false
    }

    /// Suspends everything that belongs to the child.
    fn freeze(&mut self) {}

    /// Resumes what [`Control::freeze`] suspended.
    fn thaw(&mut self) {}

    /// Kills as much as possible when the session ends before the child did: the last resort.
    fn abandon(&mut self) {
        self.kill();
    }

    /// Kills everything and blocks until it has ended, for when the runtime is shutting down.
    fn end(&mut self) -> Teardown {
        self.abandon();
        Teardown::Unknown
    }

    /// Polls whether there is something for [`Control::wait`] to do, which allocates: a session
    /// waits for its child from one line to the next.
    fn poll_exit(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Waits until the child has exited and the processes it left behind have been killed. Cancel
    /// safe.
    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>>;
}

/// Records a step to stop a child.
fn trace_stop(pid: Option<u32>, step: &'static str) {
    debug!(pid, step, "stopping process");
}

/// Records how a child ended.
fn trace_exit(pid: Option<u32>, status: &ExitStatus) {
    let ExitStatus { code, signal, .. } = *status;
    let left_over = status.left_over.then_some(true);
    let out_of_memory = status.out_of_memory.then_some(true);
    debug!(
        pid,
        code, signal, left_over, out_of_memory, "process exited"
    );
}

/// Returns a warning if `/proc`, which is used to find processes that left their group, is missing.
fn missing_proc_notice() -> Option<Notice> {
    let is_missing = cfg!(target_os = "linux") && !std::path::Path::new("/proc/self/stat").exists();
    let message = "/proc is not available: commands that the agent moves out of its process group \
                   cannot be found and stopped.";
    is_missing.then(|| {
        Notice::new(
            ostler_core::event::Level::Warning,
            NoticeCode::NoProc,
            message,
        )
    })
}

/// Spawns a prepared command, under a guard if there is one. Protected files in its workspaces are
/// restored once it has ended.
pub(crate) async fn spawn(prepared: Box<PreparedCommand>) -> Result<Child, SpawnError> {
    let (program, args) = (prepared.program.clone(), prepared.args.len());
    let confined = prepared.confinement.is_some();
    let program = program.display();
    let spawned = spawn_restored(prepared).await;
    match &spawned {
        // Arguments and variables may be secret, so they are only counted.
        Ok(child) => {
            let confined = confined.then_some(true);
            debug!(pid = child.pid, %program, args, confined, "process spawned");
        }
        Err(error) => warn!(%program, %error, "process not spawned"),
    }
    spawned
}

async fn spawn_restored(mut prepared: Box<PreparedCommand>) -> Result<Child, SpawnError> {
    let workspaces = std::mem::take(&mut prepared.restore);
    if workspaces.is_empty() {
        return spawn_unrestored(prepared).await;
    }
    let program = prepared.program.clone();
    let snapshots = restoring::take(workspaces).await;
    let snapshots = snapshots.map_err(|source| SpawnError::Other { program, source })?;
    let child = spawn_unrestored(prepared).await?;
    Ok(Child {
        control: Box::new(restoring::Restoring::new(child.control, snapshots)),
        ..child
    })
}

async fn spawn_unrestored(prepared: Box<PreparedCommand>) -> Result<Child, SpawnError> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = prepared.guard.clone() {
        return guarded::spawn(prepared, &guard).await;
    }
    direct::spawn(*prepared)
}

/// Returns the sandbox layers a child could enter, which on this system is none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn probe_layers(
    _: &mut ostler_tools::confine::Confinement,
) -> ostler_tools::confine::Layers {
    ostler_tools::confine::Layers::default()
}

/// Starts a program that outlives this process.
#[cfg(unix)]
pub(crate) fn spawn_detached(
    program: &std::path::Path,
    args: &[std::ffi::OsString],
    output: std::fs::File,
) -> std::io::Result<Box<dyn process_wrap::tokio::ChildWrapper>> {
    use std::process::Stdio;
    let mut command = tokio::process::Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    let mut wrap = process_wrap::tokio::CommandWrap::from(command);
    wrap.wrap(process_wrap::tokio::ProcessSession);
    wrap.spawn()
}

/// Runs a command of the user with this input, without its output.
#[cfg(unix)]
pub(crate) async fn run_unattended(
    program: &std::path::Path,
    args: &[String],
    input: Vec<u8>,
    timeout: std::time::Duration,
) -> std::io::Result<()> {
    use std::process::Stdio;

    use tokio::io::AsyncWriteExt;
    let mut command = tokio::process::Command::new(program);
    command.args(args).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut wrap = process_wrap::tokio::CommandWrap::from(command);
    wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
    wrap.wrap(process_wrap::tokio::KillOnDrop);
    let mut child = wrap.spawn()?;
    let ended = async {
        if let Some(mut stdin) = child.stdin().take() {
            let _ = stdin.write_all(&input).await; // it need not read its input
        }
        child.wait().await
    };
    match tokio::time::timeout(timeout, ended).await {
        Ok(status) if status.as_ref().is_ok_and(|status| !status.success()) => {
            Err(std::io::Error::other("it failed"))
        }
        Ok(status) => status.map(drop),
        Err(_) => {
            child.start_kill()?;
            Err(std::io::ErrorKind::TimedOut.into())
        }
    }
}

/// Kills the processes that a session of another, dead process left behind, and returns how many
/// there were. They are identified by the session's mark and their start time.
#[cfg(target_os = "linux")]
pub(crate) fn kill_leftovers(session: &str) -> usize {
    let mark = format!("{}={session}", crate::host::SESSION_VARIABLE);
    let mut killed = std::collections::HashSet::new();
    // A process may fork between the search and its end.
    for _ in 0..10 {
        let found = marked::find_by_mark(&mark);
        if found.is_empty() {
            break;
        }
        sweep::signal(&found, rustix::process::Signal::KILL);
        killed.extend(found); // one that takes time to exit is found again
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    killed.len()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_leftovers(_: &str) -> usize {
    0
}

/// Returns true if any process of a session is running, apart from this one.
#[cfg(target_os = "linux")]
pub(crate) fn is_anything_left(session: &str) -> bool {
    !marked::find_by_mark(&format!("{}={session}", crate::host::SESSION_VARIABLE)).is_empty()
}

/// A private temporary directory that is removed on drop, whatever its permissions are then.
#[derive(Debug)]
pub(crate) struct PrivateDirectory(tempfile::TempDir);

impl PrivateDirectory {
    /// Creates one below `parent` that only this user can enter.
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
        // `TempDir` cannot remove directories that a command made inaccessible to their owner.
        let _ = ostler_tools::command::remove_tree(self.0.path());
    }
}
