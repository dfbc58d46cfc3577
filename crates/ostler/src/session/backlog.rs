//! Backlog: a session's published events. The newest are in memory, older ones in the log or,
//! without a log, in a spill file.
//!
//! There is one writer, the session's driver, which never waits for a reader. A reader is a
//! position in the sequence. One that falls so far behind that its position is no longer in memory
//! gets a gap and can fetch what it missed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_core::event::Event;
use ostler_core::log::{Log, LogEntry, LogError, PAGE_BYTES};
use tokio::sync::{Notify, watch};

use super::spill::Spill;

/// In-memory backlog limits: number of events, and their size in bytes.
const MAX_EVENTS: u64 = 1024;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Maximum number of events per fetch, so that the lock is never held for long.
const PAGE: usize = 1000;

/// Events that were published together.
pub(super) type Batch = Arc<Vec<LogEntry>>;

/// The published events of a session, shared by its driver and its readers.
pub(super) struct Backlog {
    retained: Mutex<Retained>,
    published: watch::Sender<Published>,
    /// Notified when the session's own reader advances.
    advanced: Notify,
}

/// How far the session has been published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Published {
    /// Number of the last published event.
    pub(super) last: u64,
    /// Whether the session has ended and nothing will follow.
    pub(super) closed: bool,
}

/// The events in memory, and where to find older ones.
struct Retained {
    batches: VecDeque<(Batch, usize)>,
    /// Number of the first event in memory.
    first: u64,
    /// Number of the last event in memory.
    last: u64,
    bytes: usize,
    log: Option<Arc<dyn Log>>,
    /// Number of the last event in the log, once the log has failed.
    log_end: Option<u64>,
    /// Holds events that are evicted from memory and are not in the log.
    spill: Spill,
    session: Arc<str>,
    /// Number of the last event that the session's own reader has taken; 0 before the first.
    own_cursor: u64,
}

/// What a reader finds at its position.
pub(super) enum ReadResult {
    /// A batch, and the index of the event in it.
    Batch(Batch, usize),
    /// The position is no longer in memory; this is the first that is.
    Behind(u64),
    /// The event is not published yet.
    NotYet,
}

