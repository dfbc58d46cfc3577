//! Sanitizing of foreign values for a single line: no escape sequences, no line breaks, limited
//! length, and no invisible characters.

use ostler::render::clip::{is_harmless_joiner, sanitize};

/// Maximum length of a name or id.
pub(super) const MAX_NAME: usize = 64;

/// Sanitizes a value for a line: plain, on one line, at most `width` characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    // Text that is cut off later need not be sanitized; the margin allows for escape sequences.
    let end = text
        .char_indices()
        .nth(width.saturating_mul(8))
        .map_or(text.len(), |(at, _)| at);
    let text = sanitize(&text[..end]).replace(['\n', '\t'], " ");
    let (shown, left) = escaped(&text, width, is_visible_after);
    shortened(shown, left)
}

/// Marks a text if characters were cut off.
pub(crate) fn shortened(shown: String, left: usize) -> String {
    if left == 0 {
        shown
    } else {
        format!("{shown}…")
    }
}

/// Sanitizes a name or id.
pub(crate) fn name(text: &str) -> String {
    one_line(text, MAX_NAME)
}

/// Returns as much of a text as fits, and how many characters are cut off. Control and invisible
/// characters are escaped, and nothing is dropped.
pub(crate) fn visible(text: &str, width: usize) -> (String, usize) {
    escaped(text, width, |_, c| is_visible(c))
}

/// Like [`visible`], but escapes the characters that `is_visible` rejects after the previous one.
fn escaped(text: &str, width: usize, is_visible: impl Fn(char, char) -> bool) -> (String, usize) {
    let (mut shown, mut room, mut before) = (String::new(), width, ' ');
    for (at, c) in text.char_indices() {
        let piece = if is_visible(before, c) {
            c.to_string()
        } else {
            escape(c)
        };
        before = c;
        match room.checked_sub(piece.chars().count()) {
            Some(rest) => room = rest,
            None => return (shown, text[at..].chars().count()),
        }
        shown.push_str(&piece);
    }
    (shown, 0)
}

fn escape(c: char) -> String {
    match c {
        '\t' | '\r' | '\n' => c.escape_default().to_string(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => c.escape_unicode().to_string(),
    }
}

/// Returns true if a character is visible: not a control, format or direction character, and no
/// blank except the space.
fn is_visible(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // Blank letters and marks, and selectors that only modify the previous character.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => {
            false
        }
        '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        // The standard library knows which characters are printable. After a letter, combining
        // accents are.
        c => String::from_iter(['a', c]).escape_debug().nth(1) == Some(c),
    }
}

/// Returns true if a character is visible or belongs to the previous one, such as parts of an emoji
/// and joiners.
fn is_visible_after(before: char, c: char) -> bool {
    is_visible(c)
        || is_harmless_joiner(before, c)
        || c == '\u{fe0f}' && is_harmless_joiner(before, '\u{200d}')
}

/// Returns true if an id can safely be typed into a shell.
pub(super) fn is_safe_to_type(id: &str) -> bool {
    let fits = (1..=MAX_NAME).contains(&id.len()) && !id.starts_with('-');
    fits && id
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sanitized_and_cut_between_characters() {
        assert_eq!(one_line("aé😀b", 3), "aé😀…");
        assert_eq!(one_line("é\n\u{1b}]52;c;x\u{7}😀", 2), "é …");
        assert_eq!(one_line("a\tb", 9), "a b");
        let joined = "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 می\u{200c}خواهم";
        assert_eq!(one_line(joined, 99), joined);
        assert_eq!(one_line("a\u{200d}\u{fe0f}", 99), "a\\u{200d}\\u{fe0f}");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(one_line("a\u{202e}b\u{feff}", 99), "a\\u{202e}b\\u{feff}");
        assert_eq!(
            visible("\u{1b}]0;x\u{7}\t\u{9b}", 99).0,
            "\\x1b]0;x\\x07\\t\\u{9b}"
        );
        let hidden = ('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
            .chain('\u{200b}'..='\u{200f}');
        for c in hidden.chain("\u{ad}\u{61c}\u{a0}\u{2028}\u{3164}\u{fe0f}\u{e0041}\u{7f}".chars())
        {
            assert!(!is_visible(c), "{c:?}");
        }
        let plain = "é e\u{301} 日本 ไม่ 😀 \"\\' › …";
        assert_eq!(visible(plain, 99), (plain.to_owned(), 0));
        // Text that a user approves is escaped in full.
        assert_eq!(visible("می\u{200c}خ", 99).0, "می\\u{200c}خ");
        // An escape is not cut in two.
        assert_eq!(visible("ab\u{202e}cd", 5), ("ab".to_owned(), 3));
    }

    #[test]
    fn only_plain_ids_are_offered_to_a_shell() {
        assert!(is_safe_to_type("0f8fad5b-d9cb-469f-a165-70867728950e") && is_safe_to_type("a_1"));
        for bad in [
            "",
            "a b",
            "a;b",
            "$(x)",
            "-x",
            "a\u{1b}",
            "é",
            &"a".repeat(65),
        ] {
            assert!(!is_safe_to_type(bad), "{bad}");
        }
    }
}
