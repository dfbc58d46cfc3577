//! Wildcard patterns for tools and for parts of commands.

/// Returns true if `text` matches `pattern`, in which `*` matches anything.
pub(super) fn matches_wildcard(pattern: &str, text: &str) -> bool {
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
    use super::*;

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