impl Backlog {
    pub(super) fn new(session: Arc<str>, log: Option<Arc<dyn Log>>, temp: PathBuf) -> Arc<Self> {
        let retained = Retained {
            batches: VecDeque::new(),
            first: 1,
            last: 0,
            bytes: 0,
            log,
            log_end: None,
            spill: Spill::new(temp),
            session,
            own_cursor: 0,
        };
        let published = watch::Sender::new(Published {
            last: 0,
            closed: false,
        });
        Arc::new(Self {
            retained: Mutex::new(retained),
            published,
            advanced: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Retained> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a batch of the given size to the readers.
    pub(super) fn publish(&self, batch: Batch, bytes: usize) {
        let Some(last) = batch.last().map(|entry| entry.event.seq) else {
            return;
        };
        let mut retained = self.lock();
        retained.last = last;
        retained.bytes += bytes;
        retained.batches.push_back((batch, bytes));
        retained.evict();
        drop(retained);
        let closed = false;
        self.published.send_replace(Published { last, closed });
    }

    /// Marks the session as ended: nothing more will be published.
    pub(super) fn close(&self) {
        self.published
            .send_modify(|published| published.closed = true);
    }

    /// Stops relying on a log that failed: later events are spilled to a file. Earlier ones are
    /// still read from the log.
    pub(super) fn disable_log(&self) {
        let mut retained = self.lock();
        retained.log_end = Some(retained.last);
    }

    /// Returns true if more events can be published without losing any.
    pub(super) fn has_room(&self) -> bool {
        let retained = self.lock();
        retained.is_logged()
            || !retained.spill.is_full()
            || retained.own_cursor >= retained.last
            || !retained.is_read()
    }

    /// Waits until the session's own reader advances.
    pub(super) async fn reader_advanced(&self) {
        self.advanced.notified().await;
    }

    /// Looks up the event with this number.
    pub(super) fn at(&self, position: u64) -> ReadResult {
        let retained = self.lock();
        if position < retained.first {
            return ReadResult::Behind(retained.first);
        }
        let seq = |batch: &Batch| batch.first().map_or(0, |entry| entry.event.seq);
        let after = retained
            .batches
            .partition_point(|(batch, _)| seq(batch) <= position);
        match after.checked_sub(1).and_then(|at| retained.batches.get(at)) {
            Some((batch, _)) if position <= retained.last => {
                let at = usize::try_from(position - seq(batch)).unwrap_or(0);
                ReadResult::Batch(batch.clone(), at)
            }
            _ => ReadResult::NotYet,
        }
    }

    /// Records that the session's own reader has taken everything up to this event.
    pub(super) fn advance_owner(&self, seq: u64) {
        let mut retained = self.lock();
        retained.own_cursor = seq;
        retained.evict();
        drop(retained);
        self.advanced.notify_one();
    }

    /// Returns the first event from `from` on that is still available.
    pub(super) fn first_from(&self, from: u64) -> u64 {
        let retained = self.lock();
        retained.spill.first_from(from).unwrap_or(retained.first)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Returns a page of events from `from` on, with the same limits as [`Log::read`]. May block.
    pub(super) fn fetch(&self, from: u64, limit: usize) -> Result<Vec<Event>, LogError> {
        let (from, limit) = (from.max(1), limit.min(PAGE));
        let mut retained = self.lock();
        if from >= retained.first {
            let entries = retained.batches.iter().flat_map(|(batch, _)| batch.iter());
            let wanted = entries.filter(|entry| entry.event.seq >= from).take(limit);
            let mut bytes = 0;
            let page = wanted.enumerate().take_while(|(n, entry)| {
                bytes += entry.event.weight();
                *n == 0 || bytes <= PAGE_BYTES
            });
            return Ok(page.map(|(_, entry)| entry.event.clone()).collect());
        }
        if retained.spill.holds(from) {
            return retained.spill.read(from, limit);
        }
        let end = retained
            .log_end
            .map_or(retained.first - 1, |end| end.min(retained.first - 1));
        let Some(log) = retained.log.clone().filter(|_| from <= end) else {
            return Err(LogError(format!("event {from} is no longer available")));
        };
        let session = retained.session.clone();
        drop(retained);
        log.read(
            &session,
            from,
            limit.min(usize::try_from(end - from + 1).unwrap_or(limit)),
        )
    }
}

impl Retained {
    /// Returns true if the log has every published event.
    fn is_logged(&self) -> bool {
        self.log.is_some() && self.log_end.is_none()
    }

    /// Returns true if the session's own reader has read anything. Some callers only use other
    /// readers.
    fn is_read(&self) -> bool {
        self.own_cursor > 0
    }

    /// Evicts the oldest batches while the limits are exceeded. The last batch stays if the
    /// session's own reader reads it next or has not read at all; a reader further behind uses the
    /// log.
    fn evict(&mut self) {
        let is_over = |retained: &Self| {
            retained.last + 1 - retained.first > MAX_EVENTS || retained.bytes > MAX_BYTES
        };
        let is_next = |retained: &Self| {
            !retained.is_read()
                || (retained.first..=retained.last).contains(&(retained.own_cursor + 1))
        };
        while is_over(self) && (self.batches.len() > 1 || !is_next(self)) {
            if !self.drop_oldest() {
                break;
            }
        }
    }

    /// Evicts the oldest batch. Returns false if the session's own reader would lose an event.
    fn drop_oldest(&mut self) -> bool {
        let Some((batch, bytes)) = self.batches.pop_front() else {
            return false;
        };
        let last = batch.last().map_or(0, |entry| entry.event.seq);
        if !self.is_logged()
            && !self.spill.write(&batch)
            && self.is_read()
            && self.own_cursor < last
        {
            self.batches.push_front((batch, bytes));
            return false;
        }
        self.bytes -= bytes;
        self.first += batch.len() as u64;
        true
    }
}
