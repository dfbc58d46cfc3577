//! Chunks: bytes read from a child, in a buffer that the sessions of a thread share.
//!
//! A session borrows the buffer only from a read that succeeds until the bytes are handled. An idle
//! session has none.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum size of a chunk.
const MAX_BYTES: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that were read; none at the end of the stream.
pub(super) struct Chunk(Vec<u8>);

impl Chunk {
    fn empty() -> Self {
        let mut buffer = SPARE.take();
        buffer.clear();
        // Not zeroed: memory that no chunk fills is never touched.
        buffer.reserve_exact(MAX_BYTES);
        Self(buffer)
    }

    /// Reads a chunk. Cancel safe.
    pub(super) async fn read(
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
    ) -> std::io::Result<Self> {
        poll_fn(|cx| {
            let mut chunk = Self::empty();
            let result = ready!(pin!(stream.read_buf(&mut chunk.0)).poll(cx));
            Poll::Ready(result.map(|_| chunk))
        })
        .await
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.0));
    }
}
