//! Backlog: a session's published events. The newest are in memory, older ones in the log or,
//! without a log, in a spill file.
//!
//! There is one writer, the session's driver. It waits for a reader only if there is no log, the
//! spill file is full, and the session's own reader is behind. A reader is a position in the
//! sequence. One that falls so far behind that its position is no longer in memory gets a gap and
//! can fetch what it missed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use ostler_core::event::Event;
use ostler_core::log::{Log, LogEntry, LogError, PAGE_BYTES};
use tokio::sync::Notify;

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
    /// Wakers of the readers, called when something is published.
    readers: Mutex<Vec<Arc<AtomicWaker>>>,
    /// Notified when the session's own reader advances.
    advanced: Notify,
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
    /// Number of the last event in the log.
    stored: u64,
    /// Whether the log failed, so that later events are not in it.
    log_failed: bool,
    /// Holds events that are evicted from memory and are not in the log.
    spill: Spill,
    session: Arc<str>,
    /// Whether the session has ended and nothing will follow.
    is_closed: bool,
    /// Number of the last event that the session's own reader has taken; 0 before the first.
    own_cursor: u64,
    /// Whether another reader was ever created. The caller may then never read the session itself,
    /// and may create more readers at any position.
    has_other_readers: bool,
    /// Whether readers get every event from the log, except for the session's own, which gets what
    /// it has not read yet from memory.
    is_served_by_log: bool,
    /// Whether events that were read are needed again, to restart the agent with its history.
    needs_history: bool,
}

/// What a reader finds at its position.
pub(super) enum ReadResult {
    /// A batch, and the index of the event in it.
    Batch(Batch, usize),
    /// The position is no longer in memory; this is the first that is.
    Behind(u64),
    /// The event is not published yet.
    NotYet,
    /// The event will never be published, because the session has ended.
    Never,
}

impl Backlog {
    /// Creates an empty backlog that spills to the directory `temp` if there is no log.
    pub(super) fn new(session: Arc<str>, log: Option<Arc<dyn Log>>, temp: PathBuf) -> Arc<Self> {
        let retained = Retained {
            batches: VecDeque::new(),
            first: 1,
            last: 0,
            bytes: 0,
            log,
            stored: 0,
            log_failed: false,
            spill: Spill::new(temp),
            session,
            is_closed: false,
            own_cursor: 0,
            has_other_readers: false,
            is_served_by_log: false,
            needs_history: false,
        };
        Arc::new(Self {
            retained: Mutex::new(retained),
            readers: Mutex::default(),
            advanced: Notify::new(),
        })
    }

    /// Begins after events that are in the log.
    pub(super) fn begin_after(&self, last: u64) {
        let mut retained = self.lock();
        retained.first = last + 1;
        retained.last = last;
        retained.stored = last;
    }

    fn lock(&self) -> MutexGuard<'_, Retained> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a batch of the given size to the readers. [`Self::evict`] must follow.
    pub(super) fn publish(&self, batch: Batch, bytes: usize) {
        let Some(last) = batch.last().map(|entry| entry.event.seq) else {
            return;
        };
        let mut retained = self.lock();
        retained.last = last;
        retained.bytes += bytes;
        retained.batches.push_back((batch, bytes));
        drop(retained);
        self.wake_readers();
    }

    /// Evicts what exceeds the limits. The driver lets readers run first: they need not wait while
    /// memory is freed, and what they have read is not spilled.
    pub(super) fn evict(&self) {
        self.lock().evict();
    }

    /// Marks the session as ended: nothing more will be published.
    pub(super) fn close(&self) {
        let mut retained = self.lock();
        retained.is_closed = true;
        retained.evict();
        drop(retained);
        self.wake_readers();
    }

