//! Event queue: numbers and timestamps each event and holds it until it is stored and published.

use std::sync::Arc;

use ostler_core::event::{Event, EventKind, Timestamp};
use ostler_core::log::LogEntry;

use super::trace::SessionTrace;
use crate::clock;

/// Maximum number of queued events, and maximum size of those that are queued or being appended to
/// the log, before the agent's output is left in its pipe. A slow disk slows the agent down; it
/// does not fill the memory.
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Assigns sequence numbers and timestamps. There is one per session.
struct Stamper {
    session: Arc<str>,
    seq: u64,
    last: Timestamp,
    /// The time of the events that are being queued; `None` to read the clock for each.
    at: Option<Timestamp>,
}

impl Stamper {
    fn new(session: Arc<str>) -> Self {
        Self {
            session,
            seq: 0,
            last: Timestamp(0),
            at: None,
        }
    }

    fn stamp(&mut self, turn: u32, kind: EventKind) -> Event {
        self.seq += 1;
        // Timestamps never decrease, even if the system clock is set back.
        self.last = self.last.max(self.at.unwrap_or_else(clock::wall));
        Event {
            seq: self.seq,
            at: self.last,
            session: self.session.clone(),
            turn,
            kind,
        }
    }
}

/// Events that are not published yet.
pub(crate) struct EventQueue {
    stamper: Stamper,
    queued: Vec<LogEntry>,
    /// Number of events in the last batch: the next one is often as large.
    last_batch: usize,
    bytes: usize,
    /// Offset, in the agent's raw output, of the line that is being processed.
    pub(super) raw_offset: u64,
    pub(super) trace: SessionTrace,
}

impl EventQueue {
    pub(super) fn new(session: Arc<str>) -> Self {
        Self {
            stamper: Stamper::new(session),
            queued: Vec::new(),
            last_batch: 0,
            bytes: 0,
            raw_offset: 0,
            trace: SessionTrace::new(),
        }
    }

    /// Sets the time of the events that follow; `None` to read the clock for each.
    pub(super) fn stamp_with(&mut self, at: Option<Timestamp>) {
        self.stamper.at = at;
    }

    pub(super) fn push(&mut self, turn: u32, kind: EventKind) {
        let event = self.stamper.stamp(turn, kind);
        self.trace.event(&event);
        self.bytes += event.weight();
        if self.queued.is_empty() {
            self.queued.reserve_exact(self.last_batch.max(1));
        }
        self.queued.push(LogEntry {
            event,
            raw_offset: self.raw_offset,
        });
    }

    /// Returns true if there is room for more while `appending` bytes are being written to the log.
    pub(super) fn has_room(&self, appending: usize) -> bool {
        self.queued.len() < MAX_EVENTS && self.bytes + appending < MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Iterates over the queued events.
    pub(super) fn queued(&self) -> impl Iterator<Item = &Event> {
        self.queued.iter().map(|entry| &entry.event)
    }

    /// Takes the queued entries and returns them with their size in bytes.
    pub(super) fn take_entries(&mut self) -> (Vec<LogEntry>, usize) {
        self.last_batch = self.queued.len();
        let mut entries = std::mem::take(&mut self.queued);
        entries.shrink_to_fit(); // published batches stay in memory for a while
        (entries, std::mem::take(&mut self.bytes))
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.take_entries()
            .0
            .into_iter()
            .map(|entry| entry.event)
            .collect()
    }
}
