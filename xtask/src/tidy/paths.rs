//! Rust paths in a token stream, with `use a::{b, c}` expanded.

use super::tokens::Token;

/// A path `a::b::c` as written, and its alias from `as`.
#[derive(Debug, PartialEq)]
pub(super) struct Path {
    pub(super) parts: Vec<String>,
    pub(super) alias: Option<String>,
    pub(super) line: usize,
}

impl Path {
    /// Returns true if the parts occur consecutively, anywhere in the path.
    pub(super) fn contains(&self, parts: &[&str]) -> bool {
        self.parts
            .windows(parts.len())
            .any(|window| window == parts)
    }

    /// Returns the top-level module that the path leads to, if it is written in the module `here`.
    pub(super) fn below_root(&self, here: &[String]) -> Option<&str> {
        let supers = self
            .parts
            .iter()
            .take_while(|part| *part == "super")
            .count();
        let first = if self.parts.first().is_some_and(|part| part == "crate") {
            self.parts.get(1)
        } else if supers > 0 && supers == here.len() {
            self.parts.get(supers)
        } else {
            None
        };
        first.map(String::as_str)
    }

    /// Returns the name that importing the path brings into scope.
    pub(super) fn name(&self) -> Option<&str> {
        self.alias
            .as_deref()
            .or(self.parts.last().map(String::as_str))
    }
}

/// Returns every path, including single names.
pub(super) fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut reader = Reader {
        tokens,
        at: 0,
        found: Vec::new(),
    };
    while reader.at < tokens.len() {
        if tokens[reader.at].word().is_some() {
            reader.path(&[]);
        } else {
            reader.at += 1;
        }
    }
    reader.found
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    found: Vec<Path>,
}

impl Reader<'_> {
    /// Reads the path at this position, and the group it may end with.
    fn path(&mut self, prefix: &[String]) {
        let line = self.tokens[self.at].line;
        let mut parts = prefix.to_vec();
        while let Some(word) = self.word() {
            parts.push(word);
            self.at += 1;
            if !self.colons() {
                break;
            }
            self.at += 2;
            if self.sign('{') {
                self.group(&parts);
                return;
            }
        }
        let mut alias = None;
        if self.word().as_deref() == Some("as") {
            self.at += 1;
            alias = self.word();
            self.at += usize::from(alias.is_some());
        }
        self.found.push(Path { parts, alias, line });
    }

    fn group(&mut self, prefix: &[String]) {
        self.at += 1;
        while self.at < self.tokens.len() && !self.sign('}') {
            if self.word().is_some() {
                self.path(prefix);
            } else {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn word(&self) -> Option<String> {
        self.tokens
            .get(self.at)
            .and_then(Token::word)
            .map(str::to_owned)
    }

    fn sign(&self, sign: char) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.is(sign))
    }

    fn colons(&self) -> bool {
        matches!(&self.tokens[self.at..], [first, second, ..] if first.is(':') && second.is(':'))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn groups_are_expanded() {
        let found = paths(&tokens("use a::{b, c::{d as e, f}};\nx::y::<z>()"));
        let seen: Vec<_> = found
            .iter()
            .map(|path| (path.parts.join("::"), path.line))
            .collect();
        let expected = [
            ("use", 1),
            ("a::b", 1),
            ("a::c::d", 1),
            ("a::c::f", 1),
            ("x::y", 2),
            ("z", 2),
        ];
        assert_eq!(seen, expected.map(|(path, line)| (path.to_owned(), line)));
        assert_eq!(found[2].name(), Some("e"));
    }
}
