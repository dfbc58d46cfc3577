//! The programs that an agent started to reach the caller's tools: their lines, and the answers they get.

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

use crate::bridge::{self, Door};

/// How many of them there can be at once.
const PEERS: usize = 16;

/// The longest line that one of them may say.
const LINE: usize = 16 * 1024 * 1024;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// How much may wait for one of them, in lines and in bytes. One line always may, however long.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 32 * 1024 * 1024;

/// What happens beside the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BridgeEvent {
    /// One of them said something: [`BridgeServer::hear`] tells what.
    Said(u32),
    /// One of them is gone: nobody waits for what it asked for.
    Gone(u32),
    /// Something went wrong that the caller should know.
    Trouble(String),
}

/// The programs beside the agent, and the door that they come through.
pub(super) struct BridgeServer {
    door: Option<Door>,
    peers: BTreeMap<u32, Peer>,
    /// How many came so far: each has a number of its own.
    count: u32,
    /// Whose turn it was last.
    last: u32,
    /// Which user they must be of.
    owner: u32,
    buffer: Vec<u8>,
    read: usize,
}

/// One of them.
struct Peer {
    stream: UnixStream,
    lines: Lines,
    waiting: VecDeque<Vec<u8>>,
    written: usize,
    bytes: usize,
    /// It has nothing more to say.
    is_done: bool,
    /// It is owed nothing but what waits for it.
    is_let_go: bool,
    /// Tells when it does not listen either, once it has nothing more to say.
    watch: Option<UnixStream>,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        let (lines, waiting) = (Lines::with_cap(LINE), VecDeque::new());
        Self {
            stream,
            lines,
            waiting,
            written: 0,
            bytes: 0,
            is_done: false,
            is_let_go: false,
            watch: None,
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(line) = self.waiting.front() {
            match Pin::new(&mut self.stream).poll_write(cx, &line[self.written..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(n)) if n > 0 => self.written += n,
                Poll::Ready(other) => return other.and(Err(io::ErrorKind::WriteZero.into())),
            }
            if self.written == line.len() {
                self.bytes -= line.len();
                self.written = 0;
                self.waiting.pop_front();
            }
        }
        Ok(())
    }

