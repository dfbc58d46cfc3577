//! Line width: no Rust line is wider than 100 columns, not counting its string literals.

use super::Finding;
use super::tokens::{Kind, tokens};
use super::tree::Tree;

/// As `max_width` in rustfmt.toml, which leaves comments and long strings alone.
const WIDEST: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        if text.lines().all(|line| line.chars().count() <= WIDEST) {
            continue;
        }
        for (at, width) in widths(text).into_iter().enumerate() {
            if width > WIDEST {
                let message = format!("{width} columns, more than {WIDEST} (wrap the line)");
                findings.push(Finding::new(path, at + 1, message));
            }
        }
    }
    findings
}

/// Returns the width of each line without the contents of string literals.
fn widths(text: &str) -> Vec<usize> {
    let mut strings = tokens(text)
        .into_iter()
        .filter(|token| matches!(token.kind, Kind::Text(_)))
        .map(|token| token.span)
        .peekable();
    let mut widths = vec![0];
    for (at, c) in text.char_indices() {
        while strings.next_if(|span| span.end <= at).is_some() {}
        if c == '\n' {
            widths.push(0);
        } else if strings.peek().is_none_or(|span| at < span.start)
            && let Some(width) = widths.last_mut()
        {
            *width += 1;
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        check(&tree).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn wide_comments_and_code_are_found() {
        let words = "é".repeat(97);
        assert_eq!(lines(&format!("// {words}\n")), [0; 0]);
        assert_eq!(lines(&format!("fn f() {{}}\n// {words}.\n")), [2]);
        assert_eq!(lines(&format!("let {words} = 1;")), [1]);
    }

    #[test]
    fn string_literals_do_not_count() {
        let words = "word ".repeat(30);
        assert_eq!(
            lines(&format!("f(\"{words}\", r#\"{words}\n{words}\"#);")),
            [0; 0]
        );
        assert_eq!(lines(&format!("f(\"{words}\"); // {words}")), [1]);
    }
}
