//! Splitting of example commands into words, and wildcard patterns.

/// Splits a line into words at spaces, except within single or double quotes.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Returns true if `text` matches `pattern`, in which `*` matches any text.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    // The first position at which the next piece fits is as good as any other.
    let cuts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    cuts.into_iter().any(|at| is_like(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_at_unquoted_spaces() {
        assert_eq!(
            split("git  commit -m 'a b' \"\" x\"y z\"").unwrap(),
            ["git", "commit", "-m", "a b", "", "xy z"]
        );
        assert!(split("git 'x").is_err());
        assert_eq!(split(" ").unwrap(), [""; 0]);
    }

    #[test]
    fn star_matches_any_text() {
        for (pattern, text, like) in [
            ("*", "", true),
            ("+*", "+main", true),
            ("+*", "main", false),
            ("*::*", "ext::sh -c x", true),
            ("*::*", "a:b", false),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(is_like(pattern, text), like, "{pattern} {text}");
        }
    }
}
