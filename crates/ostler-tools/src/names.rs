//! File names in text that a model or a person reads: one name is one line, and reads in the order it is written.

/// Whether a character could make a name look like something else: it breaks the line, controls a terminal, or changes the
/// direction of the text around it.
pub(crate) fn is_deceiving(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// Returns the name as text. One that holds a deceiving character, or begins with a quotation mark, is put into quotation marks
/// with escapes, so that no two names look the same.
pub(crate) fn quoted(name: &str) -> String {
    if !name.contains(is_deceiving) && !name.starts_with('"') {
        return name.to_owned();
    }
    let mut text = String::from('"');
    for char in name.chars() {
        escape(char, &mut text);
    }
    text.push('"');
    text
}

fn escape(char: char, text: &mut String) {
    match char {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '"' | '\\' => text.extend(['\\', char]),
        char if is_deceiving(char) => text.extend(char.escape_unicode()),
        char => text.push(char),
    }
}

/// Returns the name that [`quoted`] turned into this text, or `None` if the text is not of that form.
pub(crate) fn unquoted(text: &str) -> Option<String> {
    let mut inner = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut name = String::new();
    while let Some(char) = inner.next() {
        match char {
            '"' => return None,
            '\\' => name.push(match inner.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                char @ ('"' | '\\') => char,
                'u' => {
                    let rest = inner.as_str().strip_prefix('{')?;
                    let (digits, after) = rest.split_once('}')?;
                    inner = after.chars();
                    u32::from_str_radix(digits, 16)
                        .ok()
                        .and_then(char::from_u32)?
                }
                _ => return None,
            }),
            char => name.push(char),
        }
    }
    (text.len() > 1).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_ordinary_name_stays_as_it_is() {
        for name in [
            "src/main.rs",
            "a b",
            "back\\slash",
            "ünï",
            "it's",
            "a\"b",
            "…",
            "👩\u{200d}💻",
        ] {
            assert_eq!(quoted(name), name);
        }
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert_eq!(quoted("\"a\""), "\"\\\"a\\\"\"");
        assert_eq!(unquoted("plain"), None);
        assert_eq!(unquoted("\""), None);
        assert_eq!(unquoted("\"a\\x\""), None);
    }

    proptest! {
        // Two names never look the same, and each can be told from its text.
        #[test]
        fn every_quoted_name_is_one_line_and_can_be_read_back(name in any::<String>()) {
            let text = quoted(&name);
            prop_assert!(!text.contains(is_deceiving), "{text:?}");
            let back = if text.starts_with('"') { unquoted(&text) } else { Some(text) };
            prop_assert_eq!(back, Some(name));
        }
    }
}
