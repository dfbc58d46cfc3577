//! The door to a terminal: lets through text, line breaks, tabs and the colours of Ostler's own, and spells out the rest.
//!
//! Texts of others are made fit where they are shown ([`ostler::clip::plain`], `word`, `visible`). This is the last
//! line behind those: a text that somebody forgot cannot move the cursor, write the clipboard or turn a line around.
//! What it spells out is written as JSON does (`\u202e`), so that JSON stays valid and means the same.

use std::io::{self, IsTerminal, Write};

use ostler::clip::{is_deceptive, is_harmless_joiner};

/// The longest colour sequence; a longer one is none of ours.
const LONGEST: usize = 24;

/// Codes of colours and weights that styles and the help use. None of them hides text.
const COLOURS: [&str; 20] = [
    "", "0", "1", "2", "3", "4", "22", "23", "24", "31", "32", "33", "34", "35", "36", "37", "39",
    "90", "92", "93",
];

/// A writer that guards the terminal behind it. What is not a terminal gets everything as it is.
pub(crate) struct TerminalFilter<W> {
    inner: W,
    is_terminal: bool,
    /// The beginning of a character or of a colour whose rest has not come yet.
    begun: Vec<u8>,
    /// The last character that was let through.
    before: char,
}

impl TerminalFilter<io::Stdout> {
    /// The door to stdout.
    pub(crate) fn stdout() -> Self {
        Self::new(io::stdout(), io::stdout().is_terminal())
    }
}

impl TerminalFilter<io::Stderr> {
    /// The door to stderr.
    pub(crate) fn stderr() -> Self {
        Self::new(io::stderr(), io::stderr().is_terminal())
    }
}

impl<W: Write> TerminalFilter<W> {
    pub(crate) fn new(inner: W, is_terminal: bool) -> Self {
        Self {
            inner,
            is_terminal,
            begun: Vec::new(),
            before: ' ',
        }
    }
}

impl<W: Write> Write for TerminalFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.inner.write(bytes);
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut safe = String::with_capacity(all.len());
        let used = pass(&all, &mut self.before, &mut safe);
        self.begun = all.split_off(used);
        self.inner.write_all(safe.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Appends what may pass of some bytes, and returns how many of them were used: the rest is the beginning of something.
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
                Colour::Begun => return at,
                Colour::None => {
                    spell('\u{1b}', safe);
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
            // A character whose rest comes with the next write, unless something else has come already.
            Err(error) if error.error_len().is_none() && end == rest.len() => return at,
            Err(_) => {
                spell(char::REPLACEMENT_CHARACTER, safe);
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
                spell(c, safe);
            }
            *before = c;
        }
    }
    at
}

/// What begins with an escape character.
enum Colour {
    /// A colour of ours, of so many bytes.
    Whole(usize),
    /// The beginning of one, perhaps.
    Begun,
    /// Something else.
    None,
}

fn colour(bytes: &[u8]) -> Colour {
    let is_code = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    match bytes {
        [_] => Colour::Begun,
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
            None if bytes.len() < LONGEST => Colour::Begun,
            None => Colour::None,
        },
        _ => Colour::None,
    }
}

fn spell(c: char, safe: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        safe.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&[u8]], is_terminal: bool) -> Vec<u8> {
        let mut terminal_filter = TerminalFilter::new(Vec::new(), is_terminal);
        pieces
            .iter()
            .for_each(|piece| terminal_filter.write_all(piece).unwrap());
        terminal_filter.inner
    }

    fn shown(text: &str) -> String {
        String::from_utf8(through(&[text.as_bytes()], true)).unwrap()
    }

    #[test]
    fn text_and_our_colours_pass() {
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
    fn the_rest_is_spelled_out() {
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

    // A writer may be given anything in any pieces.
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
    fn a_file_gets_everything_as_it_is() {
        let text = "a\u{1b}[2J\u{202e}\u{9b}".as_bytes();
        assert_eq!(through(&[text], false), text);
    }
}
