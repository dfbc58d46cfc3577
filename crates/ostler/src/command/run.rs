//! One run of a command, until all its processes have ended and protected files are restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_core::clip::HeadTail;
use ostler_tools::command::{ApprovedCommand, Snapshot};
use ostler_tools::confine::Network;
use ostler_tools::{Code, ToolError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::environment::{self, Added};
use super::{CommandOutput, CommandRunner, KilledFor};
use crate::process::{self, Child, Control, ExitStatus, PreparedCommand, Teardown, WorkspaceLock};

/// Bytes stored from the beginning and from the end of each stream.
const HALF: usize = 12 * 1024;

/// How long to wait for all processes to end after a kill. Files are not restored before that, and
/// an overloaded machine may be slow.
const KILL_WAIT: Duration = Duration::from_secs(60);

pub(super) async fn run(
    runner: &CommandRunner,
    approved: ApprovedCommand,
    timeout: Duration,
) -> Result<CommandOutput, ToolError> {
    if runner.broken.load(Ordering::SeqCst) {
        let message = "protected files could not be restored after an earlier command; \
                       no further command is run in this session";
        return Err(ToolError::io(message));
    }
    let lock = WorkspaceLock::acquire(runner.workspace.root(), timeout)
        .await
        .ok_or_else(|| {
            let message = "another session is running a command in this workspace; \
                       try again when it has ended";
            ToolError::new(Code::TimedOut, message)
        })?;
    let (workspace, name) = (runner.workspace.clone(), approved.name.clone());
    // It reads every directory of the workspace, so use a blocking thread.
    let take = move || Snapshot::take_with(workspace.root(), &name, workspace.user_git_config());
    let broke = |_| ToolError::io("the snapshot task panicked; this is a bug in Ostler");
    let snapshot = tokio::task::spawn_blocking(take).await.map_err(broke)??;
    let prepared = prepare(runner, approved)?;
    // A separate task: if this future is dropped, the command is still killed and the files are
    // restored.
    let (keep_running, cancelled) = oneshot::channel::<()>();
    let work = CommandTask {
        snapshot: Arc::new(snapshot),
        timeout,
        broken: runner.broken.clone(),
        lock,
    };
    let busy = runner.busy.clone().read_owned().await;
    let task = async move {
        let output = work.run(prepared, cancelled).await;
        drop(busy);
        output
    };
    let task = tokio::spawn(task.in_current_span());
    let output = task
        .await
        .map_err(|_| ToolError::io("the command task panicked; this is a bug in Ostler"))?;
    drop(keep_running);
    output
}

fn prepare(
    runner: &CommandRunner,
    approved: ApprovedCommand,
) -> Result<PreparedCommand, ToolError> {
    let io =
        |error: std::io::Error| ToolError::io(format!("no directory for temporary files: {error}"));
    let parent = runner.host.temp_dir();
    let temp = process::PrivateDirectory::new(&parent).map_err(io)?;
    let number = uuid::Uuid::new_v4().to_string();
    let added = Added {
        named: &runner.limits.env,
        offline: runner.limits.network == Network::None,
        given: &runner.env,
    };
    let mut env = environment::variables(&runner.host, [&runner.session, &number], &added);
    env.insert(
        "PATH".into(),
        environment::path(&runner.host, runner.workspace.root()),
    );
    environment::set_temp(&mut env, temp.path());
    env.extend(
        approved
            .env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    Ok(PreparedCommand {
        program: approved.program,
        args: approved.args.into_iter().map(Into::into).collect(),
        env,
        dir: Some(runner.workspace.root().to_owned()),
        mark: format!("{}={number}", environment::COMMAND_VARIABLE),
        guard: runner.host.guard().cloned(),
        files: Vec::new(),
        confinement: Some(runner.confinement(temp.path())),
        temp: Some(temp),
        notice: None,
        bridge_dir: None,
        restore: Vec::new(), // done by `CommandTask`, which reports it to the model
    })
}

/// The work after the command has started.
struct CommandTask {
    snapshot: Arc<Snapshot>,
    timeout: Duration,
    /// Set if protected files were not restored: their content must not apply to another command.
    broken: Arc<AtomicBool>,
    lock: WorkspaceLock,
}

impl CommandTask {
    async fn run(
        self,
        prepared: PreparedCommand,
        cancelled: oneshot::Receiver<()>,
    ) -> Result<CommandOutput, ToolError> {
        let mut undo = Undo {
            snapshot: self.snapshot,
            control: None,
            broken: self.broken,
            _lock: self.lock,
        };
        let child = process::spawn(Box::new(prepared)).await;
        let Child {
            stdin,
            stdout,
            stderr,
            control,
            ..
        } = child
            .map_err(|error| ToolError::io(format!("the command could not be started: {error}")))?;
        drop(stdin); // the command has no input
        let control = undo.control.insert(control);
        let (mut out, mut err) = (Stream::new(Some(stdout)), Stream::new(stderr));
        let ending = {
            let work = async {
                // Waiting for the exit also ends processes that hold the pipes open.
                let (status, (), ()) = tokio::join!(control.wait(), out.read(), err.read());
                status
            };
            tokio::select! {
                status = work => WaitEnd::Exited(status),
                () = tokio::time::sleep(self.timeout) => WaitEnd::TimedOut,
                _ = cancelled => WaitEnd::Cancelled,
            }
        };
        let status = match ending {
            WaitEnd::Exited(status) => status,
            WaitEnd::TimedOut | WaitEnd::Cancelled => {
                control.kill();
                let rest = async { tokio::join!(control.wait(), out.read(), err.read()).0 };
                tokio::time::timeout(KILL_WAIT, rest)
                    .await
                    .unwrap_or(ExitStatus {
                        left_over: true,
                        ..ExitStatus::default()
                    })
            }
        };
        let killed_for = killed_for(&ending, status, control.exceeded_processes());
        if status.left_over {
            // What could not be confirmed is never reported as undone; `undo` keeps trying.
            undo.broken.store(true, Ordering::SeqCst);
            drop(tokio::task::spawn_blocking(move || drop(undo)));
            return Err(not_confirmed());
        }
        undo.control = None; // all processes have ended
        let put_back = restore(undo.snapshot.clone(), &undo.broken).await?;
        Ok(CommandOutput {
            exit_code: status.code,
            signal: status.signal,
            truncated: out.truncated() || err.truncated(),
            stdout: out.captured.text(),
            stderr: err.captured.text(),
            killed_for,
            put_back,
            limit_seconds: self.timeout.as_secs(),
        })
    }
}

/// Returns the error of a command whose processes could not be confirmed to have ended.
fn not_confirmed() -> ToolError {
    let message = "the command was killed, but not all of its processes could be confirmed to have \
                   ended; its changes to protected files are not undone, and no further command \
                   is run in this session";
    ToolError::io(message)
}

/// Restores protected files on a blocking thread.
async fn restore(
    snapshot: Arc<Snapshot>,
    broken: &Arc<AtomicBool>,
) -> Result<Vec<String>, ToolError> {
    let flag = broken.clone();
    let work = tokio::task::spawn_blocking(move || {
        let restored = snapshot.restore();
        if !restored.failed.is_empty() {
            flag.store(true, Ordering::SeqCst);
        }
        restored
    });
    let restored = work.await.map_err(|_| {
        broken.store(true, Ordering::SeqCst);
        ToolError::io("protected files were not checked; no further command is run in this session")
    })?;
    if restored.failed.is_empty() {
        return Ok(restored.put_back);
    }
    let message = format!(
        "the command changed protected files, and they could not be restored ({}); \
         no further command is run in this session",
        restored.failed.join("; ")
    );
    Err(ToolError::io(message))
}

/// Why the wait for a command ended.
enum WaitEnd {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

fn killed_for(ending: &WaitEnd, status: ExitStatus, overran: bool) -> Option<KilledFor> {
    const SIGXCPU: i32 = 24;
    const SIGXFSZ: i32 = 25;
    match (ending, status.signal) {
        (WaitEnd::TimedOut, _) => Some(KilledFor::Time),
        _ if overran => Some(KilledFor::Processes),
        _ if status.out_of_memory => Some(KilledFor::Memory),
        (_, Some(SIGXCPU)) => Some(KilledFor::CpuTime),
        (_, Some(SIGXFSZ)) => Some(KilledFor::FileSize),
        _ => None,
    }
}

/// Kills the command and restores files if the task is dropped with its runtime.
struct Undo {
    snapshot: Arc<Snapshot>,
    control: Option<Box<dyn Control>>,
    broken: Arc<AtomicBool>,
    /// Held until everything is undone.
    _lock: WorkspaceLock,
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(mut control) = self.control.take() {
            let ended = control.end();
            drop(control);
            if !self.snapshot.restore().failed.is_empty() || ended == Teardown::Unknown {
                self.broken.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// One of the command's output streams, and the stored part of it.
struct Stream {
    from: Option<Box<dyn AsyncRead + Send + Unpin>>,
    captured: HeadTail,
    length: u64,
}

impl Stream {
    fn new(from: Option<Box<dyn AsyncRead + Send + Unpin>>) -> Self {
        Self {
            from,
            captured: HeadTail::new(HALF),
            length: 0,
        }
    }

    /// Reads until the end. Cancel-safe.
    async fn read(&mut self) {
        let mut buffer = vec![0; 16 * 1024];
        while let Some(from) = &mut self.from {
            match from.read(&mut buffer).await {
                Ok(length @ 1..) => {
                    self.captured.push(&buffer[..length]);
                    self.length += length as u64;
                }
                _ => self.from = None,
            }
        }
    }

    fn truncated(&self) -> bool {
        self.length > 2 * HALF as u64
    }
}
