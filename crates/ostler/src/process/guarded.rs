//! Children under a guard: spawning, and the guard's protocol as seen by Ostler.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::process::Stdio;

use command_fds::{CommandFdExt, FdMapping};
use ostler_tools::confine::{Confinement, Layers};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tracing::{debug, warn};

use super::guard::SOCKET;
use super::marked::find_by_mark;
use super::{Child, Control, END_POLLS, ExitStatus, PreparedCommand, SpawnError, Teardown, sweep};
use crate::host::GuardProgram;

/// Size of the buffer for the guard's messages, which are short.
const MESSAGE: usize = 64;

pub(super) async fn spawn(
    prepared: Box<PreparedCommand>,
    guard: &GuardProgram,
) -> Result<Child, SpawnError> {
    let program = prepared.program.clone();
    let failed = |error: io::Error| SpawnError::from_io(&guard.program, error);
    let (ours, theirs) = StdStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let mut child = start(&prepared, guard, theirs).map_err(failed)?;
    debug!(guard = child.id(), "guard started");
    let (read, write) = UnixStream::from_std(ours).map_err(failed)?.into_split();
    let notice = prepared.notice;
    let mut control = Guarded {
        messages: BufReader::with_capacity(MESSAGE, read).lines(),
        commands: write,
        stdin: child.stdin().take(),
        stdout: child.stdout().take(),
        stderr: child.stderr().take(),
        guard: child,
        mark: prepared.mark,
        pid: None,
        ended: None,
        exceeded_processes: false,
        _files: prepared.files,
        _temp: prepared.temp,
    };
    let pid = control
        .agent_pid(&program, prepared.confinement.as_ref())
        .await?;
    control.pid = Some(pid);
    Ok(Child {
        stdin: control.stdin.take().map(|s| Box::new(s) as _),
        stdout: control
            .stdout
            .take()
            .map_or_else(|| Box::new(tokio::io::empty()) as _, |s| Box::new(s) as _),
        stderr: control.stderr.take().map(|s| Box::new(s) as _),
        pid: Some(pid),
        notice: notice.or_else(super::missing_proc_notice),
        control: Box::new(control),
    })
}

