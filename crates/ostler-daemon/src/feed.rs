//! The log of all sessions, which wakes the readers of a session when its events are stored.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::event::Event;
use ostler_core::log::{AppendFuture, Log, LogEntry, LogError, NewSession, SessionRecord};
use ostler_store::Store;
use tokio::sync::watch;

/// Stores events, and then wakes readers. Readers get everything from the store, so none is ever
/// dropped, and none can block a session.
pub(crate) struct Feed {
    store: Arc<Store>,
    sessions: Mutex<HashMap<String, watch::Sender<u64>>>,
    /// Changes with every append.
    all: watch::Sender<u64>,
    /// Sessions whose events were stored late.
    delayed: Mutex<HashSet<String>>,
}

/// How long an append may take before its session reports that it was late.
const LATE: Duration = Duration::from_secs(20);

impl Feed {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            sessions: Mutex::default(),
            all: watch::Sender::new(0),
            delayed: Mutex::default(),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session that this process runs.
    pub(crate) fn add(&self, session: &str) {
        self.sessions()
            .insert(session.to_owned(), watch::Sender::new(0));
    }

    /// Removes a session: no event follows. Its readers see the end of the channel.
    pub(crate) fn remove(&self, session: &str) {
        self.sessions().remove(session);
    }

    /// Returns a receiver that changes when events of the session are stored, or `None` if this
    /// process does not run it.
    pub(crate) fn subscribe(&self, session: &str) -> Option<watch::Receiver<u64>> {
        self.sessions().get(session).map(watch::Sender::subscribe)
    }

    /// Returns a receiver that changes when any event is stored.
    pub(crate) fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    fn delayed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.delayed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true, once, if events of the session were stored late.
    pub(crate) fn take_delayed(&self, session: &str) -> bool {
        self.delayed().remove(session)
    }

    fn on_stored(&self, session: &str, seq: u64) {
        if let Some(sender) = self.sessions().get(session) {
            sender.send_replace(seq);
        }
        self.all.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A feed as the log of a host.
pub(crate) struct FeedLog(pub(crate) Arc<Feed>);

impl Log for FeedLog {
    /// The manager stored the session when it was created.
    fn open(&self, _: &NewSession) -> Result<(), LogError> {
        Ok(())
    }

    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let feed = self.0.clone();
        let last = entries
            .last()
            .map(|entry| (entry.event.session.clone(), entry.event.seq));
        let mut stored = feed.store.append(entries);
        Box::pin(async move {
            match tokio::time::timeout(LATE, &mut stored).await {
                Ok(result) => result?,
                Err(_) => {
                    stored.await?;
                    let session = last.as_ref().map(|(session, _)| session.to_string());
                    feed.delayed().extend(session);
                }
            }
            if let Some((session, seq)) = last {
                feed.on_stored(&session, seq);
            }
            Ok(())
        })
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        self.0.store.read(session, from, most)
    }

    fn raw(&self, session: &str) -> Option<PathBuf> {
        self.0.store.raw(session)
    }

    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError> {
        self.0.store.find(id)
    }
}
