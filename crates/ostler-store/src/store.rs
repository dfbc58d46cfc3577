//! The store itself: a directory, a thread that writes, a connection that reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use ostler_core::event::{At, Event};
use ostler_core::log::{Appending, Entry, Log, LogError, Opening, SessionRecord};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::files::Place;
use crate::prune::{self, Keep, Pruned};
use crate::rows::{self, Filter, Meant, SessionRow, UnknownMessages};
use crate::search::{self, SearchHit};
use crate::usage::{self, UsageQuery, UsageReport};
use crate::writer::{Job, Writer};
use crate::{database, driver};

/// A place where sessions are kept. When it is dropped, it waits until everything that was appended is written.
#[derive(Debug)]
pub struct Store {
    place: Place,
    writer: Writer,
    /// Opened when something is read: most runs only write.
    reader: Mutex<Option<Connection>>,
}

impl Store {
    /// Opens the store in a directory, made if need be, for its owner alone.
    ///
    /// # Errors
    /// When the directory cannot be used, belongs to somebody else or may be written by everybody; when the database
    /// is damaged, or of a newer Ostler.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let place = Place::prepare(dir)?;
        let connection = database::open(&place)?;
        let path = place.database();
        let writer = Writer::start(connection, path.clone())
            .map_err(|error| StoreError::place(&path, &error))?;
        Ok(Self {
            place,
            writer,
            reader: Mutex::new(None),
        })
    }

    /// Opens a store that is there only to read it: where nothing may be written, or the disk is full. What is appended to
    /// it is refused.
    ///
    /// # Errors
    /// When there is none, the directory belongs to somebody else or may be written by everybody, or the database cannot
    /// be read by this Ostler.
    pub fn open_to_read(dir: &Path) -> Result<Self, StoreError> {
        let place = Place::find(dir)?;
        let reader = Mutex::new(Some(database::open_read_only(&place)?));
        Ok(Self {
            place,
            writer: Writer::none(),
            reader,
        })
    }

    /// The sessions that fit, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn sessions(&self, filter: &Filter) -> Result<Vec<SessionRow>, StoreError> {
        self.ask(|db| rows::list(db, filter))
    }

    /// The session of exactly that id of Ostler's.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        self.ask(|db| rows::session(db, id))
    }

    /// Resolves an id: Ostler's own, then the agent's (the newest session with it), then an unambiguous prefix of either.
    ///
    /// # Errors
    /// When the prefix is ambiguous, or the database cannot be read.
    pub fn look_up(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        match self.ask(|db| rows::find(db, id))? {
            Meant::Nothing => Ok(None),
            Meant::One(row) => Ok(Some(*row)),
            Meant::Several { candidates, more } => Err(StoreError::Ambiguous {
                id: id.to_owned(),
                candidates,
                more,
            }),
        }
    }

    /// What agents said that Ostler does not know, in sessions that began since then: by its kind, the most frequent first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn unknown_messages(&self, since: At) -> Result<Vec<UnknownMessages>, StoreError> {
        self.ask(|db| rows::unknown_messages(db, since))
    }

    /// The newest session in a directory.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn latest(&self, dir: &Path) -> Result<Option<SessionRow>, StoreError> {
        self.ask(|db| rows::latest(db, dir))
    }

    /// Sums up tokens and costs of turns.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        self.ask(|db| usage::report(db, query))
    }

    /// Finds sessions in which a text was said, the newest first: in a prompt, an answer or a tool call's arguments,
    /// ignoring case. One event at a time is in memory.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn search(&self, text: &str, filter: &Filter) -> Result<Vec<SearchHit>, StoreError> {
        self.ask(|db| search::run(db, text, filter))
    }

    /// Removes one session with its raw output, given by exactly Ostler's id, and returns its size.
    ///
    /// # Errors
    /// [`StoreError::Running`] when the session is running; otherwise when it is unknown, or the database cannot be written.
    pub fn remove(&self, session: &str) -> Result<u64, StoreError> {
        self.flush();
        let mut db = database::open(&self.place)?;
        prune::remove(&mut db, &self.place, session)
    }

    /// Lets old sessions go, and the oldest of too many; never one that is under way. A dry run only says which.
    ///
    /// # Errors
    /// When the database cannot be read or written. What went until then is gone.
    pub fn prune(&self, keep: &Keep, dry_run: bool) -> Result<Pruned, StoreError> {
        let (keys, pruned) = self.ask(|db| prune::plan(db, &self.place, keep))?;
        if !dry_run {
            // They are most of what is kept, and can go when the disk is too full for the database to change.
            prune::remove_raw(&self.place, &pruned);
            let mut db = database::open(&self.place)?;
            let path = self.place.database();
            let wrong = StoreError::database(&path);
            prune::carry_out(&mut db, &keys).map_err(&wrong)?;
            if let Some(limit) = keep.older_than {
                prune::sweep(&db, &self.place, limit).map_err(&wrong)?;
            }
        }
        Ok(pruned)
    }

    /// Waits until everything that was appended is written, or was refused.
    pub fn flush(&self) {
        let (tell, done) = mpsc::sync_channel(1);
        if self.writer.send(Job::Flush(tell)).is_ok() {
            let _ = done.recv(); // the thread ended: nothing is waited for any more
        }
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // A reader that panicked has left nothing half done: it only reads.
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let db = match &mut *reader {
            Some(db) => db,
            none => none.insert(database::open_to_read(&self.place)?),
        };
        question(db).map_err(StoreError::database(&self.place.database()))
    }
}

/// What is said when the thread is gone.
fn gone() -> LogError {
    LogError("the thread that keeps sessions has ended".to_owned())
}

impl Log for Store {
    fn open(&self, opening: &Opening) -> Result<(), LogError> {
        self.place.make_raw(&opening.session)?;
        let started = driver::started(opening.pid);
        self.writer
            .send(Job::Open(opening.clone(), started))
            .map_err(|_| gone())
    }

    fn append(&self, entries: Arc<Vec<Entry>>) -> Appending {
        let (tell, done) = oneshot::channel();
        // If it cannot be sent, its end of the channel is dropped, and the wait below is over at once.
        let _ = self.writer.send(Job::Append(entries, tell));
        Box::pin(async move { done.await.unwrap_or_else(|_| Err(gone())) })
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        Ok(self.ask(|db| rows::events(db, session, from, most))?)
    }

    fn raw(&self, session: &str) -> Option<PathBuf> {
        self.place.raw(session)
    }

    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError> {
        Ok(self.look_up(id)?.map(SessionRecord::from))
    }
}
