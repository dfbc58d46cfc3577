//! Chunks: bytes read from a child, in a buffer that the sessions of a thread share.
//!
//! A session borrows the buffer only from a read that succeeds until the bytes are handled. An idle
//! session has none.

use std::cell::Cell;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Maximum size of a chunk.
const MAX_BYTES: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Bytes that were read; none at the end of the stream.
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    filled: usize,
}

impl Chunk {
    fn empty() -> Self {
        let spare = SPARE.take();
        Self {
            buffer: spare.unwrap_or_else(|| vec![0; MAX_BYTES].into()),
            filled: 0,
        }
    }

    /// Reads a chunk. Cancel safe.
    pub(super) async fn read(
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
    ) -> std::io::Result<Self> {
        poll_fn(|cx| {
            let mut chunk = Self::empty();
            let mut buffer = ReadBuf::new(&mut chunk.buffer);
            let result = ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer));
            chunk.filled = buffer.filled().len();
            Poll::Ready(result.map(|()| chunk))
        })
        .await
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        SPARE.set(Some(std::mem::take(&mut self.buffer)));
    }
}
