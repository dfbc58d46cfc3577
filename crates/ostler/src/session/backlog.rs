//! The events of a session as its readers find them: the newest in memory, older ones in the log or in a file of their own.
//!
//! There is one writer, the session's task, which never waits for a reader. A reader is a place in the sequence. One that is
//! so slow that its place is no longer in memory is told of the gap, and can fetch what it missed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_core::event::Event;
use ostler_core::log::{Entry, Log, LogError};
use tokio::sync::watch;

use super::spill::Spill;

/// How much is kept in memory for the readers: so many events, and what came of so many bytes of the agent's output.
const EVENTS: u64 = 1024;
const BYTES: usize = 4 * 1024 * 1024;

/// Events that were told together.
pub(super) type Batch = Arc<Vec<Entry>>;

/// What the task tells and the readers read.
pub(super) struct Backlog {
    kept: Mutex<Kept>,
    /// The last event that was told, and whether more will come.
    told: watch::Sender<Told>,
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
            spill: Spill::new(temp),
            session,
            own: 0,
        };
        Arc::new(Self { kept: Mutex::new(kept), told: watch::Sender::new(Told { last: 0, over: false }) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the readers. `bytes` of the agent's output are behind it.
    pub(super) fn publish(&self, batch: Batch, bytes: usize) {
        let Some(last) = batch.last().map(|entry| entry.event.seq) else { return };
        let mut kept = self.kept();
        kept.last = last;
        kept.bytes += bytes;
        kept.batches.push_back((batch, bytes));
        while kept.batches.len() > 1 && (kept.last - kept.first >= EVENTS || kept.bytes > BYTES) {
            kept.drop_oldest();
        }
        drop(kept);
        self.told.send_replace(Told { last, over: false });
    }

    /// Nothing more will come.
    pub(super) fn finish(&self) {
        self.told.send_modify(|told| told.over = true);
    }

    /// The log failed: what it does not have is kept in a file.
    pub(super) fn forget_log(&self) {
        self.kept().log = None;
    }

    /// Whether more can be told without losing anything.
    pub(super) fn has_room(&self) -> bool {
        let kept = self.kept();
        kept.log.is_some() || !kept.spill.is_full() || kept.own >= kept.last
    }

    pub(super) fn at(&self, place: u64) -> Found {
        let kept = self.kept();
        if place < kept.first {
            return Found::Behind(kept.first);
        }
        let seq = |batch: &Batch| batch.first().map_or(0, |entry| entry.event.seq);
        let after = kept.batches.partition_point(|(batch, _)| seq(batch) <= place);
        match after.checked_sub(1).and_then(|at| kept.batches.get(at)) {
            Some((batch, _)) if place <= kept.last => {
                let at = usize::try_from(place - seq(batch)).unwrap_or(0);
                Found::Batch(batch.clone(), at)
            }
            _ => Found::Nothing,
        }
    }

    /// The session's own reader has come so far.
    pub(super) fn read_by_owner(&self, seq: u64) {
        self.kept().own = seq;
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    /// At most `most` events from `from` on. It may block for a moment.
    pub(super) fn fetch(&self, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let mut kept = self.kept();
        if from < kept.first {
            if kept.spill.holds(from) {
                return kept.spill.read(from, most);
            }
            let Some(log) = kept.log.clone() else {
                return Err(LogError(format!("event {from} is not kept any more")));
            };
            let (session, end) = (kept.session.clone(), kept.first);
            drop(kept);
            let most = most.min(usize::try_from(end - from).unwrap_or(most));
            return log.read(&session, from, most);
        }
        let entries = kept.batches.iter().flat_map(|(batch, _)| batch.iter());
        Ok(entries.filter(|entry| entry.event.seq >= from).take(most).map(|entry| entry.event.clone()).collect())
    }
}

impl Kept {
    fn drop_oldest(&mut self) {
        let Some((batch, bytes)) = self.batches.pop_front() else { return };
        if self.log.is_none() {
            self.spill.write(&batch);
        }
        self.bytes -= bytes;
        self.first += batch.len() as u64;
    }
}
