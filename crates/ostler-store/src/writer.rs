//! Writer thread: opens the database, batches all waiting jobs into one transaction, then completes
//! them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use ostler_core::log::{LogEntry, LogError, NewSession};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::oneshot;

use crate::database;
use crate::error::StoreError;
use crate::files::StoreDir;
use crate::index::{self, SessionCursor};

/// Maximum number of jobs in one transaction, so that other processes can write too.
const MAX_BATCH: usize = 1024;

/// A job for the writer thread.
pub(crate) enum Job {
    /// Opens a session. The second value is when its process started.
    Open(NewSession, Option<u64>),
    /// Stores events of one session, and reports the result.
    Append(Arc<Vec<LogEntry>>, oneshot::Sender<Result<(), LogError>>),
    /// Reports that all earlier jobs are done.
    Flush(SyncSender<()>),
}

impl Job {
    fn session(&self) -> Option<&str> {
        match self {
            Self::Open(new_session, _) => Some(&new_session.session),
            Self::Append(entries, _) => entries.first().map(|entry| &*entry.event.session),
            Self::Flush(_) => None,
        }
    }

    /// Reports the result to whoever waits for it.
    fn reply(self, result: Result<(), StoreError>) {
        match self {
            // Sending fails if the session was dropped, and no one waits for the result.
            Self::Append(_, reply) => drop(reply.send(result.map_err(LogError::from))),
            Self::Flush(reply) => drop(reply.send(())),
            Self::Open(..) => {}
        }
    }
}

/// Handle of the writer thread. Dropping it waits until all jobs are done.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    opened: Arc<OnceLock<Result<(), StoreError>>>,
    lock_retries: Arc<AtomicU32>,
}

impl Writer {
    /// Starts the thread, which opens the database first.
    pub(crate) fn start(store_dir: StoreDir) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let opened = Arc::new(OnceLock::new());
        let result = opened.clone();
        let lock_retries = Arc::<AtomicU32>::default();
        let retries = lock_retries.clone();
        let work = move || match database::open(&store_dir) {
            Ok(connection) => {
                let path = store_dir.database();
                tracing::debug!(path = %path.display(), "store opened");
                let _ = result.set(Ok(()));
                WriterThread {
                    connection,
                    path,
                    cursors: HashMap::new(),
                    failed: HashMap::new(),
                    lock_retries: retries,
                }
                .run(&waiting);
            }
            Err(error) => {
                tracing::warn!(%error, "store not opened");
                let _ = result.set(Err(error.clone()));
                waiting.iter().for_each(|job| job.reply(Err(error.clone())));
            }
        };
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(work)?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            opened,
            lock_retries,
        })
    }

    /// Returns a handle without a thread, for a read-only store.
    pub(crate) fn none() -> Self {
        Self {
            jobs: None,
            thread: None,
            opened: Arc::new(OnceLock::from(Ok(()))),
            lock_retries: Arc::default(),
        }
    }

    /// Sets how often to try again if another process holds the database's lock.
    pub(crate) fn set_lock_retries(&self, retries: u32) {
        self.lock_retries.store(retries, Ordering::Relaxed);
    }

    /// Waits until the database is open, or could not be opened.
    pub(crate) fn wait_until_open(&self) -> Result<(), StoreError> {
        self.opened.wait().clone()
    }

    /// Sends a job. Returns it if the thread has ended.
    pub(crate) fn send(&self, job: Job) -> Result<(), Box<Job>> {
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|mpsc::SendError(job)| Box::new(job)),
            None => Err(Box::new(job)),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // after a panic, the senders of waiting jobs were dropped
        }
    }
}

/// State of the thread: the connection, and the running sessions.
struct WriterThread {
    connection: Connection,
    path: PathBuf,
    cursors: HashMap<String, SessionCursor>,
    /// Sessions that lost an event. Later events are rejected, since there would be a gap.
    failed: HashMap<String, StoreError>,
    lock_retries: Arc<AtomicU32>,
}

