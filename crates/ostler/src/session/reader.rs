//! A reader of a session's events: a place in their sequence, independent of all other readers.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler_core::event::Event;
use ostler_core::log::LogError;
use tokio::sync::watch;

use super::backlog::{Backlog, Batch, Found, Told};

/// How many events are fetched at once.
const FETCH: usize = 256;

/// What a reader gets.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events; a box each would cost more than it saves"
)]
pub enum Reading {
    /// The next event.
    Event(Event),
    /// The reader was too slow: the events `from` to `to`, both included, are no longer in memory.
    /// [`Reader::fetch`] gets them from the log; the next reading goes on after them.
    Gap {
        /// The first event that is missing.
        from: u64,
        /// The last one.
        to: u64,
    },
}

/// Reads the events of a session from some place on, at its own pace.
pub struct Reader {
    backlog: Arc<Backlog>,
    told: watch::Receiver<Told>,
    /// The number of the next event.
    next: u64,
    /// A batch with events that are still to be read, and the first of them.
    batch: Option<(Batch, usize)>,
    /// Whether this is the session's own reader, for which the newest events stay in memory.
    is_own: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(super) fn new(backlog: Arc<Backlog>, from: u64) -> Self {
        Self {
            told: backlog.subscribe(),
            backlog,
            next: from.max(1),
            batch: None,
            is_own: false,
        }
    }

    /// The next event, or the gap before it; none after the last.
    pub async fn next(&mut self) -> Option<Reading> {
        loop {
            if let Some(reading) = self.ready() {
                return Some(reading);
            }
            let told = *self.told.borrow_and_update();
            if told.last >= self.next {
                continue;
            }
            if told.over || self.told.changed().await.is_err() {
                return None;
            }
        }
    }

    /// What is there already.
    fn ready(&mut self) -> Option<Reading> {
        let (batch, at) = match self.batch.take() {
            Some(place) => place,
            None => match self.backlog.at(self.next) {
                Found::Batch(batch, at) => {
                    if let (true, Some(last)) = (self.is_own, batch.last()) {
                        self.backlog.read_by_owner(last.event.seq);
                    }
                    (batch, at)
                }
                Found::Behind(first) => {
                    let from = std::mem::replace(&mut self.next, first);
                    return Some(Reading::Gap {
                        from,
                        to: first - 1,
                    });
                }
                Found::Nothing => return None,
            },
        };
        self.next += 1;
        if at + 1 < batch.len() {
            let event = batch.get(at)?.event.clone();
            self.batch = Some((batch, at + 1));
            return Some(Reading::Event(event));
        }
        // A batch that was read to its end is not held, and not copied if nobody else holds it: its events may be large.
        match Arc::try_unwrap(batch) {
            Ok(mut entries) => entries.pop().map(|entry| Reading::Event(entry.event)),
            Err(batch) => batch
                .last()
                .map(|entry| Reading::Event(entry.event.clone())),
        }
    }

    /// Whether [`Reader::next`] would answer at once.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.told.borrow().last >= self.next
    }

    /// Returns a page of events, also of those that are no longer in memory, from `from` on: at most `most` and at
    /// least one, so that a page fits in memory ([`Log::read`](ostler_core::log::Log::read)). It may block for a moment.
    ///
    /// # Errors
    /// When they are not kept, or cannot be read.
    pub fn fetch(&self, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        self.backlog.fetch(from, most)
    }
}

/// The session's own reader, which fetches by itself what it missed.
#[derive(Debug)]
pub(super) struct OwnReader {
    events: Reader,
    /// What was fetched, and what is still to be.
    fetched: VecDeque<Event>,
    missing: Option<(u64, u64)>,
}

impl OwnReader {
    pub(super) fn new(backlog: Arc<Backlog>) -> Self {
        let events = Reader {
            is_own: true,
            ..Reader::new(backlog, 1)
        };
        Self {
            events,
            fetched: VecDeque::new(),
            missing: None,
        }
    }

    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.fetched.pop_front() {
                return Some(event);
            }
            if let Some((from, to)) = self.missing {
                self.refill(from, to).await;
                continue;
            }
            match self.events.next().await? {
                Reading::Event(event) => return Some(event),
                Reading::Gap { from, to } => self.missing = Some((from, to)),
            }
        }
    }

    async fn refill(&mut self, from: u64, to: u64) {
        let backlog = self.events.backlog.clone();
        let most = FETCH.min(usize::try_from(to - from + 1).unwrap_or(FETCH));
        let events = tokio::task::spawn_blocking(move || backlog.fetch(from, most)).await;
        let events = events.ok().and_then(Result::ok).unwrap_or_default();
        // What cannot be fetched is lost to this reader; the numbers of the events show it.
        let next = match events.last() {
            Some(event) => event.seq + 1,
            None => self.events.backlog.first_from(from).max(from + 1),
        };
        self.missing = Some((next, to)).filter(|(from, to)| from <= to);
        if let Some(event) = events.last() {
            self.events.backlog.read_by_owner(event.seq);
        }
        self.fetched.extend(events);
    }

    pub(super) fn has_more(&self) -> bool {
        !self.fetched.is_empty() || self.missing.is_some() || self.events.has_more()
    }
}
