//! Events of a trial's session, read from its artifacts so that they need no memory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_core::event::Event;

/// Name of the file with the events of a session.
pub const EVENTS_FILE: &str = "events.jsonl";

/// The events of a session.
#[derive(Debug, Clone)]
pub enum EventLog {
    /// A file with one event per line.
    File(PathBuf),
    /// In memory, because the file could not be written.
    Memory(Arc<[Event]>),
}

impl Default for EventLog {
    fn default() -> Self {
        Self::Memory(Arc::new([]))
    }
}

impl EventLog {
    /// Returns the stored events of a trial with these artifacts.
    #[must_use]
    pub fn of(artifacts: &Path) -> Self {
        Self::File(artifacts.join(EVENTS_FILE))
    }

    /// Iterates over the events. Lines that cannot be read are left out.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let (stored, own) = match self {
            Self::File(path) => (File::open(path).ok(), &[][..]),
            Self::Memory(events) => (None, &events[..]),
        };
        let lines = stored.into_iter().flat_map(|file| {
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            lines.filter_map(|line| Event::from_json(&line).ok())
        });
        lines.chain(own.iter().cloned())
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Writes the events to a file, one per line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::File(own) if own.exists() => fs::copy(own, path).map(drop),
            Self::File(_) => File::create(path).map(drop),
            Self::Memory(events) => {
                let mut file = BufWriter::new(File::create(path)?);
                for event in events.iter() {
                    writeln!(file, "{}", event.to_json())?;
                }
                file.flush()
            }
        }
    }
}

/// Writes the events of a running session.
pub(crate) struct EventWriter {
    path: PathBuf,
    /// `None` if the file could not be created.
    file: Option<BufWriter<File>>,
    /// Events without a file.
    memory: Vec<Event>,
    /// Why an event is missing in the file.
    error: Option<io::Error>,
}

impl EventWriter {
    pub(crate) fn create(artifacts: &Path) -> Self {
        let path = artifacts.join(EVENTS_FILE);
        Self {
            file: File::create(&path).map(BufWriter::new).ok(),
            path,
            memory: Vec::new(),
            error: None,
        }
    }

    /// Adds an event. `is_last` flushes it to the file, which survives this process.
    pub(crate) fn push(&mut self, event: &Event, is_last: bool) {
        let Some(file) = &mut self.file else {
            return self.memory.push(event.clone());
        };
        let mut written = writeln!(file, "{}", event.to_json());
        if is_last {
            written = written.and_then(|()| file.flush());
        }
        self.error = self.error.take().or(written.err());
    }

    /// Returns the events, and why some are missing, such as a full disk.
    pub(crate) fn finish(self) -> (EventLog, Option<io::Error>) {
        let Some(mut file) = self.file else {
            return (EventLog::Memory(self.memory.into()), None);
        };
        let error = self.error.or(file.flush().err());
        (EventLog::File(self.path), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        let line = |seq: u64| {
            format!(
                "{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:00.000Z\",\"session\":\"s\",\
                 \"turn\":1,\"type\":\"text\",\"kind\":\"reply\",\"text\":\"a\",\"delta\":true,\
                 \"message\":null,\"parent\":null}}"
            )
        };
        let parsed = (1..=3).map(|seq| Event::from_json(&line(seq)).unwrap());
        parsed.collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join(EVENTS_FILE)).unwrap();
        let mut writer = EventWriter::create(dir.path());
        for event in events() {
            writer.push(&event, true);
        }
        assert!(writer.finish().1.is_some());
    }

    #[test]
    fn events_are_the_same_from_a_file_and_from_memory() {
        let dir = tempfile::tempdir().unwrap();
        for artifacts in [dir.path().to_owned(), dir.path().join("missing")] {
            let mut writer = EventWriter::create(&artifacts);
            for event in events() {
                writer.push(&event, true);
            }
            let (log, error) = writer.finish();
            assert!(error.is_none());
            assert_eq!(matches!(log, EventLog::File(_)), artifacts.exists());
            assert_eq!(log.iter().collect::<Vec<_>>(), events());
            let copy = dir.path().join("copy");
            log.copy_to(&copy).unwrap();
            let copied = EventLog::File(copy);
            assert_eq!(copied.iter().collect::<Vec<_>>(), events());
            assert!(!log.is_empty());
        }
        assert!(EventLog::default().is_empty() && EventLog::of(Path::new("/nowhere")).is_empty());
    }
}
