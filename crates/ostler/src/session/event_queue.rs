//! The way out of a session: gives each event its number and its time, and holds it until it is kept and told.

use std::sync::Arc;

use ostler_core::event::{At, Event, EventKind};
use ostler_core::log::Entry;

use crate::clock;

/// How many events, and how many bytes of them, may wait for the log or be on their way into it before the agent's output
/// is left in its pipe. A disk that does not keep up slows the agent down; it does not fill the memory.
const EVENTS: usize = 1024;
const BYTES: usize = 2 * 1024 * 1024;

/// Gives each event its number and its time. There is one per session.
struct Stamps {
    session: Arc<str>,
    seq: u64,
    last: At,
}

impl Stamps {
    fn new(session: Arc<str>) -> Self {
        Self {
            session,
            seq: 0,
            last: At(0),
        }
    }

    fn stamp(&mut self, turn: u32, kind: EventKind) -> Event {
        self.seq += 1;
        // A clock that was set back does not make a later event look earlier.
        self.last = self.last.max(clock::wall());
        Event {
            seq: self.seq,
            at: self.last,
            session: self.session.clone(),
            turn,
            kind,
        }
    }
}

/// Events that are not told yet.
pub(crate) struct EventQueue {
    stamps: Stamps,
    waiting: Vec<Entry>,
    bytes: usize,
    /// Where in the agent's raw output the line begins that is being heard.
    pub(super) raw_offset: u64,
}

impl EventQueue {
    pub(super) fn new(session: Arc<str>) -> Self {
        Self {
            stamps: Stamps::new(session),
            waiting: Vec::new(),
            bytes: 0,
            raw_offset: 0,
        }
    }

    pub(super) fn push(&mut self, turn: u32, kind: EventKind) {
        let event = self.stamps.stamp(turn, kind);
        self.bytes += event.weight();
        self.waiting.push(Entry {
            event,
            raw_offset: self.raw_offset,
        });
    }

    /// Returns true if more may come while `appending` bytes of earlier events are on their way into the log.
    pub(super) fn has_room(&self, appending: usize) -> bool {
        self.waiting.len() < EVENTS && self.bytes + appending < BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Event> {
        self.waiting.iter().map(|entry| &entry.event)
    }

    /// What waits, and its size in bytes.
    pub(super) fn take_entries(&mut self) -> (Vec<Entry>, usize) {
        (
            std::mem::take(&mut self.waiting),
            std::mem::take(&mut self.bytes),
        )
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.take_entries()
            .0
            .into_iter()
            .map(|entry| entry.event)
            .collect()
    }
}
