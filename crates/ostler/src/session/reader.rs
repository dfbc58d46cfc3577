//! Readers of a session's events. Each has its own position, independent of all other readers.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler_core::event::Event;
use ostler_core::log::LogError;
use tokio::sync::watch;

use super::backlog::{Backlog, Batch, Published, ReadResult};

/// Maximum number of events per fetch.
const FETCH: usize = 256;

/// An item returned by [`Reader::next`].
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events; boxing each would cost more than it saves"
)]
pub enum ReadItem {
    /// The next event.
    Event(Event),
    /// The reader fell behind: the events `from` to `to` (inclusive) are no longer in memory.
    /// [`Reader::fetch`] reads them from the log; the next item follows after them.
    Gap {
        /// Number of the first missing event.
        from: u64,
        /// Number of the last missing event.
        to: u64,
    },
}

/// Reads the events of a session from a given position, at its own pace.
pub struct Reader {
    backlog: Arc<Backlog>,
    published: watch::Receiver<Published>,
    /// Number of the next event.
    next: u64,
    /// The current batch, and the index of the next event in it.
    batch: Option<(Batch, usize)>,
    /// Whether this is the session's own reader, which the backlog keeps the newest events for.
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
            published: backlog.subscribe(),
            backlog,
            next: from.max(1),
            batch: None,
            is_own: false,
        }
    }

    /// Waits for the next event, or the gap before it. Returns `None` after the last event.
    pub async fn next(&mut self) -> Option<ReadItem> {
        loop {
            if let Some(item) = self.try_next() {
                return Some(item);
            }
            let published = *self.published.borrow_and_update();
            if published.last >= self.next {
                continue;
            }
            if published.closed || self.published.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Returns the next item if it is already available.
    fn try_next(&mut self) -> Option<ReadItem> {
        let (batch, at) = match self.batch.take() {
            Some(current) => current,
            None => match self.backlog.at(self.next) {
                ReadResult::Batch(batch, at) => {
                    if let (true, Some(last)) = (self.is_own, batch.last()) {
                        self.backlog.advance_owner(last.event.seq);
                    }
                    (batch, at)
                }
                ReadResult::Behind(first) => {
                    let from = std::mem::replace(&mut self.next, first);
                    return Some(ReadItem::Gap {
                        from,
                        to: first - 1,
                    });
                }
                ReadResult::NotYet => return None,
            },
        };
        self.next += 1;
        if at + 1 < batch.len() {
            let event = batch.get(at)?.event.clone();
            self.batch = Some((batch, at + 1));
            return Some(ReadItem::Event(event));
        }
        // A batch that is read to its end is released, and moved rather than copied if this was the
        // last reference to it: events can be large.
        match Arc::try_unwrap(batch) {
            Ok(mut entries) => entries.pop().map(|entry| ReadItem::Event(entry.event)),
            Err(batch) => batch
                .last()
                .map(|entry| ReadItem::Event(entry.event.clone())),
        }
    }

    /// Returns true if [`Reader::next`] would return immediately.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.published.borrow().last >= self.next
    }

    /// Returns a page of events from `from` on, including events that are no longer in memory.
    ///
    /// A page has at least one and at most `limit` events, and is limited in size like
    /// [`Log::read`](ostler_core::log::Log::read). May block.
    ///
    /// # Errors
    /// If the events are no longer available, or cannot be read.
    pub fn fetch(&self, from: u64, limit: usize) -> Result<Vec<Event>, LogError> {
        self.backlog.fetch(from, limit)
    }
}

/// The session's own reader, which fetches missed events by itself.
#[derive(Debug)]
pub(super) struct OwnReader {
    reader: Reader,
    /// Missed events that were fetched.
    fetched: VecDeque<Event>,
    /// First and last number of missed events that are still to be fetched.
    missing: Option<(u64, u64)>,
}

impl OwnReader {
    pub(super) fn new(backlog: Arc<Backlog>) -> Self {
        let reader = Reader {
            is_own: true,
            ..Reader::new(backlog, 1)
        };
        Self {
            reader,
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
            match self.reader.next().await? {
                ReadItem::Event(event) => return Some(event),
                ReadItem::Gap { from, to } => self.missing = Some((from, to)),
            }
        }
    }

    async fn refill(&mut self, from: u64, to: u64) {
        let backlog = self.reader.backlog.clone();
        let limit = FETCH.min(usize::try_from(to - from + 1).unwrap_or(FETCH));
        let events = tokio::task::spawn_blocking(move || backlog.fetch(from, limit)).await;
        let events = events.ok().and_then(Result::ok).unwrap_or_default();
        // Events that cannot be fetched are skipped; the sequence numbers show the gap.
        let next = match events.last() {
            Some(event) => event.seq + 1,
            None => self.reader.backlog.first_from(from).max(from + 1),
        };
        self.missing = Some((next, to)).filter(|(from, to)| from <= to);
        if let Some(event) = events.last() {
            self.reader.backlog.advance_owner(event.seq);
        }
        self.fetched.extend(events);
    }

    pub(super) fn has_more(&self) -> bool {
        !self.fetched.is_empty() || self.missing.is_some() || self.reader.has_more()
    }
}
