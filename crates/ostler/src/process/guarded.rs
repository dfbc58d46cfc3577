//! Children under a guard: spawning, and the guard's protocol as seen by Ostler.

use std::future::Future;
use std::io::{self, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ostler_tools::confine::{Confinement, Layers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use super::guard::{GuardRequest, KILL, Message, TERMINATE};
use super::marked::find_by_mark;
use super::stdin_pipe::StdinPipe;
use super::{
    Child, Control, END_POLLS, ExitStatus, PreparedCommand, SpawnError, Teardown, guard_server,
    sweep,
};
use crate::host::GuardProgram;

/// Children that are being started at the same time. The kernel limits the number of descriptors
/// that a user has sent and nobody has received.
static STARTS: Semaphore = Semaphore::const_new(64);

/// Size of the buffer for the guard's messages, of which there are a few.
const BUFFER: usize = 8 * Message::BYTES;

/// Interval at which a blocking end looks for processes.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

pub(super) async fn spawn(
    prepared: Box<PreparedCommand>,
    guard: &GuardProgram,
) -> Result<Child, SpawnError> {
    let program = prepared.program.clone();
    let failed = |error: io::Error| SpawnError::from_io(&guard.program, error);
    let request =
        GuardRequest::encode(&prepared).map_err(|error| SpawnError::from_io(&program, error))?;
    let _permit = STARTS.acquire().await;
    let (stdin, stdout, stderr, socket) = send_descriptors(guard).map_err(failed)?;
    let mut control = Guarded {
        socket,
        received: Vec::new(),
        guard: None,
        layers: None,
        started: None,
        mark: prepared.mark,
        status: ExitStatus::default(),
        has_ended: false,
        exceeded_processes: false,
        _files: prepared.files,
        _temp: prepared.temp,
    };
    // If the guard has exited, there is no message either.
    let _ = control.socket.write_all(&request).await;
    control
        .started(&program, prepared.confinement.as_ref())
        .await?;
    debug!(guard = control.guard.map(Pid::as_raw_pid), "guard started");
    Ok(Child {
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(stdout),
        stderr: Some(Box::new(stderr)),
        pid: control.pid(),
        notice: prepared.notice.or_else(super::missing_proc_notice),
        control: Box::new(control),
    })
}

/// Our ends of stdin, stdout and stderr, and of the socket.
type Streams = (StdinPipe, Receiver, Receiver, UnixStream);

/// Has a guard forked that holds the other ends of three pipes and a socket, and returns our ends.
fn send_descriptors(guard: &GuardProgram) -> io::Result<Streams> {
    let (their_stdin, stdin) = pipe()?;
    let (stdout, their_stdout) = pipe()?;
    let (stderr, their_stderr) = pipe()?;
    let (socket, their_socket) = StdStream::pair()?;
    socket.set_nonblocking(true)?;
    let theirs = [
        their_socket.as_fd(),
        their_stdin.as_fd(),
        their_stdout.as_fd(),
        their_stderr.as_fd(),
    ];
    guard_server::send(guard, theirs)?;
    Ok((
        StdinPipe::new(OwnedFd::from(stdin))?,
        Receiver::from_owned_fd(OwnedFd::from(stdout))?,
        Receiver::from_owned_fd(OwnedFd::from(stderr))?,
        UnixStream::from_std(socket)?,
    ))
}

/// Controls a child through its guard.
struct Guarded {
    /// The guard ends its agent and exits when this is closed.
    socket: UnixStream,
    /// The beginning of a message.
    received: Vec<u8>,
    /// Process id of the guard.
    guard: Option<Pid>,
    /// Sandbox layers that the agent has entered.
    layers: Option<Layers>,
    /// Process id of the agent, or the error number of its start.
    started: Option<Result<u32, i32>>,
    mark: String,
    /// How the agent ended, as far as it is known.
    status: ExitStatus,
    /// Whether the agent and everything it started have ended, or the guard has.
    has_ended: bool,
    exceeded_processes: bool,
    _files: Vec<tempfile::NamedTempFile>,
    _temp: Option<super::PrivateDirectory>,
}

impl Guarded {
    /// Waits for messages of the guard, or its end, and notes them. Cancel safe.
    async fn receive(&mut self) {
        let mut buffer = [0; BUFFER];
        let read = loop {
            let ready = self.socket.readable().await;
            match ready.and_then(|()| self.socket.try_read(&mut buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read,
            }
        };
        self.note(&buffer[..read.unwrap_or(0)]);
    }

    /// Like [`Guarded::receive`], but blocks, for at most [`POLL_INTERVAL`].
    fn receive_blocking(&mut self) {
        let mut buffer = [0; BUFFER];
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut ready, Some(&POLL_INTERVAL)) == Ok(1) {
            match rustix::io::read(&self.socket, &mut buffer) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                read => self.note(&buffer[..read.unwrap_or(0)]),
            }
        }
    }

    /// Notes what the guard has sent. No bytes mean that it has exited.
    fn note(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
        let messages = self.received.chunks_exact(Message::BYTES);
        let rest = messages.remainder().to_owned();
        for message in messages.filter_map(|bytes| Message::decode(bytes.try_into().ok()?)) {
            match message {
                Message::Guard(pid) => self.guard = Pid::from_raw(pid),
                Message::Layers(bits) => self.layers = Some(Layers::from_bits(bits)),
                Message::Started(pid) => self.started = Some(Ok(pid.unsigned_abs())),
                Message::Failed(errno) => self.started = Some(Err(errno)),
                Message::Overran => self.exceeded_processes = true,
                Message::OutOfMemory => self.status.out_of_memory = true,
                Message::LeftOver => self.status.left_over = true,
                Message::Exited(code) => self.status.code = Some(code),
                Message::Signalled(signal) => self.status.signal = Some(signal),
            }
        }
        self.received = rest;
        self.has_ended = self.status.code.is_some() || self.status.signal.is_some();
        if bytes.is_empty() && !self.has_ended {
            self.has_ended = true;
            self.status.signal = Some(Signal::KILL.as_raw());
            self.status.left_over = true;
        }
    }

    /// Waits until the agent has been started, and returns its process id.
    async fn started(
        &mut self,
        program: &std::path::Path,
        confinement: Option<&Confinement>,
    ) -> Result<u32, SpawnError> {
        while self.started.is_none() && !self.has_ended {
            self.receive().await;
        }
        let failed = |error| SpawnError::from_io(program, error);
        match self.started {
            Some(Ok(pid)) => Ok(pid),
            Some(Err(errno)) => {
                let unconfined = confinement
                    .zip(self.layers)
                    .and_then(|(wanted, layers)| SpawnError::unconfined(wanted, layers));
                let error = io::Error::from_raw_os_error(errno);
                Err(unconfined.unwrap_or_else(|| failed(error)))
            }
            None => Err(failed(io::Error::other(
                "its guard exited before it was started",
            ))),
        }
    }

    fn pid(&self) -> Option<u32> {
        self.started?.ok()
    }

    /// Sends a command. Returns false if the guard has exited.
    fn send(&self, command: u8) -> bool {
        // One byte fits, unless a suspended guard has not read thousands of them.
        let sent = rustix::net::send(&self.socket, &[command], SendFlags::NOSIGNAL);
        !matches!(sent, Err(Errno::PIPE | Errno::CONNRESET))
    }

    fn signal_all(&self, signal: Signal) {
        sweep::signal(&find_by_mark(&self.mark), signal);
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
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

impl Control for Guarded {
    fn terminate(&mut self) {
        super::trace_stop(self.pid(), "terminate");
        self.send(TERMINATE);
    }

    fn kill(&mut self) {
        super::trace_stop(self.pid(), "kill");
        if self.send(KILL)
            && let Some(guard) = self.guard
        {
            // Wake the guard, in case it was suspended.
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
        self.signal_all(Signal::KILL);
    }

    fn end(&mut self) -> Teardown {
        self.kill();
        for _ in 0..END_POLLS {
            if !self.has_ended {
                self.receive_blocking();
                continue;
            }
            if !self.status.left_over {
                return Teardown::Confirmed;
            }
            let left = find_by_mark(&self.mark);
            if left.is_empty() {
                return Teardown::Confirmed;
            }
            sweep::signal(&left, Signal::KILL);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.abandon();
        Teardown::Unknown
    }

    fn exceeded_processes(&self) -> bool {
        self.exceeded_processes
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_ended {
            return Poll::Ready(());
        }
        self.socket.poll_read_ready(cx).map(|_| ())
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
        Box::pin(async {
            while !self.has_ended {
                self.receive().await;
            }
            // The guard reports a status once nothing is left. If it was killed before that, what
            // it guarded is found by the session's mark.
            if self.status.left_over {
                warn!(pid = self.pid(), "the guard ended before all processes");
                self.status.left_over = !self.sweep().await;
            }
            super::trace_exit(self.pid(), &self.status);
            self.status
        })
    }
}
