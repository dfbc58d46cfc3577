//! Reads the beginning of a recording to recognize the agent that wrote it.

use serde::Deserialize;

/// Number of lines that are examined.
const LINES: usize = 20;

/// Returns those of the first lines that are JSON of this shape.
pub(crate) fn lines<'a, T: Deserialize<'a>>(opening: &'a str) -> impl Iterator<Item = T> {
    opening
        .lines()
        .take(LINES)
        .filter_map(|line| serde_json::from_str(line).ok())
}
