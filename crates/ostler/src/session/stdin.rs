//! Stdin queue: bytes for the child's stdin, written as fast as the child reads them.

use std::collections::VecDeque;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::trace;

/// Bytes that wait to be written to the child's stdin.
pub(super) struct StdinQueue {
    stream: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    queue: VecDeque<Vec<u8>>,
    /// How much of the first buffer is written already.
    written: usize,
    closing: bool,
}

impl StdinQueue {
    pub(super) fn new(stream: Option<Box<dyn AsyncWrite + Send + Unpin>>) -> Self {
        Self {
            stream,
            queue: VecDeque::new(),
            written: 0,
            closing: false,
        }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if self.stream.is_some() && !self.closing {
            trace::line_to_agent(&bytes);
            self.queue.push_back(bytes);
        }
    }

    /// Closes the stream once everything is written.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.close_if_drained();
    }

    pub(super) fn wants_to_write(&self) -> bool {
        self.stream.is_some() && !self.queue.is_empty()
    }

    /// Writes some of the queued bytes. Cancel safe: no byte is lost or written twice.
    pub(super) async fn write(&mut self) -> std::io::Result<()> {
        let (Some(stream), Some(bytes)) = (&mut self.stream, self.queue.front()) else {
            return Ok(());
        };
        match stream.write(&bytes[self.written..]).await {
            Ok(n) if n > 0 => self.written += n,
            other => {
                // The child no longer reads. Its exit status will explain why.
                self.stream = None;
                self.queue.clear();
                return other.and(Err(std::io::ErrorKind::WriteZero.into()));
            }
        }
        if self.written == bytes.len() {
            self.queue.pop_front();
            self.written = 0;
            if self.queue.is_empty() {
                self.queue = VecDeque::new(); // messages are rare
            }
        }
        self.close_if_drained();
        Ok(())
    }

    fn close_if_drained(&mut self) {
        if self.closing && self.queue.is_empty() {
            self.stream = None;
        }
    }
}
