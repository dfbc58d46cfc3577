//! Terms of a query: what the user typed, whether a text contains it, and where.

use super::grams::{fold, folded};

/// Maximum number of characters of a snippet before the first and after the last hit.
const CONTEXT: usize = 60;

/// Maximum distance of further hits that a snippet shows, in bytes.
const WINDOW: usize = 160;

/// Maximum number of hits of a term that are looked at.
const MAX_HITS: usize = 100;

/// Maximum number of terms.
const MAX_TERMS: usize = 32;

/// A part of a snippet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnippetPart {
    /// The text.
    pub text: String,
    /// Whether it is what was searched for.
    pub hit: bool,
}

/// The terms of a query: words, and phrases in quotes. Any text is a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms(Vec<String>);

impl Terms {
    /// Parses a query. A quotation mark that is not at the start of a word, or is never closed, is
    /// a character like any other.
    pub(crate) fn parse(query: &str) -> Self {
        let (mut terms, mut rest) = (Vec::new(), query.trim_start());
        while !rest.is_empty() {
            let phrase = rest
                .strip_prefix('"')
                .and_then(|quoted| quoted.split_once('"'))
                .filter(|(phrase, _)| !phrase.trim().is_empty());
            let (term, tail) = phrase.unwrap_or_else(|| {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            });
            let term = folded(term.trim());
            if !terms.contains(&term) && terms.len() < MAX_TERMS {
                terms.push(term);
            }
            rest = tail.trim_start();
        }
        Self(terms)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns a snippet of a text that contains all terms, with the hits marked.
    pub(crate) fn snippet(&self, text: &str) -> Option<Vec<SnippetPart>> {
        let hits = self.hits(text)?;
        let (first, last) = densest(&hits)?;
        let window = &hits[first..=last];
        let (start, end) = (window.first()?.start, window.iter().map(|it| it.end).max()?);
        let before = text[..start].char_indices().rev().take(CONTEXT).last();
        let from = before.map_or(start, |(at, _)| at);
        let after = text[end..].char_indices().nth(CONTEXT);
        let to = after.map_or(text.len(), |(more, _)| end + more);
        let mut parts = Parts::default();
        parts.add(if from > 0 { "…" } else { "" }, false);
        let mut at = from;
        for hit in window {
            parts.add(&text[at..hit.start.max(at)], false);
            parts.add(&text[hit.start.max(at)..hit.end.max(at)], true);
            at = at.max(hit.end);
        }
        parts.add(&text[at..to], false);
        parts.add(if to < text.len() { "…" } else { "" }, false);
        Some(parts.0)
    }

    /// Returns where the terms are, in order; `None` if one is missing.
    fn hits(&self, text: &str) -> Option<Vec<Hit>> {
        let plain = folded(text);
        if !self.0.iter().all(|term| plain.contains(term)) {
            return None;
        }
        // Where each character of the folded text begins, there and in the text.
        let (mut origins, mut length) = (Vec::new(), 0);
        fold(text, |c, at| {
            origins.push((length, at));
            length += c.len_utf8();
        });
        origins.push((length, text.len()));
        let origin = |folded: usize| {
            let at = origins.partition_point(|(start, _)| *start < folded);
            origins.get(at).map_or(text.len(), |(_, origin)| *origin)
        };
        let of_term = |(number, term): (usize, &String)| {
            let found = plain.match_indices(term.as_str()).take(MAX_HITS);
            let hits = found.map(|(at, found)| {
                let (start, end) = (origin(at), origin(at + found.len()));
                // A part of a character that is longer in lower case.
                let whole = text[start..].chars().next().map_or(0, char::len_utf8);
                Hit {
                    start,
                    end: end.max(start + whole),
                    term: number,
                }
            });
            hits.collect::<Vec<_>>()
        };
        let mut hits: Vec<Hit> = self.0.iter().enumerate().flat_map(of_term).collect();
        hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        Some(hits)
    }
}

/// A term in a text.
#[derive(Debug, Clone, Copy)]
struct Hit {
    start: usize,
    end: usize,
    term: usize,
}

/// Returns the first and the last hit of the first window with the most terms.
fn densest(hits: &[Hit]) -> Option<(usize, usize)> {
    let mut best: Option<(usize, (usize, usize))> = None;
    for (first, hit) in hits.iter().enumerate() {
        let within = hits[first..]
            .iter()
            .take_while(|it| it.start <= hit.start + WINDOW);
        let count = within.clone().count();
        let terms = within
            .fold(0_u64, |seen, it| seen | 1 << it.term)
            .count_ones();
        let terms = usize::try_from(terms).unwrap_or(0);
        if best.is_none_or(|(most, _)| terms > most) {
            best = Some((terms, (first, first + count - 1)));
        }
    }
    best.map(|(_, window)| window)
}

/// Parts of a snippet; neighbours of the same kind are one.
#[derive(Default)]
struct Parts(Vec<SnippetPart>);

impl Parts {
    fn add(&mut self, text: &str, hit: bool) {
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.hit == hit => last.text.push_str(text),
            _ => self.0.push(SnippetPart {
                text: text.to_owned(),
                hit,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(query: &str) -> Vec<String> {
        Terms::parse(query).0
    }

    /// Returns a snippet with hits in brackets.
    fn marked(query: &str, text: &str) -> Option<String> {
        let parts = Terms::parse(query).snippet(text)?;
        let show = |part: SnippetPart| match part.hit {
            true => format!("[{}]", part.text),
            false => part.text,
        };
        Some(parts.into_iter().map(show).collect())
    }

    #[test]
    fn any_text_is_a_query() {
        for (query, expected) in [
            ("fix  Parser", &["fix", "parser"][..]),
            ("\"Fix  the\n parser\" now", &["fix the parser", "now"]),
            ("5\" \"disk", &["5\"", "\"disk"]),
            ("a\"b c\"d", &["a\"b", "c\"d"]),
            ("\"\" \" \"", &["\"\"", "\""]),
            ("a a", &["a"]),
            ("NEAR( * AND ^ -x", &["near(", "*", "and", "^", "-x"]),
            ("  ", &[]),
        ] {
            assert_eq!(terms(query), expected, "{query}");
        }
        assert_eq!(terms(&"a b c d e f g h ".repeat(99)).len(), 8);
        let many: String = (0..999).map(|n| format!("{n} ")).collect();
        assert_eq!(terms(&many).len(), MAX_TERMS);
    }

    #[test]
    fn hits_are_marked_in_the_text_as_it_is() {
        for (query, text, expected) in [
            ("lexer", "the Lexer, LEXERS", Some("the [Lexer], [LEXER]S")),
            ("foo_bar", "x.foo_bar()", Some("x.[foo_bar]()")),
            ("foo bar", "bar or foo", Some("[bar] or [foo]")),
            ("\"or foo\"", "bar or\n\tfoo", Some("bar [or\n\tfoo]")),
            ("\"foo or\"", "bar or foo", None),
            ("foo nothing", "foo", None),
            ("aba", "ababa", Some("[aba]ba")),
            ("ab abab", "xabab", Some("x[abab]")),
            ("你好", "说你好吗", Some("说[你好]吗")),
            ("i", "İ", Some("[İ]")),
            ("straße", "STRASSE Straße", Some("STRASSE [Straße]")),
            ("%", "100%", Some("100[%]")),
        ] {
            assert_eq!(marked(query, text).as_deref(), expected, "{query} {text}");
        }
    }

    #[test]
    fn snippets_are_cut_between_characters() {
        let said = format!("{}Ärger{}", "é".repeat(100), "😀".repeat(100));
        let expected = format!("…{}[Ärger]{}…", "é".repeat(60), "😀".repeat(60));
        assert_eq!(marked("äRGER", &said), Some(expected));
    }

    #[test]
    fn the_snippet_shows_where_most_terms_are() {
        let far = "-".repeat(500);
        let text = format!("one {far} two one {far} two");
        let context = "-".repeat(59);
        let expected = format!("…{context} [two] [one] {context}…");
        assert_eq!(marked("one two", &text), Some(expected));
        let many = "one ".repeat(10_000);
        assert!(marked("one", &many).unwrap().len() < 500);
    }
}