    fn wake_readers(&self) {
        self.wakers().iter().for_each(|waker| waker.wake());
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Arc<AtomicWaker>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the waker of a new reader. It is called until the reader drops it.
    pub(super) fn subscribe(&self) -> Arc<AtomicWaker> {
        let (waker, mut wakers) = (Arc::new(AtomicWaker::new()), self.wakers());
        wakers.retain(|waker| Arc::strong_count(waker) > 1);
        wakers.push(waker.clone());
        waker
    }

    /// Returns true if the event with this number is published.
    pub(super) fn has(&self, position: u64) -> bool {
        self.lock().last >= position
    }

    /// Stops relying on a log that failed: later events are spilled to a file. Earlier ones are
    /// still read from the log.
    pub(super) fn disable_log(&self) {
        self.lock().log_failed = true;
    }

    /// Records that the log has every event up to this one.
    pub(super) fn set_stored(&self, seq: u64) {
        let mut retained = self.lock();
        retained.stored = seq;
        retained.evict();
    }

    /// Returns true if more events can be published without losing any.
    pub(super) fn has_room(&self) -> bool {
        let retained = self.lock();
        retained.is_logged()
            || !retained.spill.is_full()
            || retained.own_cursor >= retained.last
            || !retained.waits_for_owner()
    }

    /// Releases events as soon as they are in the log and the session's own reader has taken them,
    /// unless another reader is created.
    pub(super) fn serve_from_log(&self) {
        self.lock().is_served_by_log = true;
    }

    /// Makes the backlog keep events that were read.
    pub(super) fn keep_history(&self) {
        self.lock().needs_history = true;
    }

    /// Records that a reader other than the session's own was created.
    pub(super) fn add_reader(&self) {
        self.lock().has_other_readers = true;
        self.advanced.notify_one();
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
        match retained.batch_of(position) {
            Some(batch) if position <= retained.last => {
                let at = usize::try_from(position - first_seq(batch)).unwrap_or(0);
                ReadResult::Batch(batch.clone(), at)
            }
            _ if retained.is_closed => ReadResult::Never,
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
        let end = retained.stored.min(retained.first - 1);
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

fn first_seq(batch: &Batch) -> u64 {
    batch.first().map_or(0, |entry| entry.event.seq)
}

fn last_seq(batch: &Batch) -> u64 {
    batch.last().map_or(0, |entry| entry.event.seq)
}

impl Retained {
    /// Returns the last batch that begins at or before this event.
    fn batch_of(&self, position: u64) -> Option<&Batch> {
        let begins_before = |(batch, _): &&(Batch, usize)| first_seq(batch) <= position;
        // Usually it is the newest. A binary search reads ten others, which are no longer cached.
        let newest = self.batches.back().filter(begins_before);
        let found = newest.or_else(|| {
            let after = self.batches.partition_point(|it| begins_before(&it));
            self.batches.get(after.checked_sub(1)?)
        });
        found.map(|(batch, _)| batch)
    }

    /// Returns true if the log has every published event, or is about to.
    fn is_logged(&self) -> bool {
        self.log.is_some() && !self.log_failed
    }

    /// Returns true if the session's own reader must get every event. It need not if it never read
    /// and others do: some callers only use those.
    fn waits_for_owner(&self) -> bool {
        self.own_cursor > 0 || !self.has_other_readers
    }

    /// Evicts the oldest batches while the limits are exceeded, or while the log serves them. The
    /// last batch stays if the session's own reader reads it next or has not read at all; a reader
    /// further behind uses the log.
    fn evict(&mut self) {
        let is_over = |retained: &Self| {
            retained.last + 1 - retained.first > MAX_EVENTS || retained.bytes > MAX_BYTES
        };
        let is_next = |retained: &Self| {
            retained.own_cursor == 0
                || (retained.first..=retained.last).contains(&(retained.own_cursor + 1))
        };
        while self.is_oldest_served() || is_over(self) && (self.batches.len() > 1 || !is_next(self))
        {
            if !self.drop_oldest() {
                break;
            }
        }
        if self.batches.is_empty() {
            self.batches = VecDeque::new();
        }
    }

    /// Returns true if whoever reads the oldest batch reads it from the log.
    fn is_oldest_served(&self) -> bool {
        let last = self.batches.front().map(|(batch, _)| last_seq(batch));
        let is_read = last.is_some_and(|last| last <= self.own_cursor);
        is_read && self.is_served_by_log && self.is_logged() && !self.has_other_readers
    }

    /// Evicts the oldest batch. Returns false if a reader would lose an event.
    fn drop_oldest(&mut self) -> bool {
        let Some((batch, bytes)) = self.batches.pop_front() else {
            return false;
        };
        let last = last_seq(&batch);
        if self.is_logged() && last > self.stored {
            self.batches.push_front((batch, bytes));
            return false;
        }
        let is_unread = self.own_cursor < last;
        let is_needed = is_unread || self.has_other_readers || self.needs_history;
        if is_needed
            && !self.is_logged()
            && !self.spill.write(&batch)
            && is_unread
            && self.waits_for_owner()
        {
            self.batches.push_front((batch, bytes));
            return false;
        }
        self.bytes -= bytes;
        self.first += batch.len() as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::event::{EventKind, Text, TextKind, Timestamp};

    use super::*;

    fn entry(seq: u64) -> LogEntry {
        let text = Text {
            kind: TextKind::Reply,
            text: "words".into(),
            delta: true,
            message: None,
            parent: None,
        };
        let event = Event {
            seq,
            at: Timestamp(0),
            session: "s".into(),
            turn: 1,
            kind: EventKind::Text(text),
        };
        LogEntry {
            event,
            raw_offset: 0,
        }
    }

    fn backlog() -> Arc<Backlog> {
        Backlog::new("s".into(), None, tempfile::env::temp_dir())
    }

    fn publish(backlog: &Backlog, seqs: std::ops::RangeInclusive<u64>) {
        for seq in seqs {
            backlog.publish(Arc::new(vec![entry(seq)]), 500);
            backlog.evict();
        }
    }

    fn fetched(backlog: &Backlog, from: u64) -> Vec<u64> {
        let page = backlog.fetch(from, 3).unwrap();
        page.iter().map(|event| event.seq).collect()
    }

    /// A log that is never read: what these tests need is in memory or in the spill file.
    struct UnreadLog;

    impl Log for UnreadLog {
        fn open(&self, _: &ostler_core::log::NewSession) -> Result<(), LogError> {
            Ok(())
        }

        fn append(&self, _: Batch) -> ostler_core::log::AppendFuture {
            Box::pin(std::future::ready(Ok(())))
        }

        fn read(&self, _: &str, _: u64, _: usize) -> Result<Vec<Event>, LogError> {
            Err(LogError("nothing is read from it".into()))
        }

        fn raw(&self, _: &str) -> Option<PathBuf> {
            None
        }

        fn find(&self, _: &str) -> Result<Option<ostler_core::log::SessionRecord>, LogError> {
            Ok(None)
        }
    }

    #[test]
    fn events_stay_in_memory_until_they_are_stored() {
        let log = Some(Arc::new(UnreadLog) as Arc<dyn Log>);
        let backlog = Backlog::new("s".into(), log, tempfile::env::temp_dir());
        publish(&backlog, 1..=3000);
        assert_eq!(fetched(&backlog, 1), [1, 2, 3]);
        backlog.set_stored(100);
        assert!(backlog.fetch(100, 3).is_err(), "it is in the log");
        assert_eq!(fetched(&backlog, 101), [101, 102, 103]);
        // What a log that fails has not stored is spilled, without a gap.
        backlog.disable_log();
        publish(&backlog, 3001..=5000);
        assert_eq!(fetched(&backlog, 101), [101, 102, 103]);
        assert_eq!(fetched(&backlog, 2999), [2999, 3000, 3001]);
    }

    #[test]
    fn events_that_the_log_serves_do_not_stay_in_memory() {
        let log = Some(Arc::new(UnreadLog) as Arc<dyn Log>);
        let backlog = Backlog::new("s".into(), log, tempfile::env::temp_dir());
        backlog.serve_from_log();
        publish(&backlog, 1..=10);
        backlog.set_stored(10);
        assert_eq!(fetched(&backlog, 1), [1, 2, 3], "nobody has read them");
        backlog.advance_owner(4);
        assert_eq!(fetched(&backlog, 5), [5, 6, 7]);
        assert!(backlog.fetch(4, 3).is_err(), "it is in the log");
        publish(&backlog, 11..=12);
        backlog.advance_owner(12);
        assert_eq!(fetched(&backlog, 11), [11, 12], "they are not stored");
        backlog.set_stored(12);
        assert_eq!(backlog.lock().batches.capacity(), 0);
        assert!(matches!(backlog.at(13), ReadResult::NotYet));
        // Another reader would find a gap with every event.
        backlog.add_reader();
        publish(&backlog, 13..=14);
        backlog.set_stored(14);
        backlog.advance_owner(14);
        assert_eq!(fetched(&backlog, 13), [13, 14]);
    }

    #[test]
    fn only_unread_events_are_spilled() {
        let backlog = backlog();
        publish(&backlog, 1..=1000);
        backlog.advance_owner(1000);
        publish(&backlog, 1001..=3000);
        assert!(!backlog.lock().spill.holds(1000), "it was read");
        assert_eq!(fetched(&backlog, 1001), [1001, 1002, 1003]);
        assert!(backlog.fetch(1000, 3).is_err());
        // What was spilled and read is not needed when spilling starts again further on.
        backlog.advance_owner(3000);
        publish(&backlog, 3001..=5000);
        backlog.advance_owner(3500);
        publish(&backlog, 5001..=6000);
        assert_eq!(fetched(&backlog, 3501), [3501, 3502, 3503]);
        assert!(backlog.fetch(1001, 3).is_err());
    }

    #[test]
    fn events_that_were_read_are_kept_for_other_readers_and_for_the_history() {
        let needed: [fn(&Backlog); 2] = [Backlog::add_reader, Backlog::keep_history];
        for need in needed {
            let backlog = backlog();
            need(&backlog);
            for first in [1, 1001, 2001, 3001] {
                publish(&backlog, first..=first + 999);
                backlog.advance_owner(first + 999);
            }
            assert_eq!(fetched(&backlog, 1), [1, 2, 3]);
            assert_eq!(fetched(&backlog, 1500), [1500, 1501, 1502]);
        }
    }
}
