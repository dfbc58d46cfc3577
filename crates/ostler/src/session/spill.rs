//! Spill file: an unnamed temporary file for events that are evicted from memory before they were
//! read, while there is no log.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use ostler_core::event::Event;
use ostler_core::log::{LogEntry, LogError, PAGE_BYTES};

/// Maximum size of the file. Beyond it, the agent has to wait, so that the disk does not fill up.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Consecutive events on disk, one line of JSON each.
pub(super) struct Spill {
    dir: PathBuf,
    file: Option<File>,
    /// Number of the first event in the file.
    first: u64,
    /// Offset of each event.
    offsets: Vec<u64>,
    end: u64,
    failed: bool,
}

impl Spill {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            file: None,
            first: 0,
            offsets: Vec::new(),
            end: 0,
            failed: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.failed || self.end >= MAX_BYTES
    }

    pub(super) fn holds(&self, seq: u64) -> bool {
        seq.checked_sub(self.first)
            .is_some_and(|at| at < self.offsets.len() as u64)
    }

    /// Appends events. Returns false if that failed. If they do not follow the stored ones, those
    /// in between were read, and so the stored ones are no longer needed.
    pub(super) fn write(&mut self, batch: &[LogEntry]) -> bool {
        if !self.is_full() && self.try_write(batch).is_err() {
            self.failed = true;
        }
        batch
            .last()
            .is_some_and(|entry| self.holds(entry.event.seq))
    }

    /// Returns the first stored event from `from` on.
    pub(super) fn first_from(&self, from: u64) -> Option<u64> {
        Some(from.max(self.first)).filter(|seq| self.holds(*seq))
    }

    fn try_write(&mut self, batch: &[LogEntry]) -> std::io::Result<()> {
        let first = batch.first().map_or(0, |entry| entry.event.seq);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir)?),
        };
        if first != self.first + self.offsets.len() as u64 {
            self.offsets.clear();
            file.set_len(0)?;
            (self.first, self.end) = (first, 0);
        }
        file.seek(SeekFrom::Start(self.end))?;
        // Serialized straight into the file: an event can be large and need not be copied in
        // memory.
        let (mut out, mut offsets) = (
            CountingWriter {
                out: BufWriter::new(file),
                count: self.end,
            },
            Vec::with_capacity(batch.len()),
        );
        for entry in batch {
            offsets.push(out.count);
            serde_json::to_writer(&mut out, &entry.event)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        self.end = out.count;
        self.offsets.append(&mut offsets);
        Ok(())
    }

    pub(super) fn read(&mut self, from: u64, limit: usize) -> Result<Vec<Event>, LogError> {
        let failed =
            |error: &dyn std::fmt::Display| LogError(format!("cannot read old events: {error}"));
        let at = from
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok());
        let offsets = at.and_then(|at| self.offsets.get(at..)).unwrap_or_default();
        let Some(begin) = offsets.first() else {
            return Err(failed(&"they are not in the spill file"));
        };
        // Each event ends where the next one begins, so the page size is known before reading.
        let ends = offsets
            .iter()
            .skip(1)
            .chain([&self.end])
            .map(|end| usize::try_from(end - begin).unwrap_or(usize::MAX));
        let ends: Vec<usize> = ends
            .enumerate()
            .take(limit)
            .take_while(|(n, end)| *n == 0 || *end <= PAGE_BYTES)
            .map(|(_, end)| end)
            .collect();
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| failed(&"they are not in the spill file"))?;
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

/// A writer that counts bytes.
struct CountingWriter<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
