//! The events of a session as its readers find them: the newest in memory, older ones in the log or in a file of their own.
//!
//! There is one writer, the session's task, which never waits for a reader. A reader is a place in the sequence. One that is
//! so slow that its place is no longer in memory is told of the gap, and can fetch what it missed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_core::event::Event;
use ostler_core::log::{Entry, Log, LogError, PAGE_BYTES};
use tokio::sync::{Notify, watch};

use super::spill::Spill;

/// In-memory backlog limits: number of events, and their size in bytes.
const EVENTS: u64 = 1024;
const BYTES: usize = 2 * 1024 * 1024;

/// How many events are fetched at once at most: nobody waits long for the lock.
const PAGE: usize = 1000;

/// Events that were told together.
pub(super) type Batch = Arc<Vec<Entry>>;

/// What the task tells and the readers read.
pub(super) struct Backlog {
    kept: Mutex<Kept>,
    /// The last event that was told, and whether more will come.
    told: watch::Sender<Told>,
    /// The session's own reader has come along.
    came: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) last: u64,
    pub(super) over: bool,
}

struct Kept {
    batches: VecDeque<(Batch, usize)>,
    /// The first event in memory.
    first: u64,
    /// The last one.
    last: u64,
    bytes: usize,
    log: Option<Arc<dyn Log>>,
    /// The last event that the log has, once it failed.
    log_ends: Option<u64>,
    /// Where events go that leave the memory, when no log has them.
    spill: Spill,
    session: Arc<str>,
    /// How far the session's own reader has come.
    own: u64,
}

/// What a reader finds at its place.
pub(super) enum Found {
    Batch(Batch, usize),
    /// Its place is not in memory any more; this is the first that is.
    Behind(u64),
    /// Nothing yet.
    Nothing,
}

impl Backlog {
    pub(super) fn new(session: Arc<str>, log: Option<Arc<dyn Log>>, temp: PathBuf) -> Arc<Self> {
        let kept = Kept {
            batches: VecDeque::new(),
            first: 1,
            last: 0,
            bytes: 0,
            log,
            log_ends: None,
            spill: Spill::new(temp),
            session,
            own: 0,
        };
        let told = watch::Sender::new(Told {
            last: 0,
            over: false,
        });
        Arc::new(Self {
            kept: Mutex::new(kept),
            told,
            came: Notify::new(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes events, of this size in memory, to the readers.
    pub(super) fn publish(&self, batch: Batch, bytes: usize) {
        let Some(last) = batch.last().map(|entry| entry.event.seq) else {
            return;
        };
        let mut kept = self.kept();
        kept.last = last;
        kept.bytes += bytes;
        kept.batches.push_back((batch, bytes));
        kept.evict();
        drop(kept);
        self.told.send_replace(Told { last, over: false });
    }

    /// Nothing more will come.
    pub(super) fn finish(&self) {
        self.told.send_modify(|told| told.over = true);
    }

    /// The log failed: what it does not have is kept in a file. What it has can still be read.
    pub(super) fn forget_log(&self) {
        let mut kept = self.kept();
        kept.log_ends = Some(kept.last);
    }

    /// Whether more can be told without losing anything.
    pub(super) fn has_room(&self) -> bool {
        let kept = self.kept();
        kept.is_logged() || !kept.spill.is_full() || kept.own >= kept.last || !kept.is_read()
    }

    /// Resolves when the session's own reader has come along.
    pub(super) async fn room(&self) {
        self.came.notified().await;
    }

    pub(super) fn at(&self, place: u64) -> Found {
        let kept = self.kept();
        if place < kept.first {
            return Found::Behind(kept.first);
        }
        let seq = |batch: &Batch| batch.first().map_or(0, |entry| entry.event.seq);
        let after = kept
            .batches
            .partition_point(|(batch, _)| seq(batch) <= place);
        match after.checked_sub(1).and_then(|at| kept.batches.get(at)) {
            Some((batch, _)) if place <= kept.last => {
                let at = usize::try_from(place - seq(batch)).unwrap_or(0);
                Found::Batch(batch.clone(), at)
            }
            _ => Found::Nothing,
        }
    }

    /// The session's own reader has everything up to this event.
    pub(super) fn read_by_owner(&self, seq: u64) {
        let mut kept = self.kept();
        kept.own = seq;
        kept.evict();
        drop(kept);
        self.came.notify_one();
    }

    /// The first event from `from` on that can still be had.
    pub(super) fn first_from(&self, from: u64) -> u64 {
        let kept = self.kept();
        kept.spill.first_from(from).unwrap_or(kept.first)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    /// A page of events from `from` on, within the bounds of [`Log::read`]. It may block for a moment.
    pub(super) fn fetch(&self, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let (from, most) = (from.max(1), most.min(PAGE));
        let mut kept = self.kept();
        if from >= kept.first {
            let entries = kept.batches.iter().flat_map(|(batch, _)| batch.iter());
            let wanted = entries.filter(|entry| entry.event.seq >= from).take(most);
            let mut bytes = 0;
            let page = wanted.enumerate().take_while(|(n, entry)| {
                bytes += entry.event.weight();
                *n == 0 || bytes <= PAGE_BYTES
            });
            return Ok(page.map(|(_, entry)| entry.event.clone()).collect());
        }
        if kept.spill.holds(from) {
            return kept.spill.read(from, most);
        }
        let end = kept
            .log_ends
            .map_or(kept.first - 1, |end| end.min(kept.first - 1));
        let Some(log) = kept.log.clone().filter(|_| from <= end) else {
            return Err(LogError(format!("event {from} is not kept any more")));
        };
        let session = kept.session.clone();
        drop(kept);
        log.read(
            &session,
            from,
            most.min(usize::try_from(end - from + 1).unwrap_or(most)),
        )
    }
}

impl Kept {
    /// Whether the log keeps what is told.
    fn is_logged(&self) -> bool {
        self.log.is_some() && self.log_ends.is_none()
    }

    /// Whether the session's own reader reads at all; some callers only have other readers.
    fn is_read(&self) -> bool {
        self.own > 0
    }

    /// Drops the oldest batches while there are too many. The last one stays as long as the session's own reader is about
    /// to read it, or none has read at all: one that is far behind gets it from the log.
    fn evict(&mut self) {
        let too_many = |kept: &Self| kept.last + 1 - kept.first > EVENTS || kept.bytes > BYTES;
        let is_next =
            |kept: &Self| !kept.is_read() || (kept.first..=kept.last).contains(&(kept.own + 1));
        while too_many(self) && (self.batches.len() > 1 || !is_next(self)) {
            if !self.drop_oldest() {
                break;
            }
        }
    }

    /// Makes room; false when that would lose something that the session's own reader still needs.
    fn drop_oldest(&mut self) -> bool {
        let Some((batch, bytes)) = self.batches.pop_front() else {
            return false;
        };
        let last = batch.last().map_or(0, |entry| entry.event.seq);
        if !self.is_logged() && !self.spill.write(&batch) && self.is_read() && self.own < last {
            self.batches.push_front((batch, bytes));
            return false;
        }
        self.bytes -= bytes;
        self.first += batch.len() as u64;
        true
    }
}
