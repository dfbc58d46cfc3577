//! The events format: one JSON line per event, as it happens.

use std::io::{self, Write};

use ostler::Event;

use super::Output;

/// Writer of NDJSON.
pub(super) struct Events<W>(pub W);

impl<W: Write + Send> Output for Events<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, event)?;
        self.0.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
