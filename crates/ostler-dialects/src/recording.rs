//! Reading the beginning of a recording, to tell which agent it is of.

use serde::Deserialize;

/// Number of lines that are examined.
const LINES: usize = 20;

/// The first lines of a recording that are JSON of this shape.
pub(crate) fn lines<'a, T: Deserialize<'a>>(opening: &'a str) -> impl Iterator<Item = T> {
    opening
        .lines()
        .take(LINES)
        .filter_map(|line| serde_json::from_str(line).ok())
}
