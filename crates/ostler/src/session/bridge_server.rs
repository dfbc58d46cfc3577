//! Bridge server: accepts bridge connections, reads their lines and queues replies.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use ostler_core::lines::{Line, Lines};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tracing::debug;

use crate::host::bridge::{self, BridgeSocket};

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 16;

/// Maximum length of a line from a connection.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Size of the read buffer.
const READ_BUFFER: usize = 64 * 1024;

/// Maximum number and size of queued replies per connection. A single line may be of any size.
const MAX_QUEUED_LINES: usize = 256;
const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// Reported when a process of another user connects.
const OTHER_USER: &str = "A bridge connection from another user was refused";

/// Something that happened on the bridge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BridgeEvent {
    /// A connection was read: [`BridgeServer::read_lines`] returns the lines.
    Readable(u32),
    /// A connection is closed, and its replies are no longer needed.
    Closed(u32),
    /// A problem that the caller should know about.
    Problem(String),
}

/// The bridge socket and its connections.
pub(super) struct BridgeServer {
    socket: Option<BridgeSocket>,
    connections: BTreeMap<u32, Connection>,
    /// Number of connections so far; each gets the next number.
    count: u32,
    /// The connection that was read last; polling is round-robin.
    last: u32,
    /// The only user whose processes may connect.
    owner: u32,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer.
    filled: usize,
}

/// A connection to a bridge program.
struct Connection {
    stream: UnixStream,
    lines: Lines,
    queue: VecDeque<Vec<u8>>,
    /// How much of the first queued line is written already.
    written: usize,
    /// Size of the queued lines.
    bytes: usize,
    /// The other side has closed its write half.
    is_read_closed: bool,
    /// Close the connection once the queue is written.
    is_closing: bool,
    /// A second descriptor that shows when the other side has closed its read half too.
    watch: Option<UnixStream>,
}

