//! File names in text for a model or a person: one line per name, in reading order.

/// Returns true for a character that could disguise a name: one that breaks the line, controls a
/// terminal, or changes the direction of the surrounding text.
pub(crate) fn is_deceiving(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Returns the name as text. A name that contains a deceptive character or starts with a quotation
/// mark is quoted and escaped, so no two names look the same.
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

/// Returns the name that [`quoted`] turned into this text, or `None` if the text is not quoted.
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
    fn ordinary_names_are_not_quoted() {
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
        // No two names look the same, and each can be recovered from its text.
        #[test]
        fn quoted_names_are_one_line_and_round_trip(name in any::<String>()) {
            let text = quoted(&name);
            prop_assert!(!text.contains(is_deceiving), "{text:?}");
            let back = if text.starts_with('"') { unquoted(&text) } else { Some(text) };
            prop_assert_eq!(back, Some(name));
        }
    }
}
