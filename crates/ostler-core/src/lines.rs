//! Line splitting: cuts a byte stream into lines, however it is chunked, with memory bounded by a
//! cap.

use std::borrow::Cow;

/// Maximum length of a line, in bytes. Longer lines are reported with their head and length.
pub const LINE_CAP: usize = 64 * 1024 * 1024;

/// Number of bytes of an oversize line that are retained, to show what it was.
pub const HEAD: usize = 4 * 1024;

/// Maximum capacity of the carry buffer between lines: one long line does not occupy memory for the
/// rest of the session.
const KEEP: usize = 256 * 1024;

/// One line, without its line ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the cap.
    Text {
        /// The text; borrowed unless invalid UTF-8 was replaced.
        text: Cow<'a, str>,
        /// Whether invalid UTF-8 was replaced by U+FFFD.
        lossy: bool,
    },
    /// A line over the cap; only its head is retained.
    Oversize {
        /// The first [`HEAD`] bytes, as text.
        head: String,
        /// Length of the whole line in bytes.
        length: u64,
    },
}

/// Line splitter: takes chunks and returns whole lines.
///
/// ```
/// use ostler_core::lines::{Line, Lines};
/// let mut lines = Lines::new();
/// let mut seen = Vec::new();
/// lines.push(b"one\ntw", |l| seen.push(format!("{l:?}")));
/// lines.push(b"o", |l| seen.push(format!("{l:?}")));
/// lines.finish(|l| if let Line::Text { text, .. } = l { seen.push(text.into_owned()) });
/// assert_eq!(seen.len(), 2);
/// assert_eq!(seen[1], "two");
/// ```
#[derive(Debug)]
pub struct Lines {
    cap: usize,
    carry: Vec<u8>,
    /// Length of the current line once it exceeds the cap; `carry` then holds only its head.
    over: Option<u64>,
    /// Byte offset of the current line in the stream.
    began: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// Creates a splitter with the default cap, [`LINE_CAP`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_cap(LINE_CAP)
    }

    /// Creates a splitter for lines of at most `cap` bytes.
    #[must_use]
    pub fn with_cap(cap: usize) -> Self {
        Self {
            cap,
            carry: Vec::new(),
            over: None,
            began: 0,
        }
    }

    /// Appends a chunk and calls `each` for every line it completes, in order.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Line<'_>)) {
        self.push_with_offset(chunk, |line, _| each(line));
    }

    /// Like [`Lines::push`], but also passes each line's byte offset in the stream.
    pub fn push_with_offset(&mut self, chunk: &[u8], mut each: impl FnMut(Line<'_>, u64)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (piece, after) = (&rest[..end], &rest[end + 1..]);
            let began = self.began;
            if self.carry.is_empty() && self.over.is_none() && piece.len() <= self.cap {
                self.began += end as u64 + 1;
                // Common case: the whole line is in this chunk, without a copy.
                each(line(piece), began);
            } else {
                self.hold(piece);
                self.began += self.over.unwrap_or(self.carry.len() as u64) + 1;
                self.complete(&mut |line| each(line, began));
            }
            rest = after;
        }
        if !rest.is_empty() {
            self.hold(rest);
        }
    }

    /// Ends the stream. A last line without a newline counts.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        self.finish_with_offset(|line, _| each(line));
    }

    /// Like [`Lines::finish`], but also passes the line's byte offset in the stream.
    pub fn finish_with_offset(&mut self, mut each: impl FnMut(Line<'_>, u64)) {
        let began = self.began;
        let mut each = |line: Line<'_>| each(line, began);
        if !self.carry.is_empty() || self.over.is_some() {
            self.complete(&mut each);
        }
    }

    fn hold(&mut self, piece: &[u8]) {
        let length = self.over.unwrap_or(self.carry.len() as u64) + piece.len() as u64;
        if length <= self.cap as u64 {
            if self.carry.capacity() - self.carry.len() < piece.len() && self.carry.len() > KEEP {
                // A vector doubles as it grows; a long line must not take twice its size.
                self.carry
                    .reserve_exact(piece.len().max(self.carry.len() / 4));
            }
            self.carry.extend_from_slice(piece);
            return;
        }
        self.over = Some(length);
        let room = HEAD.saturating_sub(self.carry.len()).min(piece.len());
        self.carry.extend_from_slice(&piece[..room]);
        self.carry.truncate(HEAD);
        self.carry.shrink_to(KEEP);
    }

    fn complete(&mut self, each: &mut impl FnMut(Line<'_>)) {
        match self.over.take() {
            Some(length) => {
                // The cut may have split a character; the remainder is not shown.
                let head = String::from_utf8_lossy(&self.carry)
                    .trim_end_matches('\u{fffd}')
                    .to_owned();
                each(Line::Oversize { head, length });
            }
            None => each(line(&self.carry)),
        }
        self.carry.clear();
        self.carry.shrink_to(KEEP);
    }
}

fn line(bytes: &[u8]) -> Line<'_> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Line::Text {
            text: Cow::Borrowed(text),
            lossy: false,
        },
        Err(_) => Line::Text {
            text: String::from_utf8_lossy(bytes),
            lossy: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(cap: usize, chunks: &[&[u8]]) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        let mut push_line = |l: Line<'_>| {
            out.push(match l {
                Line::Text { text, lossy } => Line::Text {
                    text: Cow::Owned(text.into_owned()),
                    lossy,
                },
                Line::Oversize { head, length } => Line::Oversize { head, length },
            });
        };
        let mut lines = Lines::with_cap(cap);
        for chunk in chunks {
            lines.push(chunk, &mut push_line);
        }
        lines.finish(&mut push_line);
        out
    }

    fn text(s: &str) -> Line<'static> {
        Line::Text {
            text: Cow::Owned(s.to_owned()),
            lossy: false,
        }
    }

    #[test]
    fn last_line_without_newline_counts() {
        assert_eq!(split(100, &[b"a\nb"]), [text("a"), text("b")]);
        assert_eq!(
            split(100, &[b"a\r\n\nb\n"]),
            [text("a"), text(""), text("b")]
        );
        assert_eq!(split(100, &[]), []);
    }

    // P18
    #[test]
    fn invalid_utf8_is_replaced_and_flagged() {
        let seen = split(100, &[b"ok\nbad \xff byte\nnext\n"]);
        assert_eq!(
            seen[1],
            Line::Text {
                text: "bad \u{fffd} byte".into(),
                lossy: true
            }
        );
        assert_eq!(seen[2], text("next"));
    }

    // P15, P19
    #[test]
    fn a_line_over_the_cap_is_reported_once_and_the_next_parses() {
        let mut long = vec![b'x'; HEAD - 1];
        long.extend("😀".as_bytes());
        long.extend(vec![b'y'; 5000]);
        let length = long.len() as u64;
        long.extend(b"\nnext\n");
        let seen = split(8000, &[&long]);
        assert_eq!(
            seen,
            [
                Line::Oversize {
                    head: "x".repeat(HEAD - 1),
                    length
                },
                text("next")
            ]
        );
    }

    #[test]
    fn a_line_of_exactly_the_cap_is_whole() {
        assert_eq!(split(3, &[b"abc\nabcd\n"]).len(), 2);
        assert!(matches!(split(3, &[b"abc\n"])[0], Line::Text { .. }));
        assert!(matches!(
            split(3, &[b"ab", b"cd\n"])[0],
            Line::Oversize { length: 4, .. }
        ));
    }

    // P16: the cap is per line, not per session.
    #[test]
    fn the_cap_applies_per_line_not_per_session() {
        let one = [vec![b'a'; 10_000], b"\n".to_vec()].concat();
        let mut count = 0;
        let mut lines = Lines::with_cap(64 * 1024);
        for _ in 0..10_000 {
            lines.push(&one, |l| {
                count += usize::from(matches!(l, Line::Text { .. }));
            });
        }
        assert_eq!(count, 10_000);
        assert!(lines.carry.capacity() <= KEEP);
    }

    // A buffer that doubles would take twice the size of a long line.
    #[test]
    fn a_long_line_grows_in_small_steps() {
        let mut lines = Lines::with_cap(32 * KEEP);
        let (piece, mut growths) = (vec![b'z'; KEEP / 16], 0);
        for _ in 0..16 * 8 {
            let before = lines.carry.capacity();
            lines.push(&piece, |_| panic!("no newline yet"));
            let (length, capacity) = (lines.carry.len(), lines.carry.capacity());
            growths += usize::from(capacity > before);
            assert!(length <= 2 * KEEP || capacity <= length / 4 * 5 + piece.len());
        }
        assert!(growths < 20, "{growths}");
    }

    #[test]
    fn memory_stays_under_the_cap_and_is_released() {
        let mut lines = Lines::with_cap(1024 * 1024);
        for _ in 0..100 {
            lines.push(&[b'z'; 64 * 1024], |_| panic!("no newline yet"));
        }
        assert!(lines.carry.capacity() <= 1024 * 1024 / 4 * 5);
        lines.push(b"\n", |l| {
            assert!(matches!(
                l,
                Line::Oversize {
                    length: 6_553_600,
                    ..
                }
            ));
        });
        assert!(lines.carry.capacity() <= KEEP);
    }

    proptest! {
        // P17, P24: any split yields the same lines.
        #[test]
        fn any_split_yields_the_same_lines(
            bytes in proptest::collection::vec(
                prop_oneof![
                    Just(b'\n'), Just(b'\r'), Just(0xffu8), Just(0xc3u8), Just(0xa9u8), any::<u8>()
                ],
                0..200,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..10),
            cap in 1usize..50,
        ) {
            let whole = split(cap, &[&bytes]);
            let mut at: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(split(cap, &chunks), whole);
            let (mut lines, mut places) = (Lines::with_cap(cap), Vec::new());
            chunks.iter().for_each(|chunk| lines.push_with_offset(chunk, |_, at| places.push(at)));
            let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
            let ends = ends.map(|(at, _)| at as u64 + 1);
            let begins: Vec<u64> = std::iter::once(0).chain(ends).take(places.len()).collect();
            prop_assert_eq!(places, begins);
        }
    }
}
