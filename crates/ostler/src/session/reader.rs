//! Readers of a session's events. Each has its own position, independent of all other readers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::task::AtomicWaker;
use ostler_core::event::Event;
use ostler_core::log::LogError;
use tokio::task::JoinHandle;

use super::backlog::{Backlog, Batch, ReadResult};

/// Maximum number of events per fetch.
const FETCH: usize = 256;

/// An item returned by [`Reader::next`].
#[derive(Debug, Clone, PartialEq)]
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

/// Reads the events of a session from a given position, at its own pace: with [`Reader::next`], or
/// as a [`Stream`].
pub struct Reader {
    backlog: Arc<Backlog>,
    /// Wakes the task that waits for the next event.
    waker: Arc<AtomicWaker>,
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
            waker: backlog.subscribe(),
            backlog,
            next: from.max(1),
            batch: None,
            is_own: false,
        }
    }

    /// Waits for the next event, or the gap before it. Returns `None` after the last event.
    pub async fn next(&mut self) -> Option<ReadItem> {
        poll_fn(|cx| self.poll_item(cx)).await
    }

    fn poll_item(&mut self, cx: &Context<'_>) -> Poll<Option<ReadItem>> {
        let ready = self.try_next();
        if ready.is_ready() {
            return ready;
        }
        self.waker.register(cx.waker());
        self.try_next() // something may have been published before the waker was registered
    }

    /// Returns the next item if it is already available.
    fn try_next(&mut self) -> Poll<Option<ReadItem>> {
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
                    let to = first - 1;
                    return Poll::Ready(Some(ReadItem::Gap { from, to }));
                }
                ReadResult::NotYet => return Poll::Pending,
                ReadResult::Never => return Poll::Ready(None),
            },
        };
        self.next += 1;
        if at + 1 < batch.len() {
            let event = batch.get(at).map(|entry| entry.event.clone());
            self.batch = Some((batch, at + 1));
            return Poll::Ready(event.map(ReadItem::Event));
        }
        // A batch that is read to its end is released, and moved rather than copied if this was the
        // last reference to it: events can be large.
        let event = match Arc::try_unwrap(batch) {
            Ok(mut entries) => entries.pop().map(|entry| entry.event),
            Err(batch) => batch.last().map(|entry| entry.event.clone()),
        };
        Poll::Ready(event.map(ReadItem::Event))
    }

    /// Returns true if [`Reader::next`] would return immediately.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.backlog.has(self.next)
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

impl Stream for Reader {
    type Item = ReadItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ReadItem>> {
        self.get_mut().poll_item(cx)
    }
}

/// The session's own reader, which fetches missed events by itself.
#[derive(Debug)]
pub(super) struct OwnReader {
    reader: Reader,
    /// Missed events that were fetched.
    fetched: VecDeque<Event>,
    /// The fetch of missed events that is in progress.
    fetch: Option<Fetch>,
}

/// A fetch of missed events.
#[derive(Debug)]
struct Fetch {
    /// Number of the first missed event.
    from: u64,
    /// Number of the last missed event.
    to: u64,
    page: JoinHandle<Result<Vec<Event>, LogError>>,
}

impl Fetch {
    /// Starts to fetch the first page, unless nothing is missing.
    fn start(backlog: Arc<Backlog>, from: u64, to: u64) -> Option<Self> {
        let missing = (to + 1).checked_sub(from).filter(|missing| *missing > 0)?;
        let limit = FETCH.min(usize::try_from(missing).unwrap_or(FETCH));
        let page = tokio::task::spawn_blocking(move || backlog.fetch(from, limit));
        Some(Self { from, to, page })
    }
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
            fetch: None,
        }
    }

    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.fetched.pop_front() {
                return Poll::Ready(Some(event));
            }
            if let Some(fetch) = &mut self.fetch {
                let page = ready!(Pin::new(&mut fetch.page).poll(cx));
                let (from, to) = (fetch.from, fetch.to);
                self.on_fetched(from, to, page.ok().and_then(Result::ok).unwrap_or_default());
                continue;
            }
            match ready!(self.reader.poll_item(cx)) {
                Some(ReadItem::Event(event)) => return Poll::Ready(Some(event)),
                Some(ReadItem::Gap { from, to }) => {
                    self.fetch = Fetch::start(self.reader.backlog.clone(), from, to);
                }
                None => return Poll::Ready(None),
            }
        }
    }

    /// Takes a page of missed events, and starts to fetch the next one.
    fn on_fetched(&mut self, from: u64, to: u64, events: Vec<Event>) {
        let backlog = &self.reader.backlog;
        // Events that cannot be fetched are skipped; the sequence numbers show the gap.
        let next = match events.last() {
            Some(event) => {
                backlog.advance_owner(event.seq);
                event.seq + 1
            }
            None => backlog.first_from(from).max(from + 1),
        };
        self.fetch = Fetch::start(backlog.clone(), next, to);
        self.fetched.extend(events);
    }

    pub(super) fn has_more(&self) -> bool {
        !self.fetched.is_empty() || self.fetch.is_some() || self.reader.has_more()
    }
}
