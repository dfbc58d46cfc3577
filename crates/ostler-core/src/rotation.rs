//! Rotation of stored raw output: decides when a segment is full, and how much was dropped.
//!
//! At most two segments exist, each of half the limit. When the second is full, the first is
//! dropped.

/// State of a rotation. It only decides; the writer of the file carries out the steps.
#[derive(Debug)]
pub struct Rotation {
    segment: u64,
    /// Size of the current segment, and of the one before it.
    current: u64,
    previous: u64,
    /// Number of bytes dropped.
    dropped: u64,
}

/// What to do with the first of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Write them to the current segment.
    Write(&'a [u8]),
    /// Start a new segment; the one before the current is dropped.
    Rotate,
    /// Drop them: there is no room for any segment.
    Drop,
}

impl Rotation {
    /// Creates a rotation of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            segment: limit / 2,
            current: 0,
            previous: 0,
            dropped: 0,
        }
    }

    /// Returns true once something was dropped.
    #[must_use]
    pub fn has_dropped(&self) -> bool {
        self.dropped > 0
    }

    /// Returns the first step for `bytes`, and the bytes that remain.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> (Step<'a>, &'a [u8]) {
        if self.segment == 0 {
            self.dropped += bytes.len() as u64;
            return (Step::Drop, &[]);
        }
        let room = usize::try_from(self.segment - self.current).unwrap_or(usize::MAX);
        if bytes.len() > room {
            // Segments end at a line break where possible.
            let line_end = bytes[..room]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map(|at| at + 1);
            let cut = line_end.unwrap_or(if self.current == 0 { room } else { 0 });
            if cut == 0 {
                self.dropped +=
                    std::mem::replace(&mut self.previous, std::mem::take(&mut self.current));
                return (Step::Rotate, bytes);
            }
            return self.write(bytes, cut);
        }
        self.write(bytes, bytes.len())
    }

    fn write<'a>(&mut self, bytes: &'a [u8], cut: usize) -> (Step<'a>, &'a [u8]) {
        let (now, later) = bytes.split_at(cut);
        self.current += cut as u64;
        (Step::Write(now), later)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes the pieces. Returns the older segment, the newer one, and the number of dropped
    /// bytes.
    fn written(limit: u64, pieces: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>, u64) {
        let mut rotation = Rotation::new(limit);
        let (mut older, mut newer) = (Vec::new(), Vec::new());
        for piece in pieces {
            let mut left = &piece[..];
            while !left.is_empty() {
                let (step, rest) = rotation.step(left);
                match step {
                    Step::Write(bytes) => newer.extend_from_slice(bytes),
                    Step::Rotate => older = std::mem::take(&mut newer),
                    Step::Drop => {}
                }
                left = rest;
                assert!(
                    (older.len() + newer.len()) as u64 <= limit,
                    "over the limit"
                );
            }
        }
        (older, newer, rotation.dropped)
    }

    #[test]
    fn output_within_the_limit_is_stored_whole() {
        let pieces = [b"one\n".to_vec(), b"two\n".to_vec()];
        assert_eq!(written(100, &pieces), (vec![], b"one\ntwo\n".to_vec(), 0));
    }

    #[test]
    fn segments_end_at_line_breaks() {
        let pieces = [b"aaa\nbbb\nccc\nddd\neee\n".to_vec()];
        assert_eq!(
            written(20, &pieces),
            (b"ccc\nddd\n".to_vec(), b"eee\n".to_vec(), 8)
        );
    }

    #[test]
    fn a_rotation_says_whether_it_has_dropped_anything() {
        let mut rotation = Rotation::new(4);
        assert_eq!(rotation.step(b"ab"), (Step::Write(b"ab"), &b""[..]));
        assert_eq!(rotation.step(b"cd"), (Step::Rotate, &b"cd"[..]));
        assert_eq!(rotation.step(b"cd"), (Step::Write(b"cd"), &b""[..]));
        assert!(!rotation.has_dropped(), "both segments exist");
        assert_eq!(rotation.step(b"e"), (Step::Rotate, &b"e"[..]));
        assert!(rotation.has_dropped());
    }

    #[test]
    fn without_room_nothing_is_stored() {
        assert_eq!(written(1, &[b"abc".to_vec()]), (vec![], vec![], 3));
    }

    proptest! {
        #[test]
        fn the_newest_output_is_stored_within_the_limit(
            limit in 0u64..200,
            pieces in proptest::collection::vec("[a-c\n]{0,60}".prop_map(String::into_bytes), 0..40),
        ) {
            let all = pieces.concat();
            let (older, newer, dropped) = written(limit, &pieces);
            let stored = [older, newer].concat();
            prop_assert!(all.ends_with(&stored));
            prop_assert_eq!(dropped as usize + stored.len(), all.len());
            prop_assert!(dropped == 0 || all.len() as u64 > limit / 2);
        }
    }
}
