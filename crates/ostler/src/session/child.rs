//! State of the agent's child process within a session.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use ostler_core::clip::HeadTail;
use ostler_core::lines::Lines;
use ostler_core::machine::CallerRequest;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::chunk::Chunk;
use crate::process::{self, Child, Control, ExitStatus, PreparedCommand, SpawnError};

/// Size of the head and of the tail of stderr that are retained.
const STDERR_HALF: usize = 4 * 1024;

/// State of the child process.
pub(super) enum ChildState {
    NotRunning,
    Starting(StartingChild),
    Running(RunningChild),
}

/// A spawn in progress. It takes milliseconds unless the machine has a problem. Dropping it cancels
/// the spawn and cleans up.
pub(super) struct StartingChild {
    child: Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send>>,
    /// Interrupts of the turn, which take effect as soon as the agent has started.
    pub(super) interrupts: Vec<CallerRequest>,
}

impl StartingChild {
    /// Spawns the command, after `delay` if there is one, and gives up after `timeout`.
    pub(super) fn new(
        prepared: Box<PreparedCommand>,
        delay: Option<Duration>,
        timeout: Option<Duration>,
    ) -> Self {
        let child = async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            match timeout {
                Some(timeout) => tokio::time::timeout(timeout, process::spawn(prepared))
                    .await
                    .unwrap_or(Err(SpawnError::TooSlow(timeout))),
                None => process::spawn(prepared).await,
            }
        };
        Self {
            child: Box::pin(child),
            interrupts: Vec::new(),
        }
    }
}

/// A process that is running, or has exited and is not reaped yet.
pub(super) struct RunningChild {
    pub(super) stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) control: Box<dyn Control>,
    /// Its exit status, and how long to wait for its remaining output.
    pub(super) exit: Option<(ExitStatus, Instant)>,
    pub(super) lines: Lines,
    pub(super) errors: HeadTail,
}

impl RunningChild {
    pub(super) fn new(child: Child) -> Self {
        Self {
            stdout: Some(child.stdout),
            stderr: child.stderr,
            control: child.control,
            exit: None,
            lines: Lines::new(),
            errors: HeadTail::new(STDERR_HALF),
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }
}

/// Something that happened to the child.
pub(super) enum ChildEvent {
    Started(Result<Child, SpawnError>),
    Stdout(std::io::Result<Chunk>),
    Stderr(std::io::Result<Chunk>),
    Exited(ExitStatus),
}

impl ChildState {
    /// Waits for the next event; forever without a child. Cancel safe.
    pub(super) async fn event(&mut self, may_read: bool) -> ChildEvent {
        match self {
            Self::NotRunning => std::future::pending().await,
            Self::Starting(starting) => ChildEvent::Started(starting.child.as_mut().await),
            Self::Running(running) => {
                let RunningChild {
                    stdout,
                    stderr,
                    control,
                    exit,
                    ..
                } = running;
                tokio::select! {
                    chunk = read(stdout), if may_read && stdout.is_some() => {
                        ChildEvent::Stdout(chunk)
                    }
                    chunk = read(stderr), if stderr.is_some() => ChildEvent::Stderr(chunk),
                    status = exited(control), if exit.is_none() => ChildEvent::Exited(status),
                    else => std::future::pending().await,
                }
            }
        }
    }

    /// Returns the interrupts that wait for the start of the process.
    pub(super) fn into_interrupts(self) -> Vec<CallerRequest> {
        match self {
            Self::Starting(starting) => starting.interrupts,
            Self::NotRunning | Self::Running(_) => Vec::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    pub(super) fn running(&mut self) -> Option<&mut RunningChild> {
        if let Self::Running(running) = self {
            Some(running)
        } else {
            None
        }
    }
}

/// Waits until the child has exited and nothing is left of it.
async fn exited(control: &mut Box<dyn Control>) -> ExitStatus {
    poll_fn(|cx| control.poll_exit(cx)).await;
    control.wait().await
}

/// Reads from a stream that is open; forever without one.
pub(super) async fn read(
    stream: &mut Option<Box<dyn AsyncRead + Send + Unpin>>,
) -> std::io::Result<Chunk> {
    match stream {
        Some(stream) => Chunk::read(stream).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A process that never exits.
    struct Endless;

    impl Control for Endless {
        fn terminate(&mut self) {}

        fn kill(&mut self) {}

        fn wait(&mut self) -> Pin<Box<dyn Future<Output = ExitStatus> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }

    // P24: the driver's `select!` drops a read whenever another branch is ready first. Here it is
    // dropped at every byte of a line, once or before each byte, and no byte of this line or the
    // next is lost or read twice.
    #[tokio::test]
    async fn a_read_that_is_cancelled_at_any_byte_loses_nothing() {
        let line = "{\"text\":\" zwei  😀 \"}\n{\"next\":1}\n".as_bytes();
        let cuts = (0..=line.len()).map(|at| vec![&line[..at], &line[at..]]);
        for parts in cuts.chain([line.chunks(1).collect()]) {
            let (mut agent, stdout) = tokio::io::duplex(1024);
            let (stderr, control) = (None, Box::new(Endless));
            let child = Child {
                stdin: None,
                stdout: Box::new(stdout),
                stderr,
                pid: None,
                notice: None,
                control,
            };
            let (mut child, mut lines) =
                (ChildState::Running(RunningChild::new(child)), Lines::new());
            let mut received = Vec::new();
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let cancelled = tokio::time::timeout(Duration::ZERO, child.event(true)).await;
                assert!(cancelled.is_err(), "there was nothing to read");
                agent.write_all(part).await.unwrap();
                let ChildEvent::Stdout(Ok(chunk)) = child.event(true).await else {
                    panic!("no bytes")
                };
                lines.push(&chunk, |line| {
                    received.push(format!("{line:?}"));
                });
            }
            let mut whole = Vec::new();
            Lines::new().push(line, |line| whole.push(format!("{line:?}")));
            assert_eq!((received.len(), received), (2, whole));
        }
    }
}
