//! Wildcard patterns for names and for words of commands.

/// Returns true if `text` matches `pattern`, in which `*` matches any text.
///
/// Takes time proportional to the length of both for each star, whatever the pattern: a workspace's
/// own file may contain a hostile one.
#[must_use]
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first position at which a piece matches is as good as any other.
    for piece in middle.split('*') {
        let Some(at) = text.find(piece) else {
            return false;
        };
        text = &text[at + piece.len()..];
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every length that a star may match.
    fn matches_by_trying(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|at| matches_by_trying(rest, &text[at..])),
            Some((c, rest)) => text.first() == Some(c) && matches_by_trying(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn stars_match_what_trying_every_length_does(pattern in "[abö*]{0,8}", text in "[abö]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches_by_trying(&chars(&pattern), &chars(&text));
            prop_assert_eq!(matches_wildcard(&pattern, &text), expected);
        }
    }

    #[test]
    fn stars_match_anything() {
        for (pattern, text, like) in [
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("mcp__*", "mcp__x__y", true),
            ("mcp__*", "xmcp__", false),
            ("*::*", "ext::sh", true),
            ("*::*", "a:b", false),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("ab*ba", "aba", false),
            ("a*b*c", "a-c-b-c", true),
            ("a*b*c", "acbb", false),
            ("ä*ö", "äüö", true),
        ] {
            assert_eq!(matches_wildcard(pattern, text), like, "{pattern} {text}");
        }
    }
}
