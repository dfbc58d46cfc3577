//! The write end of a child's stdin, registered with the runtime only once the child falls behind.
//!
//! Messages are rare and fit into the pipe. A registration takes more memory of an idle session
//! than the messages do, and system calls at its start and end.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe::Sender;

/// The write end of a pipe.
#[derive(Debug)]
pub(super) enum StdinPipe {
    /// Writes at once, or not at all.
    Unregistered(OwnedFd),
    /// Waits until the child has read. The pipe was full once.
    Registered(Sender),
}

impl StdinPipe {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self::Unregistered(pipe))
    }
}

impl AsyncWrite for StdinPipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut *self {
                Self::Registered(sender) => return Pin::new(sender).poll_write(cx, bytes),
                Self::Unregistered(pipe) => match rustix::io::write(&*pipe, bytes) {
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        let sender = Sender::from_owned_fd(pipe.try_clone()?)?;
                        *self = Self::Registered(sender);
                    }
                    written => return Poll::Ready(Ok(written?)),
                },
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // nothing is buffered
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // dropping it closes the pipe
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::unix::pipe::Receiver;

    use super::*;

    fn pipe() -> (StdinPipe, Receiver) {
        let (read, write) = io::pipe().unwrap();
        let receiver = Receiver::from_owned_fd(read.into()).unwrap();
        (StdinPipe::new(write.into()).unwrap(), receiver)
    }

    // More than a pipe holds: the writer waits for the reader, and no byte is lost or doubled.
    #[tokio::test]
    async fn a_full_pipe_is_waited_for() {
        let (mut stdin, mut child) = pipe();
        stdin.write_all(b"a message").await.unwrap();
        assert!(matches!(stdin, StdinPipe::Unregistered(_)));
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let sent = bytes.clone();
        let writing = tokio::spawn(async move {
            stdin.write_all(&sent).await.unwrap();
            assert!(matches!(stdin, StdinPipe::Registered(_)));
        });
        let mut received = Vec::new();
        child.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert_eq!(&received[..9], b"a message");
        assert_eq!(received[9..], bytes);
    }

    #[tokio::test]
    async fn a_closed_pipe_is_an_error() {
        let (mut stdin, child) = pipe();
        drop(child);
        let error = stdin.write_all(b"a message").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
