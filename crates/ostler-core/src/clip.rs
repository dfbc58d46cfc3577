//! Text that must not grow without bound: a capped buffer for what is captured, a head and a tail for what is only shown.

/// How much captured text is kept by default, as document 004 asks.
pub const OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// The size up to which a buffer doubles as it grows. A larger one gets all that it may use, once.
const DOUBLING: usize = 1024 * 1024;

/// Keeps the first `cap` bytes of what is pushed and ends with a marker that says how much is missing.
#[derive(Debug, Clone)]
pub struct Capped {
    cap: usize,
    text: String,
    total: u64,
}

impl Capped {
    /// An empty buffer of at most `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self { cap, text: String::new(), total: 0 }
    }

    /// Appends as much of `piece` as fits, at a character boundary.
    pub fn push(&mut self, piece: &str) {
        let full = self.truncated();
        self.total += piece.len() as u64;
        if !full {
            let room = self.cap - self.text.len();
            if self.text.len() > DOUBLING && self.text.capacity() - self.text.len() < piece.len() {
                self.text.reserve_exact(room.min(piece.len().max(self.text.len() / 4)));
            }
            self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        }
    }

    /// How much it keeps at most.
    #[must_use]
    pub fn cap(&self) -> usize {
        self.cap
    }

    /// True once something was left out.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > self.text.len() as u64
    }

    /// True when nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The text, with the marker `[OUTPUT TRUNCATED …]` at its end when something was left out.
    #[must_use]
    pub fn into_text(mut self) -> String {
        if self.truncated() {
            self.text.push_str(&format!(
                "\n[OUTPUT TRUNCATED: the first {} of {} bytes are kept]",
                self.text.len(),
                self.total
            ));
        }
        self.text
    }
}

/// Keeps the first and the last bytes of a stream, in constant memory: what an agent wrote to stderr.
#[derive(Debug)]
pub struct HeadTail {
    half: usize,
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    total: u64,
}

impl HeadTail {
    /// Keeps at most `half` bytes of the head and as many of the tail.
    #[must_use]
    pub fn new(half: usize) -> Self {
        Self { half, head: Vec::new(), tail: std::collections::VecDeque::new(), total: 0 }
    }

    /// Takes the next bytes of the stream.
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

    /// What was kept, with a note where something is missing. Control sequences are taken out, so that it can be shown.
    #[must_use]
    pub fn text(&self) -> String {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if self.total > kept {
            bytes.extend(format!("\n[… {} bytes left out …]\n", self.total - kept).bytes());
        }
        bytes.extend(&self.tail);
        plain(&String::from_utf8_lossy(&bytes)).trim().to_owned()
    }
}

/// Takes escape sequences and other control characters out of `text`, so that printing it cannot move a cursor, set a
/// title or hide a line. Newlines and tabs stay; deceptive characters are spelled out, such as `\u{202e}`.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_escape(&mut chars);
        } else if is_joiner(c) && out.chars().next_back().is_some_and(|before| !before.is_ascii()) {
            // Within a word or an emoji it is honest; nothing is lost that can be seen.
        } else if is_deceptive(c) {
            out.extend(c.escape_unicode());
        } else if c == '\n' || c == '\t' || !c.is_control() {
            out.push(c);
        }
    }
    out
}

/// Returns true for a character that a terminal does not show, or that changes how the text around it is shown: marks of
/// direction, separators of lines, characters of no width, tags.
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

/// The joiners of emoji and of scripts such as Persian.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Skips what follows an ESC: a CSI up to its final byte, a string sequence up to its terminator, or one character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {},
        Some(']' | 'P' | '^' | '_' | 'X') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{9c}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
}

/// A text of at most twice `half` bytes: a longer one keeps its beginning and its end.
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
    fn what_fits_is_untouched() {
        let mut c = Capped::new(10);
        c.push("0123456789");
        assert_eq!(c.into_text(), "0123456789");
    }

    // S4-14
    #[test]
    fn what_does_not_fit_is_marked() {
        let mut c = Capped::new(5);
        c.push("abcd😀");
        c.push("e");
        assert!(c.truncated());
        assert_eq!(c.into_text(), "abcd\n[OUTPUT TRUNCATED: the first 4 of 9 bytes are kept]");
    }

    #[test]
    fn escape_sequences_go_and_text_stays() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\u{7}\ttab\nline"), "red\ttab\nline");
        assert_eq!(plain("\u{1b}]0;title\u{7}after \u{1b}]8;;x\u{1b}\\link"), "after link");
        assert_eq!(plain("end\u{1b}"), "end");
    }

    #[test]
    fn deceptive_characters_are_spelled_out() {
        assert_eq!(plain("a\u{202e}b\u{2066}\u{200f}\u{61c}"), "a\\u{202e}b\\u{2066}\\u{200f}\\u{61c}");
        assert_eq!(plain("\u{2028}\u{200b}\u{feff}\u{e0041}"), "\\u{2028}\\u{200b}\\u{feff}\\u{e0041}");
        assert_eq!(plain("a\u{9b}2J\u{9d}0;t\u{9c}\u{7f}\rb"), "a2J0;tb");
        assert_eq!(plain("a\u{200d}b 👩\u{200d}💻 می\u{200c}خواهم é"), "a\\u{200d}b 👩💻 میخواهم é");
    }

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_stream(pieces in proptest::collection::vec("[a-z]{0,9}", 0..20), half in 1usize..12) {
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
        fn capped_never_exceeds_its_cap(pieces in proptest::collection::vec(".{0,9}", 0..20), cap in 0usize..40) {
            let mut c = Capped::new(cap);
            for p in &pieces { c.push(p); }
            let all = pieces.concat();
            let truncated = c.truncated();
            let text = c.into_text();
            if truncated {
                let kept = text.split("\n[OUTPUT TRUNCATED").next().unwrap_or_default();
                prop_assert!(all.starts_with(kept) && kept.len() <= cap);
            } else {
                prop_assert_eq!(text, all);
            }
        }
    }
}