    /// Whether it is gone for good, and not just done with talking. That it has ended its side is read again and again, and
    /// whether it listens is not said by the stream: another descriptor of it is told of a change, and only of that.
    fn is_gone(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_done {
            return false; // what it has said is heard first
        }
        if self.watch.is_none() {
            let other = self.stream.as_fd().try_clone_to_owned();
            self.watch = other
                .and_then(|other| UnixStream::from_std(other.into()))
                .ok();
        }
        let Some(watch) = &self.watch else {
            return false;
        }; // then it is gone when an answer cannot be written
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
            // That it can be written to is forgotten: the next change is awaited.
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
    /// Nobody is let in until it is opened.
    pub(super) fn new() -> Self {
        let owner = bridge::own();
        Self {
            door: None,
            peers: BTreeMap::new(),
            count: 0,
            last: 0,
            owner,
            buffer: Vec::new(),
            read: 0,
        }
    }

    /// Opens a door of its own for an agent that is going to be started; where the socket is.
    pub(super) fn open(&mut self, temp: &Path) -> io::Result<String> {
        self.close();
        let door = Door::open(temp)?;
        let path = door
            .path
            .to_str()
            .ok_or(io::ErrorKind::InvalidFilename)?
            .to_owned();
        self.door = Some(door);
        Ok(path)
    }

    /// The agent is gone: the door is too, and who came through it.
    pub(super) fn close(&mut self) {
        self.door = None;
        self.peers.clear();
    }

    /// Waits for what happens next; for ever while there is no door. Can be dropped without losing anything.
    pub(super) async fn next(&mut self, may_read: bool) -> BridgeEvent {
        std::future::poll_fn(|cx| self.poll(may_read, cx)).await
    }

    fn poll(&mut self, may_read: bool, cx: &mut Context<'_>) -> Poll<BridgeEvent> {
        if let Poll::Ready(trouble) = self.admit(cx) {
            return Poll::Ready(trouble);
        }
        let numbers = || self.peers.keys().copied();
        let in_turn: Vec<u32> = numbers()
            .filter(|n| *n > self.last)
            .chain(numbers().filter(|n| *n <= self.last))
            .collect();
        for number in in_turn {
            let Some(peer) = self.peers.get_mut(&number) else {
                continue;
            };
            if peer.write(cx).is_err() || peer.is_gone(cx) {
                self.peers.remove(&number);
                return Poll::Ready(BridgeEvent::Gone(number));
            }
            if peer.is_let_go && peer.waiting.is_empty() {
                self.peers.remove(&number);
                continue;
            }
            if !may_read || peer.is_done {
                continue;
            }
            self.buffer.resize(CHUNK, 0);
            let Poll::Ready(read) = peer.read(cx, &mut self.buffer) else {
                continue;
            };
            self.read = read.unwrap_or(0);
            self.last = number;
            return Poll::Ready(BridgeEvent::Said(number));
        }
        Poll::Pending
    }

    /// Lets in who knocks.
    fn admit(&mut self, cx: &mut Context<'_>) -> Poll<BridgeEvent> {
        loop {
            let Some(door) = &self.door else {
                return Poll::Pending;
            };
            match ready!(door.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    let is_ours = stream
                        .peer_cred()
                        .is_ok_and(|peer| peer.uid() == self.owner);
                    if !is_ours {
                        return Poll::Ready(BridgeEvent::Trouble(
                            "a program of another user was turned away".into(),
                        ));
                    }
                    if self.peers.len() >= PEERS {
                        let why = format!(
                            "there are {PEERS} programs that reach the tools already; one more was turned away"
                        );
                        return Poll::Ready(BridgeEvent::Trouble(why));
                    }
                    self.count += 1;
                    self.peers.insert(self.count, Peer::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.door = None; // it would say the same for ever
                    return Poll::Ready(BridgeEvent::Trouble(format!(
                        "no more programs can reach the tools: {error}"
                    )));
                }
            }
        }
    }

    /// What one of them said just now, line by line; and why it was sent away, if it was.
    pub(super) fn hear(&mut self, from: u32, mut each: impl FnMut(&str)) -> Option<String> {
        let peer = self.peers.get_mut(&from)?;
        let mut too_long = None;
        let mut line = |line: Line<'_>| match line {
            Line::Text { text, .. } if text.trim().is_empty() => {}
            Line::Text { text, .. } => each(&text),
            Line::Oversize { length, .. } => too_long = Some(length),
        };
        match self.read {
            0 => {
                peer.lines.finish(&mut line);
                peer.is_done = true;
            }
            n => peer.lines.push(&self.buffer[..n], &mut line),
        }
        let length = too_long?;
        self.peers.remove(&from);
        Some(format!(
            "it said a line of {length} bytes, and {LINE} are the most"
        ))
    }

    /// Whether one of them has nothing more to say.
    pub(super) fn is_done(&self, number: u32) -> bool {
        self.peers.get(&number).is_some_and(|peer| peer.is_done)
    }

    /// One that has nothing more to say is owed nothing more: it goes when it has read what waits for it.
    pub(super) fn let_go(&mut self, number: u32) {
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.is_let_go = true;
        }
    }

    /// Has one of them told a line. Nobody waits for it: if it does not read, it is sent away, and this is why.
    pub(super) fn answer(&mut self, to: u32, line: Vec<u8>) -> Option<String> {
        let peer = self.peers.get_mut(&to)?; // it went before its answer came
        let is_full = peer.waiting.len() >= WAITING || peer.bytes + line.len() > WAITING_BYTES;
        if is_full && !peer.waiting.is_empty() {
            let (lines, bytes) = (peer.waiting.len(), peer.bytes);
            self.peers.remove(&to);
            return Some(format!(
                "it does not read its answers: {lines} of them, {bytes} bytes, waited"
            ));
        }
        if !line.is_empty() {
            peer.bytes += line.len();
            peer.waiting.push_back(line);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn who_is_of_another_user_is_turned_away() {
        let temp = tempfile::tempdir().unwrap();
        let mut bridge = BridgeServer::new();
        bridge.owner = bridge::own() + 1;
        let path = bridge.open(temp.path()).unwrap();
        let mut stranger = UnixStream::connect(&path).await.unwrap();
        assert_eq!(
            bridge.next(true).await,
            BridgeEvent::Trouble("a program of another user was turned away".into())
        );
        assert_eq!(
            stranger.read(&mut [0; 8]).await.unwrap(),
            0,
            "the connection is closed"
        );
        assert!(bridge.peers.is_empty());
    }
}
