//! One run of a command, from its start until nothing of it is left and protected files are as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_core::clip::HeadTail;
use ostler_tools::command::{ApprovedCommand, Snapshot};
use ostler_tools::confine::Network;
use ostler_tools::{Code, ToolError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;

use super::environment::{self, Added};
use super::{CommandOutput, CommandRunner, KilledFor};
use crate::process::{self, Child, Control, ExitStatus, PreparedCommand, Teardown, WorkspaceLock};

/// How much of the beginning and of the end of each stream is kept.
const HALF: usize = 12 * 1024;

/// How long the end of everything is awaited after it was killed. A starved machine takes its time; files are not put back before.
const LAST: Duration = Duration::from_secs(60);

pub(super) async fn run(
    runner: &CommandRunner,
    approved: ApprovedCommand,
    timeout: Duration,
) -> Result<CommandOutput, ToolError> {
    if runner.broken.load(Ordering::SeqCst) {
        let message = "protected files could not be put back after an earlier command; no further command is run in this session";
        return Err(ToolError::new(Code::Io, message));
    }
    let lock = WorkspaceLock::acquire(runner.workspace.root(), timeout).await.ok_or_else(|| {
        let message = "another session is running a command in this workspace; try again when it has ended";
        ToolError::new(Code::TimedOut, message)
    })?;
    let (workspace, name) = (runner.workspace.clone(), approved.name.clone());
    // It looks at every directory of the workspace: not on a thread that others wait for.
    let take = move || Snapshot::take_with(workspace.root(), &name, workspace.user_git_config());
    let broke = |_| {
        ToolError::new(
            Code::Io,
            "the snapshot's task broke down; this is a fault in Ostler",
        )
    };
    let snapshot = tokio::task::spawn_blocking(take).await.map_err(broke)??;
    let prepared = prepare(runner, approved)?;
    // A task of its own: whoever drops this future still has the command ended and the files put back.
    let (caller_is_there, call_off) = oneshot::channel::<()>();
    let work = Work {
        snapshot: Arc::new(snapshot),
        timeout,
        broken: runner.broken.clone(),
        lock,
    };
    let busy = runner.busy.clone().read_owned().await;
    let task = tokio::spawn(async move {
        let output = work.run(prepared, call_off).await;
        drop(busy);
        output
    });
    let output = task.await.map_err(|_| {
        ToolError::new(
            Code::Io,
            "the command's task broke down; this is a fault in Ostler",
        )
    })?;
    drop(caller_is_there);
    output
}

fn prepare(
    runner: &CommandRunner,
    approved: ApprovedCommand,
) -> Result<PreparedCommand, ToolError> {
    let io = |error: std::io::Error| {
        ToolError::new(Code::Io, format!("no room for temporary files: {error}"))
    };
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
        restore: Vec::new(), // done by `Work`, which tells the model
    })
}

/// What is to be done once the command is started.
struct Work {
    snapshot: Arc<Snapshot>,
    timeout: Duration,
    /// Set when protected files are not as before: what they say now must not count for another command.
    broken: Arc<AtomicBool>,
    lock: WorkspaceLock,
}

