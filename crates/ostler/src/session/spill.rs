//! Where events go that no reader took in time and no log keeps: a nameless file that is gone with the session.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use ostler_core::event::Event;
use ostler_core::log::{Entry, LogError, PAGE_BYTES};

/// The largest file. Beyond it the agent is held up rather than the disk filled.
const LARGEST: u64 = 1024 * 1024 * 1024;

pub(super) struct Spill {
    dir: PathBuf,
    file: Option<File>,
    /// The number of the first event in the file, and where each begins.
    first: u64,
    places: Vec<u64>,
    end: u64,
    failed: bool,
}

impl Spill {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            file: None,
            first: 0,
            places: Vec::new(),
            end: 0,
            failed: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.failed || self.end >= LARGEST
    }

    pub(super) fn holds(&self, seq: u64) -> bool {
        seq.checked_sub(self.first)
            .is_some_and(|at| at < self.places.len() as u64)
    }

    /// Keeps events that follow those it has; false when it cannot.
    pub(super) fn write(&mut self, batch: &[Entry]) -> bool {
        if !self.is_full() && self.try_write(batch).is_err() {
            self.failed = true;
        }
        batch
            .last()
            .is_some_and(|entry| self.holds(entry.event.seq))
    }

    /// The first event from `from` on that it has.
    pub(super) fn first_from(&self, from: u64) -> Option<u64> {
        Some(from.max(self.first)).filter(|seq| self.holds(*seq))
    }

    fn try_write(&mut self, batch: &[Entry]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                self.first = batch.first().map_or(0, |entry| entry.event.seq);
                none.insert(tempfile::tempfile_in(&self.dir)?)
            }
        };
        file.seek(SeekFrom::Start(self.end))?;
        // Written piece by piece: an event may be large, and need not be in memory once more.
        let (mut out, mut places) = (
            Counted {
                out: BufWriter::new(file),
                count: self.end,
            },
            Vec::with_capacity(batch.len()),
        );
        for entry in batch {
            places.push(out.count);
            serde_json::to_writer(&mut out, &entry.event)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        self.end = out.count;
        self.places.append(&mut places);
        Ok(())
    }

    pub(super) fn read(&mut self, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let failed =
            |error: &dyn std::fmt::Display| LogError(format!("old events cannot be read: {error}"));
        let at = from
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok());
        let places = at.and_then(|at| self.places.get(at..)).unwrap_or_default();
        let Some(begin) = places.first() else {
            return Err(failed(&"they are not there"));
        };
        // Each event ends where the next begins: the size of a page is known before anything is read.
        let ends = places
            .iter()
            .skip(1)
            .chain([&self.end])
            .map(|end| usize::try_from(end - begin).unwrap_or(usize::MAX));
        let ends: Vec<usize> = ends
            .enumerate()
            .take(most)
            .take_while(|(n, end)| *n == 0 || *end <= PAGE_BYTES)
            .map(|(_, end)| end)
            .collect();
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| failed(&"they are not there"))?;
        file.seek(SeekFrom::Start(*begin))
            .map_err(|error| failed(&error))?;
        let mut page = vec![0; ends.last().copied().unwrap_or(0)];
        file.read_exact(&mut page).map_err(|error| failed(&error))?;
        let (mut events, mut start) = (Vec::with_capacity(ends.len()), 0);
        for end in ends {
            let line = std::str::from_utf8(&page[start..end]).map_err(|error| failed(&error))?;
            events.push(Event::from_json(line).map_err(|error| failed(&error))?);
            start = end;
        }
        Ok(events)
    }
}

/// A writer that knows how far it is.
struct Counted<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
