//! Bounded text: a capped buffer for captured output, head and tail for display, and removal of
//! control sequences.

/// Default cap on captured text, in bytes (the youBencha contract, S4 in `docs/requirements.md`).
pub const OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// Size up to which a buffer doubles as it grows. A larger one grows in smaller steps.
const DOUBLING: usize = 1024 * 1024;

/// Buffer that stores the first `cap` bytes, followed by a marker that says how much is missing.
#[derive(Debug, Clone)]
pub struct Capped {
    cap: usize,
    text: String,
    total: u64,
}

impl Capped {
    /// Creates an empty buffer of at most `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            text: String::new(),
            total: 0,
        }
    }

    /// Appends as much of `piece` as fits, at a character boundary.
    pub fn push(&mut self, piece: &str) {
        let full = self.truncated();
        self.total += piece.len() as u64;
        if !full {
            let room = self.cap - self.text.len();
            if self.text.len() > DOUBLING && self.text.capacity() - self.text.len() < piece.len() {
                self.text
                    .reserve_exact(room.min(piece.len().max(self.text.len() / 4)));
            }
            self.text
                .push_str(&piece[..piece.floor_char_boundary(room)]);
        }
    }

    /// Maximum number of bytes stored.
    #[must_use]
    pub fn cap(&self) -> usize {
        self.cap
    }

    /// Returns true once something was left out.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > self.text.len() as u64
    }

    /// Returns true if nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the text, ending with the marker `[OUTPUT TRUNCATED …]` if something was left out.
    #[must_use]
    pub fn into_text(mut self) -> String {
        if self.truncated() {
            let (stored, total) = (self.text.len(), self.total);
            let marker =
                format!("\n[OUTPUT TRUNCATED: the first {stored} of {total} bytes are kept]");
            // Exactly one marker, instead of doubling the buffer.
            self.text.reserve_exact(marker.len());
            self.text.push_str(&marker);
        }
        self.text
    }
}

/// Head and tail of a stream in constant memory, such as an agent's stderr.
#[derive(Debug)]
pub struct HeadTail {
    half: usize,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    total: u64,
}

impl HeadTail {
    /// Stores at most `half` bytes of the head and as many of the tail.
    #[must_use]
    pub fn new(half: usize) -> Self {
        Self {
            half,
            head: Vec::new(),
            tail: std::collections::VecDeque::new(),
            total: 0,
        }
    }

    /// Appends bytes to the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.half - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        let rest = &bytes[room..];
        let last = &rest[rest.len().saturating_sub(self.half)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(self.half);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(last);
    }

    /// Returns the stored text, with a note where something is missing. Control sequences are
    /// removed, so it is safe to print.
    #[must_use]
    pub fn text(&self) -> String {
        let stored = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if self.total > stored {
            bytes.extend(format!("\n[… {} bytes left out …]\n", self.total - stored).bytes());
        }
        bytes.extend(&self.tail);
        sanitize(&String::from_utf8_lossy(&bytes)).trim().to_owned()
    }
}

/// Removes escape sequences and other control characters from `text`, so that printing it cannot
/// move the cursor, set a title or hide a line. Newlines and tabs stay. Deceptive characters are
/// escaped, such as `\u{202e}`.
///
/// For text that arrives in pieces, use [`Sanitizer`].
#[must_use]
pub fn sanitize(text: &str) -> String {
    Sanitizer::default().push(text)
}

/// Incremental form of [`sanitize`]: an escape sequence may be split anywhere.
#[derive(Debug, Default)]
pub struct Sanitizer {
    state: Sequence,
    /// The last character that was passed through.
    before: Option<char>,
}

/// Position within an escape sequence.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    /// Outside of a sequence.
    #[default]
    None,
    /// After ESC, possibly with intermediate characters.
    Escape,
    /// In a CSI sequence, which ends with its final character.
    Csi,
    /// In a string, which ends with BEL or ST.
    String,
    /// After an ESC in a string, possibly the first half of ST.
    StringEscape,
}

