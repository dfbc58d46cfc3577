//! The one thread that writes. What waits for it goes into one transaction; then all who wait are told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

use ostler_core::log::{Entry, LogError, Opening};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::index::{self, Place};

/// How many requests go into one transaction at most: other processes want to write too.
const MOST: usize = 1024;

/// What the thread is asked to do.
pub(crate) enum Job {
    /// A session begins; with when its driver started.
    Open(Opening, Option<u64>),
    /// Events of one session, and who wants to know when they are kept.
    Append(Arc<Vec<Entry>>, oneshot::Sender<Result<(), LogError>>),
    /// Everything before this was done.
    Flush(SyncSender<()>),
}

impl Job {
    fn session(&self) -> Option<&str> {
        match self {
            Self::Open(opening, _) => Some(&opening.session),
            Self::Append(entries, _) => entries.first().map(|entry| &*entry.event.session),
            Self::Flush(_) => None,
        }
    }
}

/// The way to the thread. Dropping it waits until everything was written.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(connection: Connection, path: PathBuf) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let pen = Pen {
            connection,
            path,
            places: HashMap::new(),
            failed: HashMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || pen.write_all(&waiting))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Nobody writes.
    pub(crate) fn none() -> Self {
        Self {
            jobs: None,
            thread: None,
        }
    }

    /// Hands a job over; it comes back when the thread is gone.
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
            let _ = thread.join(); // if it panicked, those who waited for it were told
        }
    }
}

/// The thread's own: the connection, and what it knows of the sessions under way.
struct Pen {
    connection: Connection,
    path: PathBuf,
    places: HashMap<String, Place>,
    /// Sessions that lost an event. Nothing more is kept of them: there would be a gap.
    failed: HashMap<String, StoreError>,
}

impl Pen {
    fn write_all(mut self, waiting: &Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            let mut jobs = vec![first];
            jobs.extend(waiting.try_iter().take(MOST - 1));
            self.write(jobs);
        }
    }

    fn write(&mut self, jobs: Vec<Job>) {
        let (lost, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| self.lost(job).is_some());
        lost.into_iter().for_each(|job| self.write_alone(job));
        match self.transact(&jobs) {
            Ok(()) => jobs.into_iter().for_each(|job| self.tell(job, Ok(()))),
            // One session asked for what cannot be. The others must not suffer for it.
            Err(StoreError::Session { .. }) => {
                jobs.into_iter().for_each(|job| self.write_alone(job))
            }
            Err(error) => jobs
                .into_iter()
                .for_each(|job| self.tell(job, Err(error.clone()))),
        }
    }

    fn write_alone(&mut self, job: Job) {
        let result = match self.lost(&job) {
            Some(error) => Err(error.clone()),
            None => self.transact(std::slice::from_ref(&job)),
        };
        self.tell(job, result);
    }

    /// Why nothing more is kept of a session.
    fn lost(&self, job: &Job) -> Option<&StoreError> {
        self.failed.get(job.session()?)
    }

    /// Does all of it, or nothing.
    fn transact(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let Self {
            connection,
            path,
            places,
            ..
        } = self;
        let mut attempt = || -> Result<(), StoreError> {
            let wrong = StoreError::database(path);
            let change = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(&wrong)?;
            for job in jobs {
                apply(&change, job, places, path)?;
            }
            change.commit().map_err(&wrong)
        };
        let result = attempt();
        if result.is_err() {
            self.places.clear(); // what was rolled back is not there
        }
        result
    }

    fn tell(&mut self, job: Job, result: Result<(), StoreError>) {
        if let (Err(error), Some(session)) = (&result, job.session()) {
            self.failed
                .entry(session.to_owned())
                .or_insert_with(|| error.clone());
        }
        match job {
            // Nobody waits for it any more: the session was dropped.
            Job::Append(_, tell) => drop(tell.send(result.map_err(LogError::from))),
            Job::Flush(tell) => drop(tell.send(())),
            Job::Open(..) => {}
        }
    }
}

fn apply(
    db: &Connection,
    job: &Job,
    places: &mut HashMap<String, Place>,
    path: &Path,
) -> Result<(), StoreError> {
    match job {
        Job::Open(opening, started) => {
            let key = index::open(db, opening, *started)
                .map_err(|error| blame(error, &opening.session, path))?;
            places.insert(opening.session.clone(), Place { key, last: 0 });
            Ok(())
        }
        Job::Append(entries, _) => match entries.first() {
            Some(first) => append(db, (&first.event.session, entries), places, path),
            None => Ok(()),
        },
        Job::Flush(_) => Ok(()),
    }
}

fn append(
    db: &Connection,
    (session, entries): (&str, &[Entry]),
    places: &mut HashMap<String, Place>,
    path: &Path,
) -> Result<(), StoreError> {
    if !places.contains_key(session) {
        let found = index::find(db, session).map_err(StoreError::database(path))?;
        let found = found
            .ok_or_else(|| StoreError::session(session, &"it was never opened, or was pruned"))?;
        places.insert(session.to_owned(), found);
    }
    let Some(place) = places.get_mut(session) else {
        return Ok(());
    };
    for entry in entries {
        let seq = entry.event.seq;
        if *entry.event.session != *session || seq != place.last + 1 {
            let why = format!(
                "event {seq} of {} cannot follow event {}",
                entry.event.session, place.last
            );
            return Err(StoreError::session(session, &why));
        }
        index::append(db, place.key, entry).map_err(|error| blame(error, session, path))?;
        place.last = seq;
    }
    if entries
        .last()
        .is_some_and(|entry| matches!(entry.event.kind, ostler_core::event::EventKind::Ended(_)))
    {
        places.remove(session); // nothing follows
    }
    Ok(())
}

/// Whether it is the session that cannot be, or the database.
fn blame(error: rusqlite::Error, session: &str, path: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
            StoreError::session(session, &error)
        }
        _ => StoreError::database(path)(error),
    }
}