fn start(
    prepared: &PreparedCommand,
    guard: &GuardProgram,
    socket: StdStream,
) -> io::Result<Box<dyn ChildWrapper>> {
    let mut command = Command::new(&guard.program);
    command
        .args(&guard.args)
        .args(super::guard::arguments(prepared)?);
    command
        .env_clear()
        .envs(&prepared.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(dir) = &prepared.dir {
        command.current_dir(dir);
    }
    command
        .fd_mappings(vec![FdMapping {
            parent_fd: socket.into(),
            child_fd: SOCKET,
        }])
        .map_err(|_| io::Error::other("the guard's socket could not be handed over"))?;
    let mut wrap = CommandWrap::from(command);
    // Its own session: no terminal where a tool could prompt for a password, and no Ctrl-C meant
    // for Ostler.
    wrap.wrap(ProcessSession);
    wrap.spawn()
}

/// Controls a child through its guard.
struct Guarded {
    guard: Box<dyn ChildWrapper>,
    messages: Lines<BufReader<OwnedReadHalf>>,
    commands: OwnedWriteHalf,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: Option<tokio::process::ChildStdout>,
    stderr: Option<tokio::process::ChildStderr>,
    mark: String,
    /// Process id of the agent, once it is known.
    pid: Option<u32>,
    ended: Option<ExitStatus>,
    exceeded_processes: bool,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<super::PrivateDirectory>,
}

impl Guarded {
    /// Reads the guard's next message, or returns `None` if the guard has exited.
    async fn message(&mut self) -> Option<(String, i32)> {
        let line = self.messages.next_line().await.ok()??;
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    }

    async fn agent_pid(
        &mut self,
        program: &std::path::Path,
        confinement: Option<&Confinement>,
    ) -> Result<u32, SpawnError> {
        let mut message = self.message().await;
        let entered = match &message {
            Some((layers, bits)) if layers == super::guard::LAYERS => {
                Some(Layers::from_bits(u8::try_from(*bits).unwrap_or(0)))
            }
            _ => None,
        };
        if entered.is_some() {
            message = self.message().await;
        }
        match message {
            Some((name, pid)) if name == "pid" => Ok(u32::try_from(pid).unwrap_or(0)),
            Some((_, errno)) => {
                let unconfined = confinement
                    .zip(entered)
                    .and_then(|(wanted, layers)| SpawnError::unconfined(wanted, layers));
                Err(unconfined.unwrap_or_else(|| {
                    SpawnError::from_io(program, io::Error::from_raw_os_error(errno))
                }))
            }
            None => Err(SpawnError::from_io(
                program,
                io::Error::other("its guard exited before it was started"),
            )),
        }
    }

    fn send(&self, command: u8) {
        // One byte always fits, unless the guard has exited, which is noticed elsewhere.
        let _ = self.commands.try_write(&[command]);
    }

    /// Signals everything but the guard, which must notice when this process exits.
    fn signal_all(&self, signal: Signal) {
        let guard = self.guard.id();
        let others = find_by_mark(&self.mark)
            .into_iter()
            .filter(|process| !process.is(guard));
        sweep::signal(&others.collect::<Vec<_>>(), signal);
    }

    /// Kills what is left if the guard itself was killed, found by the session's mark. Returns true
    /// if nothing is left.
    async fn sweep(&mut self) -> bool {
        for _ in 0..100 {
            let left = find_by_mark(&self.mark);
            if left.is_empty() {
                return true;
            }
            sweep::signal(&left, Signal::KILL);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        false
    }

    /// Reads the guard's last messages: how the agent ended.
    async fn exit_status(&mut self) -> Option<ExitStatus> {
        let mut status = ExitStatus::default();
        loop {
            let (name, number) = self.message().await?;
            match name.as_str() {
                super::guard::OVERRAN => self.exceeded_processes = true,
                super::guard::MEMORY => status.out_of_memory = true,
                super::guard::LEFT => status.left_over = true,
                "exit" => {
                    return Some(ExitStatus {
                        code: Some(number),
                        ..status
                    });
                }
                _ => {
                    return Some(ExitStatus {
                        signal: Some(number),
                        ..status
                    });
                }
            }
        }
    }
}

impl Control for Guarded {
    fn terminate(&mut self) {
        super::trace_stop(self.pid, "terminate");
        self.send(b'T');
    }

    fn kill(&mut self) {
        super::trace_stop(self.pid, "kill");
        self.send(b'K');
        // Wake the guard, in case it was suspended.
        let guard = self
            .guard
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(guard) = guard {
            let _ = rustix::process::kill_process(guard, Signal::CONT);
        }
    }

    fn freeze(&mut self) {
        self.signal_all(Signal::STOP);
    }

    fn thaw(&mut self) {
        self.signal_all(Signal::CONT);
    }

    fn abandon(&mut self) {
        // The guard is kept alive: only it knows all of the agent's processes.
        self.kill();
        let guard = self.guard.id();
        let others = find_by_mark(&self.mark)
            .into_iter()
            .filter(|process| !process.is(guard));
        sweep::signal(&others.collect::<Vec<_>>(), Signal::KILL);
    }

    fn end(&mut self) -> Teardown {
        self.kill();
        for _ in 0..END_POLLS {
            let exited = self.guard.try_wait();
            if let Ok(Some(status)) = &exited
                && status.success()
            {
                return Teardown::Confirmed; // it exits successfully once nothing is left
            }
            if !matches!(exited, Ok(None)) {
                let left = find_by_mark(&self.mark);
                if left.is_empty() {
                    return Teardown::Confirmed;
                }
                sweep::signal(&left, Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.abandon();
        Teardown::Unknown
    }

    fn exceeded_processes(&self) -> bool {
        self.exceeded_processes
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            if self.ended.is_none() {
                self.ended = Some(match self.exit_status().await {
                    Some(status) => status,
                    None => {
                        warn!(pid = self.pid, "the guard ended before its process");
                        ExitStatus {
                            signal: Some(Signal::KILL.as_raw()),
                            left_over: true,
                            ..ExitStatus::default()
                        }
                    }
                });
            }
            let _ = self.guard.wait().await;
            // The guard reports a status once nothing is left. If it was killed before that, what
            // it guarded is found by the session's mark.
            let is_confirmed = self.ended.is_some_and(|status| !status.left_over);
            let is_gone = is_confirmed || self.sweep().await;
            if let Some(status) = &mut self.ended {
                status.left_over = !is_gone;
                super::trace_exit(self.pid, status);
            }
            self.ended.unwrap_or_default()
        })
    }
}