impl Connection {
    fn new(stream: UnixStream) -> Self {
        let (lines, queue) = (Lines::with_cap(MAX_LINE), VecDeque::new());
        Self {
            stream,
            lines,
            queue,
            written: 0,
            bytes: 0,
            is_read_closed: false,
            is_closing: false,
            watch: None,
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(line) = self.queue.front() {
            match Pin::new(&mut self.stream).poll_write(cx, &line[self.written..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(n)) if n > 0 => self.written += n,
                Poll::Ready(other) => return other.and(Err(io::ErrorKind::WriteZero.into())),
            }
            if self.written == line.len() {
                self.bytes -= line.len();
                self.written = 0;
                self.queue.pop_front();
            }
        }
        Ok(())
    }

    /// Returns true if both halves are closed, not only the other side's write half.
    ///
    /// A stream at end of file is always readable and does not show whether the other side still
    /// reads. A second descriptor is used, which wakes up only when that changes.
    fn is_closed(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_read_closed {
            return false; // read what it has sent first
        }
        if self.watch.is_none() {
            let other = self.stream.as_fd().try_clone_to_owned();
            self.watch = other
                .and_then(|other| UnixStream::from_std(other.into()))
                .ok();
        }
        let Some(watch) = &self.watch else {
            return false; // noticed when a reply cannot be written
        };
        loop {
            match watch.poll_write_ready(cx) {
                Poll::Pending => return false,
                Poll::Ready(Err(_)) => return true,
                Poll::Ready(Ok(())) => {}
            }
            if let Some(Ok(now)) = watch.ready(Interest::WRITABLE).now_or_never()
                && now.is_write_closed()
            {
                return true;
            }
            // Clear the write readiness, so that the next poll waits for a change.
            let _ = watch.try_io(Interest::WRITABLE, || {
                Err::<(), _>(io::ErrorKind::WouldBlock.into())
            });
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        Poll::Ready(Ok(read.filled().len()))
    }
}

impl BridgeServer {
    /// Creates a server that accepts no connections until it is opened.
    pub(super) fn new() -> Self {
        let owner = bridge::current_uid();
        Self {
            socket: None,
            connections: BTreeMap::new(),
            count: 0,
            last: 0,
            owner,
            buffer: Vec::new(),
            filled: 0,
        }
    }

    /// Binds a new socket for an agent that is about to start, and returns its path.
    pub(super) fn open(&mut self, temp: &Path) -> io::Result<String> {
        self.close();
        let socket = BridgeSocket::open(temp)?;
        let path = socket
            .path
            .to_str()
            .ok_or(io::ErrorKind::InvalidFilename)?
            .to_owned();
        self.socket = Some(socket);
        Ok(path)
    }

    /// Closes the socket and all connections.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.connections.clear();
    }

    /// Waits for the next event; forever while the socket is closed. Cancel safe.
    pub(super) async fn next(&mut self, may_read: bool) -> BridgeEvent {
        std::future::poll_fn(|cx| self.poll(may_read, cx)).await
    }

    fn poll(&mut self, may_read: bool, cx: &mut Context<'_>) -> Poll<BridgeEvent> {
        if let Poll::Ready(problem) = self.accept(cx) {
            return Poll::Ready(problem);
        }
        let numbers = || self.connections.keys().copied();
        let round_robin: Vec<u32> = numbers()
            .filter(|n| *n > self.last)
            .chain(numbers().filter(|n| *n <= self.last))
            .collect();
        for number in round_robin {
            let Some(connection) = self.connections.get_mut(&number) else {
                continue;
            };
            if connection.write(cx).is_err() || connection.is_closed(cx) {
                self.connections.remove(&number);
                return Poll::Ready(BridgeEvent::Closed(number));
            }
            if connection.is_closing && connection.queue.is_empty() {
                self.connections.remove(&number);
                continue;
            }
            if !may_read || connection.is_read_closed {
                continue;
            }
            self.buffer.resize(READ_BUFFER, 0);
            let Poll::Ready(read) = connection.read(cx, &mut self.buffer) else {
                continue;
            };
            self.filled = read.unwrap_or(0);
            self.last = number;
            return Poll::Ready(BridgeEvent::Readable(number));
        }
        Poll::Pending
    }

    /// Accepts new connections.
    fn accept(&mut self, cx: &mut Context<'_>) -> Poll<BridgeEvent> {
        loop {
            let Some(socket) = &self.socket else {
                return Poll::Pending;
            };
            match ready!(socket.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    let is_owner = stream
                        .peer_cred()
                        .is_ok_and(|credentials| credentials.uid() == self.owner);
                    if !is_owner {
                        return Poll::Ready(BridgeEvent::Problem(OTHER_USER.into()));
                    }
                    if self.connections.len() >= MAX_CONNECTIONS {
                        let why = format!(
                            "A bridge connection was refused: {MAX_CONNECTIONS} are already open"
                        );
                        return Poll::Ready(BridgeEvent::Problem(why));
                    }
                    self.count += 1;
                    debug!(connection = self.count, "bridge connected");
                    self.connections.insert(self.count, Connection::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.socket = None; // it would fail forever
                    let why = format!("The bridge accepts no more connections: {error}");
                    return Poll::Ready(BridgeEvent::Problem(why));
                }
            }
        }
    }

    /// Passes the lines that were just read from a connection to `each`. Returns the reason if the
    /// connection had to be closed.
    pub(super) fn read_lines(&mut self, from: u32, mut each: impl FnMut(&str)) -> Option<String> {
        let connection = self.connections.get_mut(&from)?;
        let mut too_long = None;
        let mut line = |line: Line<'_>| match line {
            Line::Text { text, .. } if text.trim().is_empty() => {}
            Line::Text { text, .. } => each(&text),
            Line::Oversize { length, .. } => too_long = Some(length),
        };
        match self.filled {
            0 => {
                connection.lines.finish(&mut line);
                connection.is_read_closed = true;
            }
            n => connection.lines.push(&self.buffer[..n], &mut line),
        }
        let length = too_long?;
        self.connections.remove(&from);
        Some(format!(
            "it sent a line of {length} bytes, and the limit is {MAX_LINE}"
        ))
    }

    /// Returns true if the other side has closed its write half.
    pub(super) fn is_read_closed(&self, number: u32) -> bool {
        self.connections
            .get(&number)
            .is_some_and(|connection| connection.is_read_closed)
    }

    /// Closes a connection once its queued replies are written.
    pub(super) fn close_after_writes(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_closing = true;
        }
    }

    /// Queues a line for a connection. If the other side does not read, the connection is closed
    /// and the reason returned.
    pub(super) fn write(&mut self, to: u32, line: Vec<u8>) -> Option<String> {
        let connection = self.connections.get_mut(&to)?; // closed before its reply was ready
        let is_full = connection.queue.len() >= MAX_QUEUED_LINES
            || connection.bytes + line.len() > MAX_QUEUED_BYTES;
        if is_full && !connection.queue.is_empty() {
            let (lines, bytes) = (connection.queue.len(), connection.bytes);
            self.connections.remove(&to);
            return Some(format!(
                "it does not read its replies ({lines} lines, {bytes} bytes queued)"
            ));
        }
        if !line.is_empty() {
            connection.bytes += line.len();
            connection.queue.push_back(line);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn connection_from_another_user_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let mut bridge = BridgeServer::new();
        bridge.owner = bridge::current_uid() + 1;
        let path = bridge.open(temp.path()).unwrap();
        let mut stranger = UnixStream::connect(&path).await.unwrap();
        assert_eq!(
            bridge.next(true).await,
            BridgeEvent::Problem(OTHER_USER.into())
        );
        assert_eq!(
            stranger.read(&mut [0; 8]).await.unwrap(),
            0,
            "the connection should be closed"
        );
        assert!(bridge.connections.is_empty());
    }
}
