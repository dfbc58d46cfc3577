//! The store: a directory, a writer thread, and connections for queries.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use ostler_core::event::{Event, Timestamp};
use ostler_core::log::{AppendFuture, Log, LogEntry, LogError, NewSession, SessionRecord};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use crate::approvals::{
    self, Approval, ApprovalDecision, ApprovalFilter, ApprovalSelection, ApprovalState,
    DecideResult,
};
use crate::cancel::Cancel;
use crate::deliveries::{self, Delivery, DeliveryResult};
use crate::error::StoreError;
use crate::files::StoreDir;
use crate::managed::{self, IdempotentRequest, ManagedSession, NewManaged, Orphaned};
use crate::pool::{Pool, QueryLength};
use crate::prune::{self, PruneLimits, Pruned};
use crate::queued_messages::{self, NewQueuedMessage, QueueResult};
use crate::rows::{self, EventRow, Filter, LookupResult, SessionRow, UnknownMessages};
use crate::search::{self, SearchPage, SearchQuery};
use crate::usage::{self, UsageQuery, UsageReport};
use crate::writer::{Job, Writer};
use crate::{database, driver, index};

/// Durable storage of sessions. Dropping it waits until all appended events are written.
#[derive(Debug)]
pub struct Store {
    store_dir: StoreDir,
    writer: Writer,
    /// Opened by queries: most runs only write.
    readers: Pool,
    /// Whether the database cannot be written.
    is_read_only: bool,
    /// Opened for the first search.
    indexer: Mutex<Option<Connection>>,
    /// Opened for the first change that does not go through the writer: only a daemon makes some.
    changer: Mutex<Option<Connection>>,
}

