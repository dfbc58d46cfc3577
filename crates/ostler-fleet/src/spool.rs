//! Spool of a worker: one directory per attempt, with its record and later its result.
//!
//! The record is a file of JSON lines ([`Record`]) that only grows. It is the log of the attempt's
//! sessions, and its bytes are what the owner gets: a position in the file is a position in the
//! subject. A worker that loses its connection, or is restarted, continues from there.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_core::event::Event;
use ostler_core::log::{AppendFuture, Log, LogEntry, LogError, NewSession, SessionRecord};
use ostler_core::request::SessionReply;
use ostler_core::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::message::{OpenedSession, Record, ResultMessage};
use crate::subject::AttemptSubject;

const RECORD: &str = "record.jsonl";
const ENTRY: &str = "attempt.json";
const RESULT: &str = "result.json";

/// Name of the archive of the artifacts.
pub(crate) const ARTIFACTS: &str = "artifacts.tar";

/// What is known about a spooled attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SpoolEntry {
    pub(crate) worker: crate::subject::Token,
    pub(crate) owner: crate::subject::Token,
    pub(crate) run: crate::subject::Token,
    pub(crate) attempt: crate::subject::Token,
    pub(crate) item: String,
    pub(crate) instance: String,
}

impl SpoolEntry {
    pub(crate) fn subject(&self) -> AttemptSubject {
        AttemptSubject {
            worker: self.worker.clone(),
            owner: self.owner.clone(),
            run: self.run.clone(),
            attempt: self.attempt.clone(),
        }
    }
}

/// The spool of one attempt.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: PathBuf,
    pub(crate) entry: SpoolEntry,
    record: Mutex<File>,
    grown: Notify,
}

impl Spool {
    /// Creates the directory of an attempt. An earlier process of this worker must not have had it.
    pub(crate) fn create(spools: &Path, entry: SpoolEntry) -> io::Result<Arc<Self>> {
        let SpoolEntry {
            owner,
            run,
            attempt,
            ..
        } = &entry;
        fs::create_dir_all(spools)?;
        let dir = spools.join(format!("{owner}.{run}.{attempt}"));
        fs::create_dir(&dir)?;
        let text = serde_json::to_vec(&entry)?;
        fs::write(dir.join("draft"), text)?;
        let record = File::options()
            .create(true)
            .append(true)
            .open(dir.join(RECORD))?;
        fs::rename(dir.join("draft"), dir.join(ENTRY))?;
        Ok(Arc::new(Self {
            dir,
            entry,
            record: Mutex::new(record),
            grown: Notify::new(),
        }))
    }

    /// Opens what earlier processes left. Directories that cannot be read are removed: their
    /// attempt had not begun.
    pub(crate) fn leftovers(spools: &Path) -> Vec<Arc<Self>> {
        let dirs = fs::read_dir(spools).into_iter().flatten().flatten();
        let dirs = dirs.map(|entry| entry.path());
        dirs.filter_map(|dir| {
            let opened = Self::reopen(&dir);
            if opened.is_err() {
                let _ = fs::remove_dir_all(&dir);
            }
            opened.ok()
        })
        .collect()
    }

    fn reopen(dir: &Path) -> io::Result<Arc<Self>> {
        let entry = serde_json::from_slice(&fs::read(dir.join(ENTRY))?)?;
        let path = dir.join(RECORD);
        let mut record = File::options().read(true).append(true).open(&path)?;
        // A process that was killed may have left half a line.
        let mut text = Vec::new();
        record.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |last| last + 1);
        if whole < text.len() {
            record.set_len(u64::try_from(whole).unwrap_or(0))?;
        }
        Ok(Arc::new(Self {
            dir: dir.to_owned(),
            entry,
            record: Mutex::new(record),
            grown: Notify::new(),
        }))
    }

    /// Returns a file of the attempt.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the length of the record.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(fs::metadata(self.path(RECORD))?.len())
    }

    /// Reads at most `most` bytes of the record.
    pub(crate) fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(RECORD))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until the record has grown, or the result is there.
    pub(crate) async fn grown(&self) {
        self.grown.notified().await;
    }

    /// Stores the result. Nothing is added to the record afterwards.
    pub(crate) fn finish(&self, result: &ResultMessage) -> io::Result<()> {
        let draft = self.path("draft");
        fs::write(&draft, serde_json::to_vec(result)?)?;
        fs::rename(draft, self.path(RESULT))?;
        self.grown.notify_one();
        Ok(())
    }

    /// Returns the stored result.
    pub(crate) fn result(&self) -> Option<ResultMessage> {
        let text = fs::read(self.path(RESULT)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Removes the spool once the server has everything.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir); // delivered again at the next start, and refused
    }

    /// Adds the usage of the attempt so far. If it fails, the result still has it.
    pub(crate) fn add_usage(&self, session: &str, usage: &Usage) {
        let record = Record::Usage {
            session: session.to_owned(),
            usage: Box::new(usage.clone()),
        };
        if let Err(error) = self.write(&[record]) {
            tracing::warn!(%error, "usage not spooled");
        }
    }

    /// Adds the reply to a request.
    pub(crate) fn add_reply(&self, caller: String, number: u64, reply: SessionReply) {
        let record = Record::Reply {
            caller,
            number,
            reply,
        };
        // The owner stops waiting after a while.
        if let Err(error) = self.write(&[record]) {
            tracing::warn!(%error, "a reply is not spooled");
        }
    }

    fn write(&self, records: &[Record]) -> io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        let mut file = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text)?;
        drop(file);
        self.grown.notify_one();
        Ok(())
    }
}

/// Returns an event as a record.
fn event_record(event: &Event) -> io::Result<Record> {
    Ok(Record::Event(RawValue::from_string(event.to_json())?))
}

impl Log for Spool {
    fn open(&self, opening: &NewSession) -> Result<(), LogError> {
        let opened = Record::Opened(OpenedSession::from(opening));
        self.write(&[opened])
            .map_err(|error| LogError(error.to_string()))
    }

    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let records: io::Result<Vec<Record>> = entries
            .iter()
            .map(|entry| event_record(&entry.event))
            .collect();
        let written = records.and_then(|records| self.write(&records));
        Box::pin(std::future::ready(
            written.map_err(|error| LogError(error.to_string())),
        ))
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let unreadable = |error: io::Error| LogError(error.to_string());
        let file = File::open(self.path(RECORD)).map_err(unreadable)?;
        let mut events = Vec::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(unreadable)?;
            let Ok(Record::Event(text)) = serde_json::from_str(&line) else {
                continue;
            };
            let Ok(event) = Event::from_json(text.get()) else {
                continue;
            };
            if *event.session == *session && event.seq >= from {
                events.push(event);
            }
            if events.len() >= most {
                break;
            }
        }
        Ok(events)
    }

    fn raw(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn find(&self, _: &str) -> Result<Option<SessionRecord>, LogError> {
        Ok(None)
    }
}
