//! Record of an attempt at the owner: chunks, line by line.

use crate::message::Record;
use crate::nats::Chunk;

/// Maximum length of a line. An event is limited in size at its worker.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// A chunk that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    /// It does not follow what was received.
    #[error("a part of the record is missing")]
    Gap,
    /// A line is too long, or is no record.
    #[error("a line of the record cannot be read")]
    Unreadable,
}

/// The lines of a record, in order and each once.
#[derive(Debug, Default)]
pub(super) struct RecordLines {
    /// Number of bytes received.
    received: u64,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
}

impl RecordLines {
    /// Returns the number of bytes received.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Takes a chunk. Returns the lines that are complete now.
    pub(super) fn push(&mut self, chunk: &Chunk) -> Result<Vec<Record>, RecordError> {
        let known = self.received.checked_sub(chunk.offset);
        let known = known.and_then(|known| usize::try_from(known).ok());
        let known = known.ok_or(RecordError::Gap)?;
        let Some(new) = chunk.bytes.get(known..) else {
            return Ok(Vec::new());
        };
        self.received += u64::try_from(new.len()).unwrap_or(u64::MAX);
        self.partial.extend_from_slice(new);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return match self.partial.len() > MAX_LINE {
                true => Err(RecordError::Unreadable),
                false => Ok(Vec::new()),
            };
        };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).map_err(|_| RecordError::Unreadable))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, text: &str) -> Chunk {
        Chunk {
            offset,
            bytes: text.as_bytes().to_vec().into(),
        }
    }

    #[test]
    fn lines_are_whole_and_come_once() {
        let reply = r#"{"reply":{"caller":"c","number":1,"reply":"done"}}"#;
        let text = format!("{reply}\n{reply}\n");
        let mut lines = RecordLines::default();
        assert_eq!(lines.push(&chunk(0, &text[..20])).unwrap().len(), 0);
        assert_eq!(lines.push(&chunk(0, &text[..20])).unwrap().len(), 0);
        assert_eq!(lines.push(&chunk(10, &text[10..])).unwrap().len(), 2);
        assert_eq!(lines.received(), u64::try_from(text.len()).unwrap());
        let gap = chunk(lines.received() + 1, "x");
        assert_eq!(lines.push(&gap).unwrap_err(), RecordError::Gap);
        let noise = chunk(lines.received(), "noise\n");
        assert_eq!(lines.push(&noise).unwrap_err(), RecordError::Unreadable);
    }
}