impl Store {
    /// Opens the store in a directory, which is created for its owner only if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be used, belongs to another user or is writable by all users; if the
    /// database is damaged, or was written by a newer Ostler.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let store = Self::open_in_background(dir)?;
        store.writer.wait_until_open()?;
        Ok(store)
    }

    /// Like [`Store::open`], but does not wait for the database, so that an agent can be started
    /// meanwhile. If the database cannot be opened, every other method fails. Waits if a large
    /// database has to be migrated, which may take longer than a session.
    ///
    /// # Errors
    /// If the directory cannot be used, belongs to another user or is writable by all users, or if
    /// a migration failed.
    pub fn open_in_background(dir: &Path) -> Result<Self, StoreError> {
        let store_dir = StoreDir::prepare(dir)?;
        let is_slow = database::opens_slowly(&store_dir);
        let writer = Writer::start(store_dir.clone())
            .map_err(|error| StoreError::unusable(&store_dir.database(), &error))?;
        if is_slow {
            writer.wait_until_open()?;
        }
        Ok(Self {
            store_dir,
            writer,
            readers: Pool::default(),
            is_read_only: false,
            indexer: Mutex::new(None),
            changer: Mutex::new(None),
        })
    }

    /// Opens an existing store read-only: on a read-only file system, or if the disk is full.
    /// Appending to it fails.
    ///
    /// # Errors
    /// If there is no store, the directory belongs to another user or is writable by all users, or
    /// this Ostler cannot read the database.
    pub fn open_to_read(dir: &Path) -> Result<Self, StoreError> {
        let store_dir = StoreDir::find(dir)?;
        let readers = Pool::of(database::open_read_only(&store_dir)?);
        Ok(Self {
            store_dir,
            writer: Writer::none(),
            readers,
            is_read_only: true,
            indexer: Mutex::new(None),
            changer: Mutex::new(None),
        })
    }

    /// Lists the sessions that match a filter, newest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn sessions(&self, filter: &Filter) -> Result<Vec<SessionRow>, StoreError> {
        self.query(|db| rows::list(db, filter))
    }

    /// Returns the session with exactly that Ostler id.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        self.query(|db| rows::session(db, id))
    }

    /// Resolves an id: Ostler's, then the agent's (the newest session with it), then an unambiguous
    /// prefix of either.
    ///
    /// # Errors
    /// If the prefix is ambiguous, or the database cannot be read.
    pub fn look_up(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        match self.query(|db| rows::find(db, id))? {
            LookupResult::NotFound => Ok(None),
            LookupResult::One(row) => Ok(Some(*row)),
            LookupResult::Ambiguous { candidates, more } => Err(StoreError::Ambiguous {
                id: id.to_owned(),
                candidates,
                more,
            }),
        }
    }

    /// Returns unknown messages of agents by kind, in sessions that started since then, the most
    /// frequent first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unknown_messages(&self, since: Timestamp) -> Result<Vec<UnknownMessages>, StoreError> {
        self.query(|db| rows::unknown_messages(db, since))
    }

    /// Returns the newest session in a directory.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn latest(&self, dir: &Path) -> Result<Option<SessionRow>, StoreError> {
        self.query(|db| rows::latest(db, dir))
    }

    /// Sums up the tokens and cost of turns.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        self.long_query(|db| usage::report(db, query))
    }

    /// Searches prompts, replies, reasoning, and the arguments and output of tools, newest first.
    /// Indexes new events first; the first search of an earlier Ostler's store indexes all of them,
    /// which takes long.
    ///
    /// # Errors
    /// If the database cannot be read, or the search was cancelled.
    pub fn search(&self, query: &SearchQuery, cancel: &Cancel) -> Result<SearchPage, StoreError> {
        // What cannot be indexed, since the disk is full, is searched as it is.
        while !self.is_read_only && cancel.check().is_ok() {
            match self.index_some() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "events not indexed");
                    break;
                }
            }
        }
        self.long_query(|db| cancel.guard(db, || search::run(db, query, cancel)))
    }

    /// Adds some events to the index of [`Store::search`], in a short transaction. Returns false if
    /// all are indexed.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn index_some(&self) -> Result<bool, StoreError> {
        if self.is_read_only {
            return Ok(false);
        }
        // After a panic, dropping the transaction has undone the change.
        let mut indexer = self.indexer.lock().unwrap_or_else(PoisonError::into_inner);
        let db = match &mut *indexer {
            Some(db) => db,
            none => none.insert(database::open(&self.store_dir)?),
        };
        search::step(db).map_err(StoreError::database(&self.store_dir.database()))
    }

    /// Returns how many events are not indexed yet, at most: those of removed sessions are counted.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unindexed_events(&self) -> Result<u64, StoreError> {
        self.query(|db| {
            let indexed = search::progress(db)?;
            Ok(rows::last_position(db)?.saturating_sub(index::unsigned(indexed)))
        })
    }

    /// Removes one session with its raw output, given by its exact Ostler id, and returns its size.
    ///
    /// # Errors
    /// [`StoreError::Running`] if the session is running. Another error if it is unknown, or the
    /// database cannot be written.
    pub fn remove(&self, session: &str) -> Result<u64, StoreError> {
        self.flush();
        let mut db = database::open(&self.store_dir)?;
        prune::remove(&mut db, &self.store_dir, session)
    }

    /// Removes old sessions, or the oldest until the store is small enough, but no running session.
    /// A dry run only returns which.
    ///
    /// # Errors
    /// If the database cannot be read or written. Sessions removed before the error stay removed.
    pub fn prune(&self, limits: &PruneLimits, dry_run: bool) -> Result<Pruned, StoreError> {
        let (keys, pruned) = self.long_query(|db| prune::plan(db, &self.store_dir, limits))?;
        if !dry_run {
            // First the raw output: it is most of the data, and can be removed even if the disk is
            // too full for the database to change.
            prune::remove_raw(&self.store_dir, &pruned);
            let mut db = database::open(&self.store_dir)?;
            let path = self.store_dir.database();
            let database_error = StoreError::database(&path);
            prune::remove_all(&mut db, &keys).map_err(&database_error)?;
            if let Some(limit) = limits.older_than {
                prune::sweep(&db, &self.store_dir, limit).map_err(&database_error)?;
            }
        }
        Ok(pruned)
    }

    /// Sets how often the writer tries again if another process holds the database's lock, 30
    /// seconds each time; 0 by default. Events wait meanwhile, and none is lost.
    pub fn set_lock_retries(&self, retries: u32) {
        self.writer.set_lock_retries(retries);
    }

    /// Waits until all appended events are written or rejected.
    pub fn flush(&self) {
        let (reply, done) = mpsc::sync_channel(1);
        if self.writer.send(Job::Flush(reply)).is_ok() {
            let _ = done.recv(); // an error means that the thread has ended
        }
    }

    /// Returns stored events of one session from `from` on, as they were written. Limits are those
    /// of [`Log::read`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn event_rows(
        &self,
        session: &str,
        from: u64,
        most: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        self.query(|db| rows::event_rows(db, session, from, most))
    }

    /// Returns stored events of all sessions after a position, in the order in which they were
    /// stored. Limits are those of [`Log::read`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn events_after(&self, position: u64, most: usize) -> Result<Vec<EventRow>, StoreError> {
        self.query(|db| rows::events_after(db, position, most))
    }

    /// Returns the position of the newest event; 0 if there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn last_position(&self) -> Result<u64, StoreError> {
        self.query(rows::last_position)
    }

    /// Returns the number of a session's last event; 0 if it has none.
    ///
    /// # Errors
    /// If there is no such session, or the database cannot be read.
    pub fn last_seq(&self, session: &str) -> Result<u64, StoreError> {
        let found = self.query(|db| index::find(db, session))?;
        found
            .map(|cursor| cursor.last)
            .ok_or_else(|| StoreError::session(session, &"there is no such session"))
    }

    /// Returns the last event of a kind in a session, as JSON.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn last_event(&self, session: &str, kind: &str) -> Result<Option<String>, StoreError> {
        self.query(|db| rows::last_event(db, session, kind))
    }

    /// Stores a session that a daemon is going to start, and labels and raw file for it.
    ///
    /// # Errors
    /// If its id exists, or the database cannot be written.
    pub fn create_managed(&self, new: &NewManaged) -> Result<(), StoreError> {
        self.store_dir
            .create_raw(&new.session.session)
            .map_err(|error| StoreError::unusable(&self.store_dir.database(), &error))?;
        let started = driver::started(new.session.pid);
        self.change(|db| managed::create(db, new, started))
    }

    /// Marks a managed session as started by this process. Returns false if it was not waiting.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn dequeue(&self, session: &str) -> Result<bool, StoreError> {
        let pid = std::process::id();
        let started = driver::started(pid);
        self.change(|db| managed::dequeue(db, session, pid, started))
    }

    /// Stores a message to a session that waits to be started.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn queue_message(&self, message: &NewQueuedMessage<'_>) -> Result<QueueResult, StoreError> {
        self.change(|db| queued_messages::add(db, message))
    }

    /// Returns the messages that wait for the start of a session, in order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn queued_messages(&self, session: &str) -> Result<Vec<String>, StoreError> {
        self.query(|db| queued_messages::all(db, session))
    }

    /// Removes the messages that wait for the start of a session.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn remove_queued_messages(&self, session: &str) -> Result<(), StoreError> {
        self.change(|db| queued_messages::remove(db, session))
    }

    /// Makes this process the driver of a session that runs elsewhere, and that an earlier process
    /// followed.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn adopt(&self, session: &str) -> Result<(), StoreError> {
        let pid = std::process::id();
        let started = driver::started(pid);
        self.change(|db| managed::adopt(db, session, pid, started))
    }

    /// Returns what a daemon stored about a session, given by its exact Ostler id.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn managed(&self, session: &str) -> Result<Option<ManagedSession>, StoreError> {
        self.query(|db| managed::managed(db, session))
    }

    /// Returns the managed sessions that wait to be started, the oldest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn queued(&self) -> Result<Vec<ManagedSession>, StoreError> {
        self.query(managed::queued)
    }

    /// Returns the managed sessions that have not ended although their daemon is gone.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn orphaned(&self) -> Result<Vec<Orphaned>, StoreError> {
        self.query(managed::orphaned)
    }

    /// Returns the sessions that a session's agent started, the oldest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn children(&self, parent: &str) -> Result<Vec<SessionRow>, StoreError> {
        self.query(|db| managed::children(db, parent))
    }

    /// Makes these the webhooks, by name. One that is new gets the events from now on; deliveries
    /// to others are dropped.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn set_webhooks(&self, names: &[&str]) -> Result<(), StoreError> {
        self.change(|db| deliveries::set_webhooks(db, names))
    }

    /// Adds a delivery for each event since the last call that `is_wanted` selects, given by its
    /// kind and its JSON. Only sessions of a daemon have deliveries. Returns true if there are more
    /// events to examine.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn add_deliveries(
        &self,
        webhook: &str,
        now: Timestamp,
        is_wanted: impl Fn(&str, &str) -> bool,
    ) -> Result<bool, StoreError> {
        self.change(|db| deliveries::add(db, webhook, now, &is_wanted))
    }

    /// Returns the deliveries to a webhook that are due, the oldest event first, and when the next
    /// one is due if there are fewer than `most`.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn due_deliveries(
        &self,
        webhook: &str,
        now: Timestamp,
        most: usize,
    ) -> Result<(Vec<Delivery>, Option<Timestamp>), StoreError> {
        self.query(|db| deliveries::due(db, webhook, now, most))
    }

    /// Records the result of an attempt to deliver.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end_delivery(&self, id: &str, result: DeliveryResult) -> Result<(), StoreError> {
        self.change(|db| deliveries::end(db, id, result))
    }

    /// Lists approvals, the oldest first; with a state, only those in it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn approvals(&self, state: Option<ApprovalState>) -> Result<Vec<Approval>, StoreError> {
        let selection = state.map_or(ApprovalSelection::All, ApprovalSelection::In);
        self.list_approvals(&ApprovalFilter {
            selection,
            ..ApprovalFilter::default()
        })
    }

    /// Lists approvals, page by page.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list_approvals(&self, filter: &ApprovalFilter) -> Result<Vec<Approval>, StoreError> {
        self.query(|db| approvals::list(db, filter))
    }

    /// Returns the approval with this id.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn approval(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        self.query(|db| approvals::get(db, id))
    }

    /// Returns the pending approval of a session's permission request.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn pending_approval(
        &self,
        session: &str,
        request: &str,
    ) -> Result<Option<Approval>, StoreError> {
        self.query(|db| approvals::pending(db, session, request))
    }

    /// Decides an approval, unless it was decided before.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn decide_approval(
        &self,
        id: &str,
        decision: ApprovalDecision<'_>,
    ) -> Result<DecideResult, StoreError> {
        self.change(|db| approvals::decide(db, id, decision))
    }

    /// Marks an approval as withdrawn whose answer did not reach its session.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn withdraw_approval(&self, id: &str) -> Result<(), StoreError> {
        self.change(|db| approvals::withdraw(db, id))
    }

    /// Marks approvals of a session whose process is gone as withdrawn, if they were allowed but
    /// the answer did not reach the session.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn withdraw_undelivered(&self, session: &str) -> Result<(), StoreError> {
        self.change(|db| approvals::withdraw_undelivered(db, session))
    }

    /// Marks the approvals of a session that is followed again as pending, with a new deadline, if
    /// its events have no answer to them. An answer that was decided may not have arrived.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn reopen_undelivered(
        &self,
        session: &str,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.change(|db| approvals::reopen_undelivered(db, session, expires_at))
    }

    /// Registers a request with an idempotency key. The fingerprint identifies its content.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn begin_idempotent(
        &self,
        key: &str,
        fingerprint: &str,
        at: Timestamp,
    ) -> Result<IdempotentRequest, StoreError> {
        self.change(|db| managed::begin_idempotent(db, key, fingerprint, at))
    }

    /// Stores the response to a request with an idempotency key; `None` forgets the request.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end_idempotent(&self, key: &str, response: Option<&str>) -> Result<(), StoreError> {
        self.change(|db| managed::end_idempotent(db, key, response))
    }

    /// Forgets requests with an idempotency key that have no response. Called when a daemon starts.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn forget_unanswered(&self) -> Result<(), StoreError> {
        self.change(managed::forget_unanswered)
    }

    /// Makes a change in one transaction.
    pub(crate) fn change<T>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // After a panic, dropping the transaction has undone the change.
        let mut changer = self.changer.lock().unwrap_or_else(PoisonError::into_inner);
        let db = match &mut *changer {
            Some(db) => db,
            none => none.insert(database::open(&self.store_dir)?),
        };
        let path = self.store_dir.database();
        let attempt = || -> rusqlite::Result<T> {
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = run(&change)?;
            change.commit()?;
            Ok(result)
        };
        attempt().map_err(StoreError::database(&path))
    }

    pub(crate) fn query<T>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(QueryLength::Short, run)
    }

    /// Makes a query that may read most of the database.
    fn long_query<T>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(QueryLength::Long, run)
    }

    fn read<T>(
        &self,
        length: QueryLength,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let open = || {
            if self.is_read_only {
                return database::open_read_only(&self.store_dir);
            }
            self.writer.wait_until_open()?;
            database::open_to_read(&self.store_dir)
        };
        let result = self.readers.with(length, open, run)?;
        result.map_err(StoreError::database(&self.store_dir.database()))
    }
}

/// The error if the writer thread has ended.
fn writer_ended() -> LogError {
    LogError("the writer thread of the store has ended".to_owned())
}

impl Log for Store {
    fn open(&self, new_session: &NewSession) -> Result<(), LogError> {
        self.store_dir.create_raw(&new_session.session)?;
        let started = driver::started(new_session.pid);
        self.writer
            .send(Job::Open(new_session.clone(), started))
            .map_err(|_| writer_ended())
    }

    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let (reply, done) = oneshot::channel();
        // If sending fails, `reply` is dropped, and the wait below ends at once.
        let _ = self.writer.send(Job::Append(entries, reply));
        Box::pin(async move { done.await.unwrap_or_else(|_| Err(writer_ended())) })
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        Ok(self.query(|db| rows::events(db, session, from, most))?)
    }

    fn raw(&self, session: &str) -> Option<PathBuf> {
        self.store_dir.raw(session)
    }

    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError> {
        Ok(self.look_up(id)?.map(SessionRecord::from))
    }
}
