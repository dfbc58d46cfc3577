//! Starting a child under the guard, and talking to the guard about it.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::process::Stdio;

use command_fds::{CommandFdExt, FdMapping};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;

use super::guard::SOCKET;
use super::{Child, Control, ExitStatus, Prepared, SpawnError, sweep};
use crate::host::GuardProgram;

pub(super) async fn spawn(prepared: Prepared, guard: &GuardProgram) -> Result<Child, SpawnError> {
    let program = prepared.program.clone();
    let failed = |error: io::Error| SpawnError::of(&guard.program, error);
    let (ours, theirs) = StdStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let mut child = start(&prepared, guard, theirs).map_err(failed)?;
    let (read, write) = UnixStream::from_std(ours).map_err(failed)?.into_split();
    let remark = prepared.remark;
    let mut control = Guarded {
        words: BufReader::new(read).lines(),
        orders: write,
        stdin: child.stdin().take(),
        stdout: child.stdout().take(),
        stderr: child.stderr().take(),
        guard: child,
        mark: prepared.mark,
        ended: None,
        overran: false,
        _files: prepared.files,
        _temp: prepared.temp,
    };
    let pid = control.agent_pid(&program).await?;
    Ok(Child {
        stdin: control.stdin.take().map(|s| Box::new(s) as _),
        stdout: control.stdout.take().map_or_else(|| Box::new(tokio::io::empty()) as _, |s| Box::new(s) as _),
        stderr: control.stderr.take().map(|s| Box::new(s) as _),
        pid: Some(pid),
        remark: remark.or_else(super::remark_on_system),
        control: Box::new(control),
    })
}

fn start(prepared: &Prepared, guard: &GuardProgram, socket: StdStream) -> io::Result<Box<dyn ChildWrapper>> {
    let mut command = Command::new(&guard.program);
    command.args(&guard.args).args(super::guard::arguments(prepared)?);
    command.env_clear().envs(&prepared.env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(dir) = &prepared.dir {
        command.current_dir(dir);
    }
    command
        .fd_mappings(vec![FdMapping { parent_fd: socket.into(), child_fd: SOCKET }])
        .map_err(|_| io::Error::other("the guard's socket could not be handed over"))?;
    let mut wrap = CommandWrap::from(command);
    // A session of its own: no terminal that a tool could ask for a password, no Ctrl-C that is meant for Ostler.
    wrap.wrap(ProcessSession);
    wrap.spawn()
}

struct Guarded {
    guard: Box<dyn ChildWrapper>,
    words: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: Option<tokio::process::ChildStdout>,
    stderr: Option<tokio::process::ChildStderr>,
    mark: String,
    ended: Option<ExitStatus>,
    overran: bool,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<tempfile::TempDir>,
}

impl Guarded {
    /// The next line of the guard; none when it is gone.
    async fn word(&mut self) -> Option<(String, i32)> {
        let line = self.words.next_line().await.ok()??;
        let (word, number) = line.split_once(' ')?;
        Some((word.to_owned(), number.parse().ok()?))
    }

    async fn agent_pid(&mut self, program: &std::path::Path) -> Result<u32, SpawnError> {
        match self.word().await {
            Some((word, pid)) if word == "pid" => Ok(u32::try_from(pid).unwrap_or(0)),
            Some((_, errno)) => Err(SpawnError::of(program, io::Error::from_raw_os_error(errno))),
            None => Err(SpawnError::of(program, io::Error::other("its guard ended before it was started"))),
        }
    }

    fn order(&self, order: u8) {
        // One byte into an empty socket: it fits, or the guard is gone and its end is seen elsewhere.
        let _ = self.orders.try_write(&[order]);
    }

    /// Stops what it watches over, or lets it go on. The guard itself stays awake: it must hear when this process goes.
    fn halt(&self, signal: Signal) {
        let guard = self.guard.id();
        let watched = sweep::marked(&self.mark).into_iter().filter(|process| !process.is(guard));
        sweep::signal(&watched.collect::<Vec<_>>(), signal);
    }

    /// The guard is gone without a word (somebody killed it): what it watched over is found by its mark.
    async fn sweep_alone(&mut self) {
        for _ in 0..100 {
            let left = sweep::marked(&self.mark);
            if left.is_empty() {
                break;
            }
            sweep::signal(&left, Signal::KILL);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

impl Control for Guarded {
    fn terminate(&mut self) {
        self.order(b'T');
    }

    fn kill(&mut self) {
        self.order(b'K');
    }

    fn freeze(&mut self) {
        self.halt(Signal::STOP);
    }

    fn thaw(&mut self) {
        self.halt(Signal::CONT);
    }

    fn abandon(&mut self) {
        // The guard does not do what it is told (somebody stopped it): the kernel kills the agent with it, the mark finds the rest.
        let _ = self.guard.start_kill();
        sweep::signal(&sweep::marked(&self.mark), Signal::KILL);
    }

    fn end(&mut self) {
        self.kill();
        for _ in 0..200 {
            let guard_is_gone = !matches!(self.guard.try_wait(), Ok(None));
            if guard_is_gone && sweep::marked(&self.mark).is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.abandon();
    }

    fn overran(&self) -> bool {
        self.overran
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            if self.ended.is_none() {
                let mut word = self.word().await;
                if word.as_ref().is_some_and(|(word, _)| word == super::guard::OVERRAN) {
                    self.overran = true;
                    word = self.word().await;
                }
                self.ended = Some(match word {
                    Some((word, code)) if word == "exit" => ExitStatus { code: Some(code), signal: None },
                    Some((_, signal)) => ExitStatus { code: None, signal: Some(signal) },
                    None => ExitStatus { code: None, signal: Some(Signal::KILL.as_raw()) },
                });
            }
            let _ = self.guard.wait().await;
            self.sweep_alone().await;
            self.ended.unwrap_or_default()
        })
    }
}
