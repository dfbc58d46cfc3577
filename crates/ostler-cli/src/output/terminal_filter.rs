//! Filter in front of a terminal: passes text, line breaks, tabs and Ostler's own colours, and
//! escapes everything else.
//!
//! Foreign text is sanitized where it is shown ([`ostler::render::clip::sanitize`], `one_line`,
//! `visible`). This filter is the last line of defence: text that was missed there cannot move the
//! cursor, write to the clipboard or reverse a line. Characters are escaped as in JSON (`\u202e`),
//! so that JSON output stays valid and keeps its meaning.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ostler::render::clip::{is_deceptive, is_harmless_joiner};

/// Maximum length of a colour sequence; Ostler's own are shorter.
const MAX_SEQUENCE: usize = 24;

/// Codes of colours and weights that Ostler and its help use. None of them hides text.
const COLOURS: [&str; 20] = [
    "", "0", "1", "2", "3", "4", "22", "23", "24", "31", "32", "33", "34", "35", "36", "37", "39",
    "90", "92", "93",
];

/// Whether the last text on the terminal did not end with a line break.
static IS_MID_LINE: AtomicBool = AtomicBool::new(false);

/// Returns true if the cursor of the terminal is not at the start of a line.
pub(super) fn is_mid_line() -> bool {
    IS_MID_LINE.load(Ordering::Relaxed)
}

/// A writer that filters output to a terminal. Output to anything else is unchanged.
pub(crate) struct TerminalFilter<W> {
    inner: W,
    is_terminal: bool,
    /// Incomplete character or colour sequence at the end of the last write.
    partial: Vec<u8>,
    /// The last character that was written.
    before: char,
}

impl TerminalFilter<io::Stdout> {
    /// Returns filtered stdout.
    pub(crate) fn stdout() -> Self {
        Self::new(io::stdout(), io::stdout().is_terminal())
    }
}

impl<W: Write> TerminalFilter<W> {
    pub(crate) fn new(inner: W, is_terminal: bool) -> Self {
        Self {
            inner,
            is_terminal,
            partial: Vec::new(),
            before: ' ',
        }
    }
}

impl<W: Write> Write for TerminalFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.inner.write(bytes);
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let mut safe = String::with_capacity(all.len());
        let used = pass(&all, &mut self.before, &mut safe);
        self.partial = all.split_off(used);
        self.inner.write_all(safe.as_bytes())?;
        if !safe.is_empty() {
            IS_MID_LINE.store(!safe.ends_with('\n'), Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Appends the filtered bytes to `safe`, and returns how many were used. The rest is an incomplete
/// sequence.
fn pass(bytes: &[u8], before: &mut char, safe: &mut String) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest[0] == 0x1b {
            match colour(rest) {
                Colour::Whole(length) => {
                    safe.push_str(&String::from_utf8_lossy(&rest[..length]));
                    at += length;
                }
                Colour::Partial => return at,
                Colour::None => {
                    escape('\u{1b}', safe);
                    at += 1;
                }
            }
            continue;
        }
        let end = rest
            .iter()
            .position(|byte| *byte == 0x1b)
            .unwrap_or(rest.len());
        let text = match std::str::from_utf8(&rest[..end]) {
            Ok(text) => text,
            Err(error) if error.valid_up_to() > 0 => {
                std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default()
            }
            // An incomplete character; its rest may come with the next write.
            Err(error) if error.error_len().is_none() && end == rest.len() => return at,
            Err(_) => {
                escape(char::REPLACEMENT_CHARACTER, safe);
                at += 1;
                continue;
            }
        };
        at += text.len();
        for c in text.chars() {
            let is_bad = c.is_control() || is_deceptive(c) && !is_harmless_joiner(*before, c);
            if matches!(c, '\n' | '\t') || !is_bad {
                safe.push(c);
            } else {
                escape(c, safe);
            }
            *before = c;
        }
    }
    at
}

/// A sequence that begins with an escape character.
enum Colour {
    /// One of Ostler's colours, with its length in bytes.
    Whole(usize),
    /// Possibly the beginning of a colour.
    Partial,
    /// Something else.
    None,
}

fn colour(bytes: &[u8]) -> Colour {
    let is_code = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    match bytes {
        [_] => Colour::Partial,
        [_, b'[', rest @ ..] => match rest.iter().position(|byte| !is_code(byte)) {
            Some(end) => {
                let codes = std::str::from_utf8(&rest[..end]).unwrap_or("8");
                let is_ours =
                    rest[end] == b'm' && codes.split(';').all(|code| COLOURS.contains(&code));
                if is_ours {
                    Colour::Whole(end + 3)
                } else {
                    Colour::None
                }
            }
            None if bytes.len() < MAX_SEQUENCE => Colour::Partial,
            None => Colour::None,
        },
        _ => Colour::None,
    }
}

fn escape(c: char, safe: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        safe.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&[u8]], is_terminal: bool) -> Vec<u8> {
        let mut filter = TerminalFilter::new(Vec::new(), is_terminal);
        pieces
            .iter()
            .for_each(|piece| filter.write_all(piece).unwrap());
        filter.inner
    }

    fn shown(text: &str) -> String {
        String::from_utf8(through(&[text.as_bytes()], true)).unwrap()
    }

    #[test]
    fn text_and_own_colours_pass() {
        for text in [
            "plain é 日本 😀\tx\n",
            "👩\u{200d}💻 می\u{200c}خواهم",
            "\u{1b}[31mred\u{1b}[0m",
            "\u{1b}[1m\u{1b}[32mx\u{1b}[0m",
            "\u{1b}[2;36mx",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn everything_else_is_escaped() {
        let table = [
            ("\u{1b}]52;c;x\u{7}", "\\u001b]52;c;x\\u0007"),
            ("\u{1b}[2J", "\\u001b[2J"),
            ("\u{1b}[8mhidden", "\\u001b[8mhidden"),
            ("\u{1b}[30;40mx", "\\u001b[30;40mx"),
            ("a\u{9b}2J\u{202e}b\r", "a\\u009b2J\\u202eb\\u000d"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("a\u{200d}b👩\u{200d}\u{200d}", "a\\u200db👩\u{200d}\\u200d"),
            ("\u{1b}\u{1b}[31mx", "\\u001b\u{1b}[31mx"),
        ];
        for (text, want) in table {
            assert_eq!(shown(text), want);
        }
        assert_eq!(through(&[b"a\xff\xc3(b"], true), b"a\\ufffd\\ufffd(b");
    }

    // A writer may receive its input in any pieces.
    #[test]
    fn pieces_make_no_difference() {
        let text = "é\u{1b}[31mr\u{202e}ed\u{1b}[0m 😀\u{200d}😀\u{1b}[2J\u{9b}x\n".as_bytes();
        let whole = through(&[text], true);
        for cut in 0..text.len() {
            assert_eq!(through(&[&text[..cut], &text[cut..]], true), whole, "{cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(through(&bytes, true), whole);
    }

    #[test]
    fn files_are_not_filtered() {
        let text = "a\u{1b}[2J\u{202e}\u{9b}".as_bytes();
        assert_eq!(through(&[text], false), text);
    }
}