impl Work {
    async fn run(
        self,
        prepared: PreparedCommand,
        call_off: oneshot::Receiver<()>,
    ) -> Result<CommandOutput, ToolError> {
        let mut undo = Undo {
            snapshot: self.snapshot,
            control: None,
            broken: self.broken,
            _lock: self.lock,
        };
        let child = process::spawn(prepared).await;
        let Child {
            stdin,
            stdout,
            stderr,
            control,
            ..
        } = child.map_err(|error| {
            ToolError::new(
                Code::Io,
                format!("the command could not be started: {error}"),
            )
        })?;
        drop(stdin); // it has nothing to read
        let control = undo.control.insert(control);
        let (mut out, mut err) = (Stream::new(Some(stdout)), Stream::new(stderr));
        let ending = {
            let work = async {
                // Waiting for the end also ends what holds the pipes open.
                let (status, (), ()) = tokio::join!(control.wait(), out.read(), err.read());
                status
            };
            tokio::select! {
                status = work => Ending::Itself(status),
                () = tokio::time::sleep(self.timeout) => Ending::Time,
                _ = call_off => Ending::CalledOff,
            }
        };
        let status = match ending {
            Ending::Itself(status) => status,
            Ending::Time | Ending::CalledOff => {
                control.kill();
                let rest = async { tokio::join!(control.wait(), out.read(), err.read()).0 };
                tokio::time::timeout(LAST, rest)
                    .await
                    .unwrap_or(ExitStatus {
                        left_over: true,
                        ..ExitStatus::default()
                    })
            }
        };
        let killed_for = killed_for(&ending, status, control.exceeded_processes());
        if status.left_over {
            // What could not be confirmed is never called undone; `undo` keeps trying.
            undo.broken.store(true, Ordering::SeqCst);
            drop(tokio::task::spawn_blocking(move || drop(undo)));
            return Err(not_confirmed());
        }
        undo.control = None; // all of it is gone
        let put_back = restore(undo.snapshot.clone(), &undo.broken).await?;
        Ok(CommandOutput {
            exit_code: status.code,
            signal: status.signal,
            truncated: out.truncated() || err.truncated(),
            stdout: out.kept.text(),
            stderr: err.kept.text(),
            killed_for,
            put_back,
            limit_seconds: self.timeout.as_secs(),
        })
    }
}

/// The error of a command whose processes could not be seen to end.
fn not_confirmed() -> ToolError {
    let message = "the command was killed, but it could not be confirmed that all of its processes have ended; what it did to \
                   protected files is not undone, and no further command is run in this session";
    ToolError::new(Code::Io, message)
}

/// Puts protected files back, off the threads that others wait for.
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
        ToolError::new(
            Code::Io,
            "protected files were not looked after; no further command is run in this session",
        )
    })?;
    if restored.failed.is_empty() {
        return Ok(restored.put_back);
    }
    let message = format!(
        "the command changed protected files, and they could not be put back ({}); no further command is run in this session",
        restored.failed.join("; ")
    );
    Err(ToolError::new(Code::Io, message))
}

/// How the wait for a command was over.
enum Ending {
    Itself(ExitStatus),
    Time,
    CalledOff,
}

fn killed_for(ending: &Ending, status: ExitStatus, overran: bool) -> Option<KilledFor> {
    const SIGXCPU: i32 = 24;
    const SIGXFSZ: i32 = 25;
    match (ending, status.signal) {
        (Ending::Time, _) => Some(KilledFor::Time),
        _ if overran => Some(KilledFor::Processes),
        _ if status.out_of_memory => Some(KilledFor::Memory),
        (_, Some(SIGXCPU)) => Some(KilledFor::CpuTime),
        (_, Some(SIGXFSZ)) => Some(KilledFor::FileSize),
        _ => None,
    }
}

/// Ends the command and puts files back when the task itself is dropped, because its runtime goes.
struct Undo {
    snapshot: Arc<Snapshot>,
    control: Option<Box<dyn Control>>,
    broken: Arc<AtomicBool>,
    /// Held until all of it is undone.
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

/// One of the command's streams, and what is kept of it.
struct Stream {
    from: Option<Box<dyn AsyncRead + Send + Unpin>>,
    kept: HeadTail,
    length: u64,
}

impl Stream {
    fn new(from: Option<Box<dyn AsyncRead + Send + Unpin>>) -> Self {
        Self {
            from,
            kept: HeadTail::new(HALF),
            length: 0,
        }
    }

    /// Reads to the end. Can be dropped and called again.
    async fn read(&mut self) {
        let mut buffer = vec![0; 16 * 1024];
        while let Some(from) = &mut self.from {
            match from.read(&mut buffer).await {
                Ok(length @ 1..) => {
                    self.kept.push(&buffer[..length]);
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
