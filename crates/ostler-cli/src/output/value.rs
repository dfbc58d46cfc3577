//! Values that others chose, made fit to stand in a line of ours: no escape sequence, no line of their own, no end to
//! them, and nothing in them that cannot be seen.

use ostler::clip::{is_harmless_joiner, plain};

/// The longest name or id that is shown whole.
pub(super) const NAME: usize = 64;

/// A value within a line: plain, on one line, at most `width` characters.
pub(crate) fn word(text: &str, width: usize) -> String {
    // What is cut off later need not be cleaned first; an escape sequence takes room too, hence the margin.
    let end = text
        .char_indices()
        .nth(width.saturating_mul(8))
        .map_or(text.len(), |(at, _)| at);
    let text = plain(&text[..end]).replace(['\n', '\t'], " ");
    let (shown, left) = spelled(&text, width, is_seen_behind);
    if left == 0 {
        shown
    } else {
        format!("{shown}…")
    }
}

/// A name or an id.
pub(crate) fn name(text: &str) -> String {
    word(text, NAME)
}

/// As much of a text as fits, and how many of its characters do not. What a terminal would obey, or would not show, is
/// spelled out, and nothing is dropped.
pub(crate) fn visible(text: &str, width: usize) -> (String, usize) {
    spelled(text, width, |_, c| is_seen(c))
}

/// Does what [`visible`] does, for characters that `is_seen` does not accept behind the one before them.
fn spelled(text: &str, width: usize, is_seen: impl Fn(char, char) -> bool) -> (String, usize) {
    let (mut shown, mut room, mut before) = (String::new(), width, ' ');
    for (at, c) in text.char_indices() {
        let spelled = if is_seen(before, c) {
            c.to_string()
        } else {
            spell(c)
        };
        before = c;
        match room.checked_sub(spelled.chars().count()) {
            Some(rest) => room = rest,
            None => return (shown, text[at..].chars().count()),
        }
        shown.push_str(&spelled);
    }
    (shown, 0)
}

fn spell(c: char) -> String {
    match c {
        '\t' | '\r' | '\n' => c.escape_default().to_string(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => c.escape_unicode().to_string(),
    }
}

/// Whether a character shows itself: no control or format character, nothing that turns the direction of a line, no blank
/// but the space.
fn is_seen(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // Letters and marks that are blank, and selectors that only change what stands before them.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => {
            false
        }
        '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        // The standard library knows what can be printed. Behind a letter, an accent of its own can be.
        c => String::from_iter(['a', c]).escape_debug().nth(1) == Some(c),
    }
}

/// Whether a character shows itself, or belongs to the one before it: the parts of an emoji, and joiners.
fn is_seen_behind(before: char, c: char) -> bool {
    is_seen(c)
        || is_harmless_joiner(before, c)
        || c == '\u{fe0f}' && is_harmless_joiner(before, '\u{200d}')
}

/// Whether a person can be told to type this into a shell.
pub(super) fn is_safe_to_type(id: &str) -> bool {
    let fits = (1..=NAME).contains(&id.len()) && !id.starts_with('-');
    fits && id
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_plain_on_one_line_and_cut_between_characters() {
        assert_eq!(word("aé😀b", 3), "aé😀…");
        assert_eq!(word("é\n\u{1b}]52;c;x\u{7}😀", 2), "é …");
        assert_eq!(word("a\tb", 9), "a b");
        let joined = "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 می\u{200c}خواهم";
        assert_eq!(word(joined, 99), joined);
        assert_eq!(word("a\u{200d}\u{fe0f}", 99), "a\\u{200d}\\u{fe0f}");
    }

    #[test]
    fn what_hides_is_spelled_out() {
        assert_eq!(word("a\u{202e}b\u{feff}", 99), "a\\u{202e}b\\u{feff}");
        assert_eq!(
            visible("\u{1b}]0;x\u{7}\t\u{9b}", 99).0,
            "\\x1b]0;x\\x07\\t\\u{9b}"
        );
        let hidden = ('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
            .chain('\u{200b}'..='\u{200f}');
        for c in hidden.chain("\u{ad}\u{61c}\u{a0}\u{2028}\u{3164}\u{fe0f}\u{e0041}\u{7f}".chars())
        {
            assert!(!is_seen(c), "{c:?}");
        }
        let plain = "é e\u{301} 日本 ไม่ 😀 \"\\' › …";
        assert_eq!(visible(plain, 99), (plain.to_owned(), 0));
        // What is approved is spelled out whole.
        assert_eq!(visible("می\u{200c}خ", 99).0, "می\\u{200c}خ");
        // What is spelled out is not cut in two.
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