impl Sanitizer {
    /// Appends a piece of text and returns its printable part.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            if self.is_skipped(c) {
                continue;
            }
            let before = self.before.take();
            if is_deceptive(c) && !before.is_some_and(|before| is_harmless_joiner(before, c)) {
                out.extend(c.escape_unicode());
            } else if c == '\n' || c == '\t' || !c.is_control() {
                out.push(c);
                self.before = Some(c);
            } else {
                self.before = before;
            }
        }
        out
    }

    /// Advances by one character and returns true if it belongs to an escape sequence.
    fn is_skipped(&mut self, c: char) -> bool {
        let next = match (self.state, c) {
            (Sequence::String, '\u{7}' | '\u{9c}') | (Sequence::StringEscape, '\\') => {
                Sequence::None
            }
            (Sequence::String | Sequence::StringEscape, '\u{1b}') => Sequence::StringEscape,
            (Sequence::String | Sequence::StringEscape, _) => Sequence::String,
            (_, '\u{1b}') => Sequence::Escape,
            (Sequence::Escape, '[') => Sequence::Csi,
            (Sequence::Escape, ']' | 'P' | '^' | '_' | 'X') => Sequence::String,
            (Sequence::Escape, ' '..='/') => Sequence::Escape,
            (Sequence::Csi, ' '..='?') => Sequence::Csi,
            (Sequence::Escape | Sequence::Csi, '\u{30}'..='\u{7e}') => Sequence::None,
            // Anything else is not part of a sequence, and ends a malformed one.
            _ => {
                self.state = Sequence::None;
                return false;
            }
        };
        self.state = next;
        true
    }
}

/// Returns true for a character that a terminal does not show, or that changes how the text around
/// it is shown: direction marks, line separators, zero-width characters, tags.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns true for a joiner after a character it belongs to: within an emoji, or in a script such
/// as Persian or Hindi. Anywhere else, a joiner only makes texts differ that look the same.
#[must_use]
pub fn is_harmless_joiner(before: char, c: char) -> bool {
    let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
    let is_emoji = matches!(
        before,
        '\u{2190}'..='\u{21ff}'
            | '\u{2300}'..='\u{23ff}'
            | '\u{2600}'..='\u{27bf}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{fe0f}'
            | '\u{1f000}'..='\u{1faff}'
    );
    // Arabic, Syriac, N'Ko, Mandaic; Indic scripts; Myanmar, Khmer, Mongolian, Balinese; Arabic
    // presentation forms.
    let joins = matches!(
        before,
        '\u{620}'..='\u{77f}'
            | '\u{7ca}'..='\u{7ff}'
            | '\u{840}'..='\u{dff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1820}'..='\u{18aa}'
            | '\u{1b00}'..='\u{1b7f}'
            | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
    );
    is_joiner && (is_emoji || joins)
}