impl WriterThread {
    fn run(mut self, waiting: &Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            let mut jobs = vec![first];
            // A session is stored together with its first events.
            while jobs.iter().all(|job| matches!(job, Job::Open(..)))
                && let Ok(next) = waiting.recv()
            {
                jobs.push(next);
            }
            jobs.extend(waiting.try_iter().take(MAX_BATCH - 1));
            self.write(jobs);
        }
    }

    fn write(&mut self, jobs: Vec<Job>) {
        let (rejected, jobs): (Vec<Job>, Vec<Job>) = jobs
            .into_iter()
            .partition(|job| self.earlier_failure(job).is_some());
        rejected.into_iter().for_each(|job| self.write_alone(job));
        match self.transact(&jobs) {
            Ok(()) => jobs.into_iter().for_each(|job| self.complete(job, Ok(()))),
            // One session's job is invalid: the others are written separately.
            Err(StoreError::Session { .. }) => {
                jobs.into_iter().for_each(|job| self.write_alone(job));
            }
            Err(error) => jobs
                .into_iter()
                .for_each(|job| self.complete(job, Err(error.clone()))),
        }
    }

    fn write_alone(&mut self, job: Job) {
        let result = match self.earlier_failure(&job) {
            Some(error) => Err(error.clone()),
            None => self.transact(std::slice::from_ref(&job)),
        };
        self.complete(job, result);
    }

    /// Returns why the job's session does not accept any more events.
    fn earlier_failure(&self, job: &Job) -> Option<&StoreError> {
        self.failed.get(job.session()?)
    }

    /// Runs all jobs in one transaction, and tries again if another process holds the lock.
    fn transact(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let mut retries = 0;
        loop {
            let result = self.try_transact(jobs);
            let is_locked = matches!(result, Err(StoreError::Locked { .. }));
            if !is_locked || retries >= self.lock_retries.load(Ordering::Relaxed) {
                return result;
            }
            retries += 1;
            tracing::warn!(path = %self.path.display(), "the database is locked: trying again");
        }
    }

    fn try_transact(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let Self {
            connection,
            path,
            cursors,
            ..
        } = self;
        let mut attempt = || -> Result<(), StoreError> {
            let database_error = StoreError::database(path);
            let change = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(&database_error)?;
            let reused = index::reused_positions(&change).map_err(&database_error)?;
            for job in jobs {
                apply(&change, job, cursors, path)?;
            }
            if let Some(reused) = reused {
                index::move_positions(&change, reused).map_err(&database_error)?;
            }
            change.commit().map_err(&database_error)
        };
        let result = attempt();
        if result.is_err() {
            self.cursors.clear(); // they may be ahead of the rolled-back database
        }
        result
    }

    fn complete(&mut self, job: Job, result: Result<(), StoreError>) {
        if let (Err(error), Some(session)) = (&result, job.session()) {
            tracing::warn!(session, %error, "events not stored");
            self.failed
                .entry(session.to_owned())
                .or_insert_with(|| error.clone());
        }
        job.reply(result);
    }
}

fn apply(
    db: &Connection,
    job: &Job,
    cursors: &mut HashMap<String, SessionCursor>,
    path: &Path,
) -> Result<(), StoreError> {
    match job {
        Job::Open(new_session, started) => {
            let key = index::open(db, new_session, *started)
                .map_err(|error| attribute(error, &new_session.session, path))?;
            cursors.insert(new_session.session.clone(), SessionCursor { key, last: 0 });
            Ok(())
        }
        Job::Append(entries, _) => append(db, entries, cursors, path),
        Job::Flush(_) => Ok(()),
    }
}

fn append(
    db: &Connection,
    entries: &[LogEntry],
    cursors: &mut HashMap<String, SessionCursor>,
    path: &Path,
) -> Result<(), StoreError> {
    let Some(first) = entries.first() else {
        return Ok(());
    };
    let session: &str = &first.event.session;
    if !cursors.contains_key(session) {
        let found = index::find(db, session).map_err(StoreError::database(path))?;
        let found = found
            .ok_or_else(|| StoreError::session(session, &"it was never opened, or was pruned"))?;
        cursors.insert(session.to_owned(), found);
    }
    let Some(cursor) = cursors.get_mut(session) else {
        return Ok(());
    };
    for entry in entries {
        let seq = entry.event.seq;
        if *entry.event.session != *session || seq != cursor.last + 1 {
            let why = format!(
                "event {seq} of {} cannot follow event {}",
                entry.event.session, cursor.last
            );
            return Err(StoreError::session(session, &why));
        }
        index::append(db, cursor.key, entry).map_err(|error| attribute(error, session, path))?;
        cursor.last = seq;
    }
    if entries
        .last()
        .is_some_and(|entry| matches!(entry.event.kind, ostler_core::event::EventKind::Ended(_)))
    {
        cursors.remove(session); // no event follows
    }
    Ok(())
}

/// Attributes an error to the session or to the database.
fn attribute(error: rusqlite::Error, session: &str, path: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
            StoreError::session(session, &error)
        }
        _ => StoreError::database(path)(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn thread(dir: &Path, retries: u32) -> (WriterThread, Connection) {
        let store_dir = StoreDir::prepare(dir).unwrap();
        let connect = || {
            let connection = database::open(&store_dir).unwrap();
            connection.busy_timeout(Duration::from_millis(1)).unwrap();
            connection
        };
        let thread = WriterThread {
            connection: connect(),
            path: store_dir.database(),
            cursors: HashMap::new(),
            failed: HashMap::new(),
            lock_retries: Arc::new(AtomicU32::new(retries)),
        };
        (thread, connect())
    }

    // Whoever can write to the directory can hold the lock for as long as they like.
    #[test]
    fn a_locked_database_is_tried_again() {
        for retries in [0, u32::MAX] {
            let dir = tempfile::tempdir().unwrap();
            let (mut thread, other) = thread(dir.path(), retries);
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            let holder = std::thread::spawn(move || {
                if retries > 0 {
                    std::thread::sleep(Duration::from_millis(200));
                    other.execute_batch("COMMIT").unwrap();
                }
                other
            });
            let (reply, _done) = mpsc::sync_channel(1);
            let result = thread.transact(&[Job::Flush(reply)]);
            match retries {
                0 => assert!(
                    matches!(result, Err(StoreError::Locked { .. })),
                    "{result:?}"
                ),
                _ => result.unwrap(),
            }
            holder.join().unwrap();
        }
    }
}
