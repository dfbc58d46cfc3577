//! Bridge server for systems without Unix sockets: it never accepts a connection.

use std::io;
use std::path::Path;

/// Something that happened on the bridge. Never constructed here.
pub(super) enum BridgeEvent {
    Readable(u32),
    Closed(u32),
    Problem(String),
}

/// A bridge server that cannot be opened.
pub(super) struct BridgeServer;

impl BridgeServer {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn open(&mut self, _: &Path) -> io::Result<String> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "bridges are not supported on this system",
        ))
    }

    pub(super) fn close(&mut self) {}

    pub(super) async fn next(&mut self, _may_read: bool) -> BridgeEvent {
        std::future::pending().await
    }

    pub(super) fn read_lines(&mut self, _: u32, _: impl FnMut(&str)) -> Option<String> {
        None
    }

    pub(super) fn is_read_closed(&self, _: u32) -> bool {
        true
    }

    pub(super) fn close_after_writes(&mut self, _: u32) {}

    pub(super) fn write(&mut self, _: u32, _: Vec<u8>) -> Option<String> {
        None
    }
}
