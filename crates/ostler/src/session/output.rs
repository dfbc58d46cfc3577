//! The way out of a session: stamps events, and holds them until the reader takes them.

use std::sync::Arc;

use ostler_core::event::{At, Event, What};

use crate::clock;

/// How many events, and how many bytes of the agent's output, may wait for the reader before the agent's output is left
/// in its pipe. A reader that does not read slows the agent down; it does not fill the memory.
const EVENTS: usize = 1024;
const BYTES: usize = 4 * 1024 * 1024;

/// Gives each event its number and its time. There is one per session.
struct Stamps {
    session: Arc<str>,
    seq: u64,
    last: At,
}

impl Stamps {
    fn new(session: Arc<str>) -> Self {
        Self { session, seq: 0, last: At(0) }
    }

    fn stamp(&mut self, turn: u32, what: What) -> Event {
        self.seq += 1;
        // A clock that was set back does not make a later event look earlier.
        self.last = self.last.max(clock::wall());
        Event { seq: self.seq, at: self.last, session: self.session.clone(), turn, what }
    }
}

/// Events that wait for the reader.
pub(crate) struct Outgoing {
    stamps: Stamps,
    waiting: Vec<Event>,
    bytes: usize,
}

impl Outgoing {
    pub(super) fn new(session: Arc<str>) -> Self {
        Self { stamps: Stamps::new(session), waiting: Vec::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, turn: u32, what: What) {
        self.waiting.push(self.stamps.stamp(turn, what));
    }

    /// So many bytes of the agent's output are behind what waits here.
    pub(super) fn weigh(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty() || (self.waiting.len() < EVENTS && self.bytes < BYTES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }
}
