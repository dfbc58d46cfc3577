//! Starting a child under the guard, and talking to the guard about it.

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

use super::guard::SOCKET;
use super::{Child, Control, Ended, ExitStatus, LAST_LOOKS, PreparedCommand, SpawnError, sweep};
use crate::host::GuardProgram;

pub(super) async fn spawn(
    prepared: PreparedCommand,
    guard: &GuardProgram,
) -> Result<Child, SpawnError> {
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
        layers: Layers::default(),
        _files: prepared.files,
        _temp: prepared.temp,
    };
    let pid = control
        .agent_pid(&program, prepared.confinement.as_ref())
        .await?;
    Ok(Child {
        stdin: control.stdin.take().map(|s| Box::new(s) as _),
        stdout: control
            .stdout
            .take()
            .map_or_else(|| Box::new(tokio::io::empty()) as _, |s| Box::new(s) as _),
        stderr: control.stderr.take().map(|s| Box::new(s) as _),
        pid: Some(pid),
        remark: remark.or_else(super::remark_on_system),
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
    layers: Layers,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<super::PrivateDirectory>,
}

impl Guarded {
    /// The next line of the guard; none when it is gone.
    async fn word(&mut self) -> Option<(String, i32)> {
        let line = self.words.next_line().await.ok()??;
        let (word, number) = line.split_once(' ')?;
        Some((word.to_owned(), number.parse().ok()?))
    }

    async fn agent_pid(
        &mut self,
        program: &std::path::Path,
        confinement: Option<&Confinement>,
    ) -> Result<u32, SpawnError> {
        let mut word = self.word().await;
        let entered = match &word {
            Some((layers, bits)) if layers == super::guard::LAYERS => {
                Some(Layers::from_bits(u8::try_from(*bits).unwrap_or(0)))
            }
            _ => None,
        };
        if let Some(layers) = entered {
            self.layers = layers;
            word = self.word().await;
        }
        match word {
            Some((word, pid)) if word == "pid" => Ok(u32::try_from(pid).unwrap_or(0)),
            Some((_, errno)) => {
                let unconfined = confinement
                    .zip(entered)
                    .and_then(|(wanted, layers)| SpawnError::unconfined(wanted, layers));
                Err(unconfined.unwrap_or_else(|| {
                    SpawnError::of(program, io::Error::from_raw_os_error(errno))
                }))
            }
            None => Err(SpawnError::of(
                program,
                io::Error::other("its guard ended before it was started"),
            )),
        }
    }

    fn order(&self, order: u8) {
        // One byte into an empty socket: it fits, or the guard is gone and its end is seen elsewhere.
        let _ = self.orders.try_write(&[order]);
    }

    /// Stops what it watches over, or lets it go on. The guard itself stays awake: it must hear when this process goes.
    fn halt(&self, signal: Signal) {
        let guard = self.guard.id();
        let watched = sweep::marked(&self.mark)
            .into_iter()
            .filter(|process| !process.is(guard));
        sweep::signal(&watched.collect::<Vec<_>>(), signal);
    }

    /// The guard is gone without a word (somebody killed it): what it watched over is found by its mark. Returns whether nothing
    /// is left.
    async fn sweep_alone(&mut self) -> bool {
        for _ in 0..100 {
            let left = sweep::marked(&self.mark);
            if left.is_empty() {
                return true;
            }
            sweep::signal(&left, Signal::KILL);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        false
    }

    /// The guard's last words: how the agent ended, and what there is to say about it.
    async fn last_words(&mut self) -> Option<ExitStatus> {
        let mut status = ExitStatus::default();
        loop {
            let (word, number) = self.word().await?;
            match word.as_str() {
                super::guard::OVERRAN => self.overran = true,
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
        self.order(b'T');
    }

    fn kill(&mut self) {
        self.order(b'K');
        // A guard that somebody has stopped does what it is told again.
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
        self.halt(Signal::STOP);
    }

    fn thaw(&mut self) {
        self.halt(Signal::CONT);
    }

    fn abandon(&mut self) {
        // The guard stays: it alone knows all of what it watches over.
        self.kill();
        let guard = self.guard.id();
        let watched = sweep::marked(&self.mark)
            .into_iter()
            .filter(|process| !process.is(guard));
        sweep::signal(&watched.collect::<Vec<_>>(), Signal::KILL);
    }

    fn end(&mut self) -> Ended {
        self.kill();
        for _ in 0..LAST_LOOKS {
            if !matches!(self.guard.try_wait(), Ok(None)) {
                let left = sweep::marked(&self.mark);
                if left.is_empty() {
                    return Ended::Confirmed;
                }
                sweep::signal(&left, Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.abandon();
        Ended::Unknown
    }

    fn overran(&self) -> bool {
        self.overran
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            if self.ended.is_none() {
                self.ended = Some(match self.last_words().await {
                    Some(status) => status,
                    None => ExitStatus {
                        signal: Some(Signal::KILL.as_raw()),
                        left_over: true,
                        ..ExitStatus::default()
                    },
                });
            }
            let _ = self.guard.wait().await;
            // A guard that has seen a pid namespace end leaves nothing to look for.
            let is_seen =
                self.layers.has(Layers::PIDS) && self.ended.is_some_and(|status| !status.left_over);
            let is_gone = is_seen || self.sweep_alone().await;
            if let Some(status) = &mut self.ended {
                status.left_over = !is_gone;
            }
            self.ended.unwrap_or_default()
        })
    }
}
