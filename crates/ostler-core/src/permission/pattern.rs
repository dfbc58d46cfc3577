//! Words with stars: the patterns for tools and for parts of commands.

/// Whether `text` looks like `pattern`, in which `*` stands for anything.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place at which a piece fits is as good as any other.
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
    fn stars_stand_for_anything() {
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
            assert_eq!(is_like(pattern, text), like, "{pattern} {text}");
        }
    }
}
