//! Tokens of Rust source: words, string literals and punctuation, without comments.

use std::ops::Range;

/// Kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name, a keyword or a number.
    Word(String),
    /// The content of a string literal.
    Text(String),
    Sign(char),
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: usize,
    /// The bytes of the source; those between the quotes for a string literal.
    pub(super) span: Range<usize>,
}

impl Token {
    pub(super) fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Splits Rust source into tokens. Lifetimes and character literals are dropped: no check needs
/// them.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut scanner = Scanner {
        rest: text,
        at: 0,
        line: 1,
        tokens: Vec::new(),
    };
    while scanner.step() {}
    scanner.tokens
}

struct Scanner<'a> {
    rest: &'a str,
    /// Where `rest` begins in the source.
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Scanner<'_> {
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        if self.rest.starts_with("//") {
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.skip(block_comment(self.rest));
        } else if let Some((hashes, prefix)) = raw_string(self.rest) {
            let closing = format!("\"{}", "#".repeat(hashes));
            let inside = &self.rest[prefix..];
            let end = inside.find(&closing).unwrap_or(inside.len());
            self.text(prefix, prefix + end, closing.len());
        } else if first == '"' {
            self.text(1, plain_string(self.rest), 1);
        } else if first == '\'' {
            self.skip(character_or_lifetime(self.rest));
        } else if let Some(name) = self.rest.strip_prefix("r#")
            && name.starts_with(is_word)
        {
            // A raw identifier is the name after its prefix.
            self.skip(2);
        } else if is_word(first) {
            let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
            // The prefix of a byte or C string is not a name.
            let word = &self.rest[..end];
            if !(self.rest[end..].starts_with(['"', '\'']) && matches!(word, "b" | "c")) {
                self.push(Kind::Word(word.to_owned()), 0..end);
            }
            self.skip(end);
        } else {
            if !first.is_whitespace() {
                self.push(Kind::Sign(first), 0..first.len_utf8());
            }
            self.skip(first.len_utf8());
        }
        true
    }

    /// Adds a token whose bytes are this range of the rest.
    fn push(&mut self, kind: Kind, range: Range<usize>) {
        self.tokens.push(Token {
            kind,
            line: self.line,
            span: self.at + range.start..self.at + range.end,
        });
    }

    fn text(&mut self, from: usize, to: usize, closing: usize) {
        self.push(Kind::Text(self.rest[from..to].to_owned()), from..to);
        self.skip((to + closing).min(self.rest.len()));
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count();
        self.at += bytes;
        self.rest = rest;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of a block comment, which may be nested.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the number of hashes and the length of the opening delimiter, if the text begins with a
/// raw string.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let after = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    let quote = after.trim_start_matches('#');
    quote
        .starts_with('"')
        .then(|| (after.len() - quote.len(), text.len() - quote.len() + 1))
}

/// Returns the offset of the closing quote of a string that begins here.
fn plain_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

fn character_or_lifetime(text: &str) -> usize {
    let mut inside = text.char_indices().skip(1);
    match inside.next() {
        // An escape: the closing quote is the first one after the escaped character.
        Some((at, '\\')) => {
            let from = (at + 2).min(text.len());
            text.get(from..)
                .and_then(|rest| rest.find('\''))
                .map_or(text.len(), |end| from + end + 1)
        }
        Some((_, _)) => match inside.next() {
            Some((at, '\'')) => at + 1,
            _ => 1 + text[1..].find(|c| !is_word(c)).unwrap_or(text.len() - 1),
        },
        None => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text)
            .iter()
            .filter_map(|token| token.word().map(str::to_owned))
            .collect()
    }

    #[test]
    fn comments_and_strings_hide_their_words() {
        assert_eq!(
            words("a // b\n/* c /* d */ e */ f \"g \\\" h\" r#\"i \" j\"# b\"k\" l"),
            ["a", "f", "l"]
        );
    }

    #[test]
    fn characters_and_lifetimes_do_not_open_strings() {
        assert_eq!(
            words(r#"'"' x '\'' y '\u{1f}' fn f<'a>(z: &'a str) b'"' w"#),
            ["x", "y", "fn", "f", "z", "str", "w"]
        );
    }

    #[test]
    fn a_raw_identifier_is_its_name() {
        assert_eq!(words("mod r#loop; r#\"text\"#"), ["mod", "loop"]);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let found = tokens("/*\n*/ \"\n\" r\"\n\"\nlast");
        assert_eq!(found.last().map(|token| token.line), Some(5));
    }
}
