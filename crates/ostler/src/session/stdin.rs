//! The way in to a child: bytes that wait for its stdin, written as fast as it reads and never faster.

use std::collections::VecDeque;

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// What waits for the child's stdin.
pub(super) struct StdinQueue {
    stream: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    waiting: VecDeque<Vec<u8>>,
    written: usize,
    closing: bool,
}

impl StdinQueue {
    pub(super) fn new(stream: Option<Box<dyn AsyncWrite + Send + Unpin>>) -> Self {
        Self {
            stream,
            waiting: VecDeque::new(),
            written: 0,
            closing: false,
        }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if self.stream.is_some() && !self.closing {
            self.waiting.push_back(bytes);
        }
    }

    /// Closes the stream once everything is written.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.settle();
    }

    pub(super) fn wants_to_write(&self) -> bool {
        self.stream.is_some() && !self.waiting.is_empty()
    }

    /// Writes a piece. Nothing is lost or written twice when this is dropped halfway: a write either happened or did not.
    pub(super) async fn write(&mut self) -> std::io::Result<()> {
        let (Some(stream), Some(bytes)) = (&mut self.stream, self.waiting.front()) else {
            return Ok(());
        };
        match stream.write(&bytes[self.written..]).await {
            Ok(n) if n > 0 => self.written += n,
            other => {
                // The child does not read any more. Why is for its exit to say.
                self.stream = None;
                self.waiting.clear();
                return other.and(Err(std::io::ErrorKind::WriteZero.into()));
            }
        }
        if self.written == bytes.len() {
            self.waiting.pop_front();
            self.written = 0;
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        if self.closing && self.waiting.is_empty() {
            self.stream = None;
        }
    }
}
