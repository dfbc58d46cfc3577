//! Grams: the pieces of words by which the index finds candidates for any part of a word.
//!
//! A text is found by any part of it, in any script, without knowledge of where words begin. The
//! index holds every three characters in a row of each word, once per document. It only selects
//! candidates: [`Terms`](super::terms::Terms) decides whether a text matches.

use std::fmt::Write;

use super::document::Speaker;

/// Maximum number of grams of a query. Further ones would hardly exclude any more candidates.
const MAX_GRAMS: usize = 48;

/// Number of characters in a gram.
const LENGTH: usize = 3;

/// Starts the token of a speaker. It is for private use, and not a part of any text.
const SPEAKER: char = '\u{e000}';

/// Up to three characters: 21 bits each, the first one highest. 0 stands for none.
type Gram = u64;

/// Folds a text for comparison: lower case, and any white space is one space. Calls `each` with
/// every character, and with where it comes from.
pub(crate) fn fold(text: &str, mut each: impl FnMut(char, usize)) {
    let mut was_space = false;
    for (at, c) in text.char_indices() {
        let is_space = c.is_whitespace();
        if is_space {
            if !was_space {
                each(' ', at);
            }
        } else if c.is_ascii() {
            each(c.to_ascii_lowercase(), at);
        } else {
            c.to_lowercase().for_each(|lower| each(lower, at));
        }
        was_space = is_space;
    }
}

/// Returns the folded text.
pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold(text, |c, _| folded.push(c));
    folded
}

/// Maps a character to what the index distinguishes: all ASCII punctuation is the same, so that a
/// gram is one token and never syntax of a query.
fn class(c: char) -> char {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        '_'
    } else {
        c
    }
}

fn gram(chars: &[char]) -> Gram {
    let codes = (0..LENGTH).map(|at| chars.get(at).map_or(0, |c| u64::from(u32::from(*c))));
    codes.fold(0, |gram, code| gram << 21 | code)
}

/// Appends a gram as a token.
fn push(tokens: &mut String, gram: Gram) {
    let codes = [gram >> 42, gram >> 21 & 0x1f_ffff, gram & 0x1f_ffff];
    let chars = codes
        .into_iter()
        .filter_map(|code| u32::try_from(code).ok().and_then(char::from_u32));
    tokens.extend(chars.filter(|c| *c != '\0'));
}

/// Returns the token of a speaker.
fn speaker_token(speaker: Speaker) -> String {
    format!("{SPEAKER}{}", speaker.as_str())
}

/// Returns the tokens of a document for the index, each once.
pub(crate) fn tokens(speaker: Speaker, text: &str) -> String {
    let (mut grams, mut word): (Vec<Gram>, Vec<char>) = Default::default();
    let mut end_word = |word: &mut Vec<char>| {
        // The last ones are shorter, so that every character begins one.
        grams.extend((0..word.len()).map(|at| gram(&word[at..])));
        word.clear();
    };
    fold(text, |c, _| match c {
        ' ' => end_word(&mut word),
        c => word.push(class(c)),
    });
    end_word(&mut word);
    grams.sort_unstable();
    grams.dedup();
    let mut tokens = speaker_token(speaker);
    tokens.reserve(grams.len() * (LENGTH + 1));
    for gram in grams {
        tokens.push(' ');
        push(&mut tokens, gram);
    }
    tokens
}

/// Returns the query for documents that may contain all of these folded texts.
pub(crate) fn query<'a>(texts: impl Iterator<Item = &'a str>, speaker: Option<Speaker>) -> String {
    let mut grams = Vec::new();
    for word in texts.flat_map(|text| text.split(' ')) {
        let chars: Vec<char> = word.chars().map(class).collect();
        let count = chars.len().saturating_sub(LENGTH - 1).max(1);
        let own = (0..count).map(|at| (gram(chars.get(at..).unwrap_or_default()), chars.len()));
        grams.extend(own.filter(|(gram, _)| *gram != 0));
    }
    grams.sort_unstable();
    grams.dedup();
    // Evenly, since neighbours exclude much the same.
    let step = grams.len().div_ceil(MAX_GRAMS).max(1);
    let mut query = String::new();
    for (gram, length) in grams.into_iter().step_by(step) {
        let is_prefix = length < LENGTH;
        query.push_str(if query.is_empty() { "\"" } else { " AND \"" });
        push(&mut query, gram);
        query.push_str(if is_prefix { "\" *" } else { "\"" });
    }
    if let Some(speaker) = speaker {
        let token = speaker_token(speaker);
        let and = if query.is_empty() { "" } else { " AND " };
        let _ = write!(query, "{and}\"{token}\""); // to a string, it cannot fail
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_begins_a_gram() {
        assert_eq!(
            tokens(Speaker::User, "Foo_bar  of\n你好 foo"),
            "\u{e000}user _ba ar bar f foo o o_b of oo oo_ r 你好 好",
        );
    }

    #[test]
    fn a_query_has_only_grams() {
        let of = |texts: &[&str]| query(texts.iter().copied(), None);
        assert_eq!(of(&["lexer"]), "\"exe\" AND \"lex\" AND \"xer\"");
        assert_eq!(of(&["a b"]), "\"a\" * AND \"b\" *");
        assert_eq!(of(&["\"*\0"]), "\"___\"");
        assert_eq!(of(&["你好"]), "\"你好\" *");
        assert_eq!(of(&[]), "");
        assert_eq!(
            query(["a"].into_iter(), Some(Speaker::Tool)),
            "\"a\" * AND \"\u{e000}tool\""
        );
        let long: String = ('a'..='z').cycle().take(5_000).collect();
        let many: String = (0..500)
            .map(|n| char::from_u32(0x4e00 + n).unwrap())
            .collect();
        assert_eq!(of(&[&long]).matches(" AND ").count(), 25);
        assert!(of(&[&many]).matches(" AND ").count() < MAX_GRAMS);
    }
}
