//! Values that others chose, made fit to stand in a line of ours: no escape sequence, no line of their own, no end to
//! them.

use ostler::clip::plain;

/// The longest name or id that is shown whole.
pub(super) const NAME: usize = 64;

/// A value within a line: plain, on one line, at most `width` characters.
pub(crate) fn word(text: &str, width: usize) -> String {
    // What is cut off later need not be cleaned first; an escape sequence takes room too, hence the margin.
    let end = text.char_indices().nth(width.saturating_mul(8)).map_or(text.len(), |(at, _)| at);
    cut(&plain(&text[..end]).replace(['\n', '\t'], " "), width)
}

/// A name or an id.
pub(crate) fn name(text: &str) -> String {
    word(text, NAME)
}

/// At most `width` characters.
pub(super) fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Whether a person can be told to type this into a shell.
pub(super) fn is_safe_to_type(id: &str) -> bool {
    let fits = (1..=NAME).contains(&id.len()) && !id.starts_with('-');
    fits && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_plain_on_one_line_and_cut_between_characters() {
        assert_eq!(cut("aé😀b", 3), "aé😀…");
        assert_eq!(word("é\n\u{1b}]52;c;x\u{7}😀", 2), "é …");
        assert_eq!(word("a\tb", 9), "a b");
    }

    #[test]
    fn only_plain_ids_are_offered_to_a_shell() {
        assert!(is_safe_to_type("0f8fad5b-d9cb-469f-a165-70867728950e") && is_safe_to_type("a_1"));
        for bad in ["", "a b", "a;b", "$(x)", "-x", "a\u{1b}", "é", &"a".repeat(65)] {
            assert!(!is_safe_to_type(bad), "{bad}");
        }
    }
}
