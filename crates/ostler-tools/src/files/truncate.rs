//! Truncation of long lines, with a marker.

use super::limits::LINE_CHARS;

/// Returns the line, truncated if it is longer than a model needs.
pub(super) fn truncate(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        None => line.to_owned(),
        Some((at, _)) => with_marker(&line[..at], line.len() - at),
    }
}

/// Returns the start of a line with the truncation marker.
pub(super) fn with_marker(start: &str, bytes_left: usize) -> String {
    format!("{start}… [cut: {bytes_left} more bytes in this line]")
}
