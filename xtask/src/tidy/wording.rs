//! Wording: phrases that docs, comments, messages and names avoid, with their replacements.

use super::Finding;
use super::tree::Tree;

/// The phrases, and the words to use instead.
///
/// A phrase is a sequence of whole words, in any case, also across a line break. `*` stands for
/// any ending of a word. A final `.` asks for the end of a clause. A phrase with a capital letter
/// is compared exactly.
const AVOID: &[(&str, &str)] = &[
    ("go on with", "resume, continue"),
    ("goes on with", "resumes, continues"),
    ("going on with", "resuming, continuing"),
    ("gone on with", "resumed, continued"),
    ("went on with", "resumed, continued"),
    ("mend*", "fix, repair"),
    ("wish*", "request, want"),
    ("what is no", "anything that is not a"),
    ("nobody is there", "unattended, no handler"),
    ("somebody", "a user, another process, attended"),
    ("in good order", "cleanly, gracefully"),
    ("made fit", "adapted, escaped, converted"),
    ("for good.", "permanently"),
    ("some day.", "later"),
    ("Else", "Otherwise"),
];

/// Phrases that end with a word of the list and are fine: here, names of programs.
const EXEMPT: &[&str] = &["tclsh wish"];

/// This file: the only one that may hold the phrases.
const OWN_FILE: &str = "xtask/src/tidy/wording.rs";

/// Characters that may separate the words of a phrase: spaces, the start of a comment, the end of a
/// continued string, and the underscore of a name.
const SEPARATORS: &[char] = &[' ', '\t', '\n', '/', '!', '\\', '_', '>'];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| is_checked(path)) {
        let words = words(text);
        for at in 0..words.len() {
            let initial = text.as_bytes()[words[at].start].to_ascii_lowercase();
            for (phrase, replacement) in AVOID {
                // Most words differ in the first letter: this makes the check several times faster.
                if phrase.as_bytes()[0].to_ascii_lowercase() != initial
                    || !begins_with(phrase, &words[at..], text)
                    || is_exempt(&words[..=at], text)
                {
                    continue;
                }
                let found = words[at..].iter().map(|word| &text[word.start..word.end]);
                let found: Vec<&str> = found.take(phrase.split(' ').count()).collect();
                let message = format!("avoid {:?} (write: {replacement})", found.join(" "));
                findings.push(Finding::new(path, words[at].line, message));
            }
        }
    }
    findings
}

/// Returns true for docs and Rust sources, except recordings and the list itself.
fn is_checked(path: &str) -> bool {
    (path.ends_with(".rs") || path.ends_with(".md"))
        && !path.starts_with("fixtures/")
        && !path.contains("/fixtures/")
        && path != OWN_FILE
}

/// A word of a text, as a byte range.
struct Word {
    start: usize,
    end: usize,
    line: usize,
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut inside) = (1, false);
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if !c.is_alphanumeric() {
            inside = false;
            line += usize::from(c == '\n');
        } else if let (true, Some(word)) = (inside, words.last_mut()) {
            word.end = end;
        } else {
            inside = true;
            words.push(Word {
                start: at,
                end,
                line,
            });
        }
    }
    words
}

/// Returns true if the words of a text begin with the phrase.
fn begins_with(phrase: &str, words: &[Word], text: &str) -> bool {
    let ends_clause = phrase.ends_with('.');
    let phrase = phrase.trim_end_matches('.');
    let is_exact = phrase.contains(char::is_uppercase);
    let mut end: Option<usize> = None;
    for (at, part) in phrase.split(' ').enumerate() {
        let Some(word) = words.get(at) else {
            return false;
        };
        if end.is_some_and(|end| {
            !text[end..word.start]
                .chars()
                .all(|c| SEPARATORS.contains(&c))
        }) {
            return false;
        }
        let found = &text[word.start..word.end];
        let fits = match part.strip_suffix('*') {
            Some(stem) => {
                let start = found.get(..stem.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(stem))
            }
            None if is_exact => found == part,
            None => found.eq_ignore_ascii_case(part),
        };
        if !fits {
            return false;
        }
        end = Some(word.end);
    }
    !ends_clause || end.is_some_and(|end| text[end..].starts_with(['.', ',', ';', ':', ')', '"']))
}

/// Returns true if the words end with a phrase of [`EXEMPT`].
fn is_exempt(words: &[Word], text: &str) -> bool {
    EXEMPT.iter().any(|phrase| {
        let first = words.len().checked_sub(phrase.split(' ').count());
        first.is_some_and(|first| begins_with(phrase, &words[first..], text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect()
    }

    #[test]
    fn avoided_phrases_are_found_with_line_and_replacement() {
        let text = "//! Fine.\n\n/// The session can be gone\n    /// on with later.\nfn f() {}\n";
        assert_eq!(
            findings("crates/a/src/lib.rs", text),
            ["crates/a/src/lib.rs:3: avoid \"gone on with\" (write: resumed, continued)"]
        );
        for text in [
            "Mended lines are skipped.",
            "struct Wish;",
            "fn what_is_no_object() {}",
            "bail!(\"Nobody is there to \\\n answer\")",
            "It is gone for good.",
            "// Else it fails",
            "asks SOMEBODY",
        ] {
            for path in ["docs/a.md", "crates/a/tests/it/main.rs"] {
                assert_eq!(findings(path, text).len(), 1, "{path}: {text}");
            }
        }
    }

    #[test]
    fn similar_words_and_recordings_are_fine() {
        for text in [
            "Amend the commit, as recommended.",
            "for good reasons",
            "for good in [1] { } else { }",
            "whoever goes on: with care",
            "It is no file.",
            "osascript tclsh wish guile",
        ] {
            assert_eq!(findings("docs/a.md", text), [""; 0], "{text}");
        }
        for path in ["fixtures/a.md", "crates/a/tests/fixtures/a.rs", "a.json"] {
            assert_eq!(findings(path, "somebody"), [""; 0], "{path}");
        }
    }
}
