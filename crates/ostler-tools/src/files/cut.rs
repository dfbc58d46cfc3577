//! Long lines: cut, with a mark that says so.

use super::limits::LINE_CHARS;

/// A line, cut if it is longer than a model needs.
pub(super) fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        None => line.to_owned(),
        Some((at, _)) => marked(&line[..at], line.len() - at),
    }
}

/// The kept beginning of a line, with the mark.
pub(super) fn marked(kept: &str, bytes_left: usize) -> String {
    format!("{kept}… [cut: {bytes_left} more bytes in this line]")
}