/// Shortens a text to its head and tail, of at most `half` bytes each.
#[must_use]
pub fn head_and_tail(text: String, half: usize) -> String {
    if text.len() <= 2 * half {
        return text;
    }
    let mut short = HeadTail::new(half);
    short.push(text.as_bytes());
    short.text()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_within_the_cap_is_unchanged() {
        let mut c = Capped::new(10);
        c.push("0123456789");
        assert_eq!(c.into_text(), "0123456789");
    }

    #[test]
    fn a_text_up_to_both_halves_is_whole() {
        for (length, half, is_whole) in [
            (0, 0, true),
            (1, 0, false),
            (6, 3, true),
            (7, 3, false),
            (5, 4, true),
        ] {
            let text = "x".repeat(length);
            let short = head_and_tail(text.clone(), half);
            assert_eq!(short == text, is_whole, "{length} {half}");
        }
    }

    // A buffer that doubles would take twice the cap.
    #[test]
    fn a_large_buffer_grows_in_small_steps() {
        let (cap, piece) = (5 * DOUBLING, "x".repeat(DOUBLING / 16));
        let mut capped = Capped::new(cap);
        assert_eq!(capped.cap(), cap);
        let mut growths = 0;
        while !capped.truncated() {
            let before = capped.text.capacity();
            capped.push(&piece);
            let (length, capacity) = (capped.text.len(), capped.text.capacity());
            growths += usize::from(capacity > before);
            assert!(capacity <= cap, "{capacity}");
            assert!(length <= 2 * DOUBLING || capacity <= length / 4 * 5 + piece.len());
        }
        assert!(growths < 20, "{growths}");
    }

    // S4-14
    #[test]
    fn truncated_text_is_marked() {
        let mut c = Capped::new(5);
        c.push("abcd😀");
        c.push("e");
        assert!(c.truncated());
        assert_eq!(
            c.into_text(),
            "abcd\n[OUTPUT TRUNCATED: the first 4 of 9 bytes are kept]"
        );
    }

    #[test]
    fn escape_sequences_are_removed() {
        assert_eq!(
            sanitize("\u{1b}[31mred\u{1b}[0m\u{7}\ttab\nline"),
            "red\ttab\nline"
        );
        assert_eq!(
            sanitize("\u{1b}]0;title\u{7}after \u{1b}]8;;x\u{1b}\\link"),
            "after link"
        );
        assert_eq!(sanitize("end\u{1b}"), "end");
    }

    #[test]
    fn deceptive_characters_are_escaped() {
        assert_eq!(
            sanitize("a\u{202e}b\u{2066}\u{200f}\u{61c}"),
            "a\\u{202e}b\\u{2066}\\u{200f}\\u{61c}"
        );
        assert_eq!(
            sanitize("\u{2028}\u{200b}\u{feff}\u{e0041}"),
            "\\u{2028}\\u{200b}\\u{feff}\\u{e0041}"
        );
        assert_eq!(sanitize("a\u{9b}2J\u{9d}0;t\u{9c}\u{7f}\rb"), "a2J0;tb");
    }

    // Joiners used to be dropped: a family emoji fell apart, and Persian words ran together.
    #[test]
    fn joiners_stay_within_emoji_and_scripts() {
        for text in [
            "👩\u{200d}💻",
            "❤\u{fe0f}\u{200d}🔥",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "ന്\u{200d} x",
        ] {
            assert_eq!(sanitize(text), text);
        }
        assert_eq!(sanitize("a\u{200d}b é\u{200c}"), "a\\u{200d}b é\\u{200c}");
        assert_eq!(sanitize("👩\u{200d}\u{200d}💻"), "👩\u{200d}\\u{200d}💻");
        assert_eq!(sanitize("می\u{202e}\u{200c}"), "می\\u{202e}\\u{200c}");
    }

    // P19: `ESC [ 3` and `1m` in two pieces used to leave `1m` on the screen.
    #[test]
    fn a_sequence_may_be_split_anywhere() {
        let text = "a\u{1b}[31mred\u{1b}[0m\u{1b}]0;t\u{7}b\u{1b}]8;;x\u{1b}\\link\u{1b}(Bc👩\u{200d}💻\u{200d}\u{200d}\u{202e}d";
        let whole = sanitize(text);
        assert_eq!(whole, "aredblinkc👩\u{200d}💻\u{200d}\\u{200d}\\u{202e}d");
        for (cut, _) in text.char_indices() {
            let mut sanitizer = Sanitizer::default();
            assert_eq!(
                sanitizer.push(&text[..cut]) + &sanitizer.push(&text[cut..]),
                whole,
                "{cut}"
            );
        }
    }

    #[test]
    fn a_malformed_sequence_ends_at_other_text() {
        assert_eq!(sanitize("a\u{1b}[3\nb\u{1b}éc\u{1b}[\u{1b}[1md"), "a\nbécd");
    }

    proptest! {
        #[test]
        fn head_and_tail_match_the_stream(
            pieces in proptest::collection::vec("[a-z]{0,9}", 0..20), half in 1usize..12,
        ) {
            let mut h = HeadTail::new(half);
            for p in &pieces { h.push(p.as_bytes()); }
            let all = pieces.concat();
            let text = h.text();
            if all.len() <= 2 * half {
                prop_assert_eq!(text, all);
            } else {
                prop_assert!(text.starts_with(&all[..half]));
                prop_assert!(text.ends_with(&all[all.len() - half..]));
            }
        }

        #[test]
        fn capped_never_exceeds_its_cap(
            pieces in proptest::collection::vec(".{0,9}", 0..20), cap in 0usize..40,
        ) {
            let mut c = Capped::new(cap);
            for p in &pieces { c.push(p); }
            let all = pieces.concat();
            let truncated = c.truncated();
            let text = c.into_text();
            if truncated {
                let head = text.split("\n[OUTPUT TRUNCATED").next().unwrap_or_default();
                prop_assert!(all.starts_with(head) && head.len() <= cap);
            } else {
                prop_assert_eq!(text, all);
            }
        }
    }
}
