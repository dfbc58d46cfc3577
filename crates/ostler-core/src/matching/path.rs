//! Paths as names, and sets of globs for them.
//!
//! Some file systems know one file by several names: they ignore case, trailing dots, streams or
//! invisible characters. What a rule refuses, it refuses by each of these names.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum length of a glob, in bytes. No file system accepts a longer path.
const MAX_BYTES: usize = 8_192;

/// Maximum nesting of alternatives that is given to the compiler, which refuses less than that.
const MAX_NESTING: usize = 150;

/// Maximum length of the reason why a glob is invalid, in bytes.
const MAX_REASON: usize = 200;

/// A path and the directories above it, in the forms that globs are compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathNames {
    written: Prefixes,
    folded: Prefixes,
    lenient: Prefixes,
}

/// The name of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathName<'a> {
    /// As given, relative, with a slash between its components.
    pub written: &'a str,
    /// Folded to one case, character by character.
    pub folded: &'a str,
    /// As the most lenient file system compares it.
    pub lenient: &'a str,
}

impl PathNames {
    /// Creates the names of a path from its components.
    #[must_use]
    pub fn new<'a>(components: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        for component in components {
            names.written.push(component);
            names.folded.push(&fold(component));
            names.lenient.push(&lenient_name(component));
        }
        names
    }

    /// Returns true if the path has no components.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.ends.is_empty()
    }

    /// Returns the name of the path itself.
    #[must_use]
    pub fn whole(&self) -> PathName<'_> {
        PathName {
            written: &self.written.text,
            folded: &self.folded.text,
            lenient: &self.lenient.text,
        }
    }

    /// Returns the names of the directories above the path, outermost first, and of the path.
    pub fn prefixes(&self) -> impl Iterator<Item = PathName<'_>> {
        let written = self.written.prefixes();
        let others = self.folded.prefixes().zip(self.lenient.prefixes());
        written
            .zip(others)
            .map(|(written, (folded, lenient))| PathName {
                written,
                folded,
                lenient,
            })
    }
}

/// A path and the end of each of its components: all its ancestors, without a copy of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Prefixes {
    text: String,
    ends: Vec<usize>,
}

impl Prefixes {
    fn push(&mut self, component: &str) {
        if !self.ends.is_empty() {
            self.text.push('/');
        }
        self.text.push_str(component);
        self.ends.push(self.text.len());
    }

    fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.ends.iter().filter_map(|end| self.text.get(..*end))
    }
}

/// Returns a name as the most lenient file system compares it: folded to one case, where one letter
/// may become two, and without trailing dots and spaces, streams, and invisible characters.
#[must_use]
pub fn lenient_name(name: &str) -> String {
    let folded = match name.is_ascii() {
        true => name.to_ascii_lowercase(),
        false => fold_fully(name),
    };
    let visible: String = folded.chars().filter(|c| !is_ignored(*c)).collect();
    visible
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' '])
        .to_owned()
}

/// Folds to one case, character by character, so that letters with two lower forms (ſ, K) become
/// one.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = |c: char| only(c.to_lowercase()).unwrap_or(c);
    let upper = |c: char| only(c.to_uppercase()).unwrap_or(c);
    text.chars().map(|c| lower(upper(lower(c)))).collect()
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

/// Folds to one case, where one character may become several: ß becomes ss.
fn fold_fully(text: &str) -> String {
    text.chars()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns true for characters that HFS+ ignores when it compares names.
fn is_ignored(c: char) -> bool {
    matches!(
        c,
        '\u{200c}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{206a}'..='\u{206f}'
            | '\u{feff}'
    )
}

/// Names of a file that a set of globs is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// The name as written.
    Exact,
    /// The name in any case.
    AnyCase,
    /// Every name that some file system takes for the same file.
    AnyName,
}

/// A glob and the rule it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobPattern<'a> {
    /// The rule's own text, which [`Globs::first_match`] returns.
    pub source: &'a str,
    /// The glob, relative to the same directory as the paths.
    pub glob: String,
}

/// An error in a glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A glob cannot be parsed.
    #[error("{reason}")]
    Invalid {
        /// The text of its rule.
        source_text: String,
        /// What is wrong.
        reason: String,
    },
    /// The globs cannot be compiled.
    #[error("{0}")]
    TooLarge(String),
}

/// A compiled set of globs, in which a star does not match a slash.
#[derive(Debug, Clone)]
pub struct Globs {
    set: GlobSet,
    sources: Vec<String>,
    breadth: Breadth,
}

impl Globs {
    /// Compiles globs.
    ///
    /// # Errors
    /// A glob is invalid, or they are too large to compile.
    pub fn new<'a>(
        breadth: Breadth,
        patterns: impl IntoIterator<Item = GlobPattern<'a>>,
    ) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        let mut sources = Vec::new();
        for pattern in patterns {
            for glob in compile(&pattern, breadth)? {
                set.add(glob);
                sources.push(pattern.source.to_owned());
            }
        }
        // A set returns an error where a single glob would panic.
        let set = set
            .build()
            .map_err(|error| GlobError::TooLarge(clip(error.to_string())))?;
        Ok(Self {
            set,
            sources,
            breadth,
        })
    }

    /// Returns the source of the first glob that matches a path.
    #[must_use]
    pub fn first_match(&self, path: PathName<'_>) -> Option<&str> {
        let first = |text: &str| self.set.matches(text).into_iter().next();
        let at = self.names(path).find_map(first)?;
        self.sources.get(at).map(String::as_str)
    }

    /// Returns true if a path matches.
    #[must_use]
    pub fn is_match(&self, path: PathName<'_>) -> bool {
        self.names(path).any(|name| self.set.is_match(name))
    }

    /// Returns the names of a path that count.
    fn names<'a>(&self, path: PathName<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
        // `?` and `[…]` match one byte, so a folded name may be too short for them.
        let may_differ = !path.written.is_ascii();
        let names = match self.breadth {
            Breadth::Exact => [Some(path.written), None, None],
            Breadth::AnyCase => [Some(path.folded), None, None],
            Breadth::AnyName => [
                Some(path.folded),
                Some(path.lenient).filter(|name| *name != path.folded),
                Some(path.written).filter(|_| may_differ),
            ],
        };
        names.into_iter().flatten()
    }
}

/// Compiles the forms of a glob that match the names of `breadth`.
fn compile(pattern: &GlobPattern<'_>, breadth: Breadth) -> Result<Vec<Glob>, GlobError> {
    let text = &pattern.glob;
    let invalid = |reason: String| GlobError::Invalid {
        source_text: pattern.source.to_owned(),
        reason: clip(reason),
    };
    if text.len() > MAX_BYTES {
        return Err(invalid(format!("it has more than {MAX_BYTES} bytes")));
    }
    if nesting(text) > MAX_NESTING {
        return Err(invalid("alternatives are nested too deep".to_owned()));
    }
    let build = |text: &str, ignores_case: bool| {
        GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(ignores_case)
            .build()
    };
    // Folding would change the meaning of a range such as `[A-z]`.
    let is_ranged = text.contains(['[', '?']);
    let first = match breadth {
        Breadth::Exact => build(text, false),
        Breadth::AnyCase | Breadth::AnyName if is_ranged => build(text, true),
        Breadth::AnyCase | Breadth::AnyName => build(&fold(text), false),
    };
    let mut globs = vec![first.map_err(|error| invalid(error.kind().to_string()))?];
    if breadth == Breadth::AnyName && !text.is_ascii() {
        // A range that becomes invalid is covered by the first form.
        globs.extend(build(&fold(text), true));
        globs.extend(build(&fold_fully(text), true));
    }
    Ok(globs)
}

/// Returns how deep braces are nested.
fn nesting(glob: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in glob.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn clip(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn names(path: &str) -> PathNames {
        PathNames::new(path.split('/'))
    }

    fn globs(breadth: Breadth, glob: &str) -> Result<Globs, GlobError> {
        let glob = glob.to_owned();
        let source = "source";
        Globs::new(breadth, [GlobPattern { source, glob }])
    }

    fn matches(breadth: Breadth, glob: &str, path: &str) -> bool {
        globs(breadth, glob).unwrap().is_match(names(path).whole())
    }

    #[test]
    fn letters_of_one_kind_fold_to_one() {
        let mut full: HashMap<String, String> = HashMap::new();
        // Letters with a case are in the first two planes.
        for c in '\0'..='\u{1ffff}' {
            let folded = fold(c.encode_utf8(&mut [0; 4]));
            assert_eq!(folded.chars().count(), 1, "{c:?}");
            assert_eq!(fold(&folded), folded, "{c:?} is folded at once");
            for other in [only(c.to_lowercase()), only(c.to_uppercase())] {
                let other = other.unwrap_or(c);
                assert_eq!(
                    fold(other.encode_utf8(&mut [0; 4])),
                    folded,
                    "{c:?} {other:?}"
                );
            }
            let fully = fold_fully(c.encode_utf8(&mut [0; 4]));
            let known = full.entry(folded).or_insert_with(|| fully.clone());
            assert_eq!(
                *known, fully,
                "{c:?}: what is equal in one form is in the other"
            );
        }
    }

    #[test]
    fn nesting_is_that_of_the_deepest_braces() {
        for (glob, depth) in [
            ("", 0),
            ("a", 0),
            ("{a}{b}", 1),
            ("{a,{b}}{c}", 2),
            ("}}{{", 2),
            ("{{{", 3),
        ] {
            assert_eq!(nesting(glob), depth, "{glob}");
        }
    }

    #[test]
    fn a_name_is_compared_in_three_forms() {
        let names = PathNames::new(["A.", "ẞ:x", "b\u{200d}"]);
        let whole = names.whole();
        assert_eq!(whole.written, "A./ẞ:x/b\u{200d}");
        assert_eq!(whole.folded, "a./ß:x/b\u{200d}");
        assert_eq!(whole.lenient, "a/ss/b");
        let prefixes: Vec<_> = names.prefixes().map(|name| name.lenient).collect();
        assert_eq!(prefixes, ["a", "a/ss", "a/ss/b"]);
        let none = PathNames::new([]);
        assert!(none.is_empty() && none.prefixes().next().is_none());
        assert_eq!(none.whole().written, "");
        for (name, lenient) in [
            ("x", "x"),
            ("X. . ", "x"),
            ("...", ""),
            (":stream", ""),
            (".x", ".x"),
            ("a b", "a b"),
            ("\u{feff}a\u{202e}", "a"),
        ] {
            assert_eq!(lenient_name(name), lenient, "{name:?}");
        }
    }

    #[test]
    fn path_of_many_components_uses_little_memory() {
        let path = "a/".repeat(200_000);
        let names = names(path.trim_end_matches('/'));
        assert!(names.folded.text.capacity() < 1 << 20 && names.folded.ends.len() == 200_000);
    }

    #[test]
    fn breadth_decides_which_names_match() {
        for (glob, path, breadths) in [
            ("a/*.rs", "a/x.rs", [true, true, true]),
            ("a/*.rs", "a/b/x.rs", [false, false, false]),
            ("a/**", "a/b/x.rs", [true, true, true]),
            ("a/**", "a", [false, false, false]),
            ("**/x", "x", [true, true, true]),
            ("a", "A", [false, true, true]),
            ("A", "a", [false, true, true]),
            ("[A-C]", "b", [false, true, true]),
            ("[A-z]", "_", [true, true, true]),
            ("a", "a.", [false, false, true]),
            ("a", "A:b", [false, false, true]),
            ("ß", "ẞ", [false, true, true]),
            ("ß", "ss", [false, false, true]),
            ("ss", "ß", [false, false, true]),
            ("?", "A", [true, true, true]),
            ("a?", "AB", [false, true, true]),
            ("???", "\u{212a}", [true, false, true]),
            ("É[a-z]", "ÉA", [false, false, true]),
            ("É[a-z]", "éa", [false, false, true]),
            ("ẞ[A-z]", "ẞ_", [true, false, true]),
            ("", "", [true, true, true]),
        ] {
            for (breadth, expected) in [Breadth::Exact, Breadth::AnyCase, Breadth::AnyName]
                .into_iter()
                .zip(breadths)
            {
                let found = matches(breadth, glob, path);
                assert_eq!(found, expected, "{breadth:?} {glob:?} {path:?}");
            }
        }
    }

    #[test]
    fn first_match_names_the_rule() {
        let pattern = |source, glob: &str| GlobPattern {
            source,
            glob: glob.to_owned(),
        };
        let list = [
            pattern("one", "a"),
            pattern("two", "b"),
            pattern("three", "?"),
        ];
        let set = Globs::new(Breadth::AnyName, list.clone()).unwrap();
        let first = |set: &Globs, path: &str| {
            let found = set.first_match(names(path).whole()).map(str::to_owned);
            assert_eq!(found.is_some(), set.is_match(names(path).whole()), "{path}");
            found
        };
        assert_eq!(first(&set, "a").as_deref(), Some("one"));
        assert_eq!(first(&set, "B..").as_deref(), Some("two"));
        assert_eq!(first(&set, "c").as_deref(), Some("three"));
        assert_eq!(first(&set, "cc"), None);
        let exact = Globs::new(Breadth::Exact, list.clone()).unwrap();
        assert_eq!(first(&exact, "A").as_deref(), Some("three"));
        let any_case = Globs::new(Breadth::AnyCase, list).unwrap();
        assert_eq!(first(&any_case, "A").as_deref(), Some("one"));
        assert_eq!(first(&any_case, "a."), None);
    }

    #[test]
    fn a_glob_that_cannot_be_compiled_is_an_error() {
        for glob in ["a{b", "[a", "[z-a]"] {
            for breadth in [Breadth::Exact, Breadth::AnyCase, Breadth::AnyName] {
                let error = globs(breadth, glob).unwrap_err();
                let GlobError::Invalid { source_text, .. } = &error else {
                    panic!("{glob}: {error:?}");
                };
                assert_eq!(source_text, "source", "{glob}");
            }
        }
        for glob in ["{".repeat(MAX_NESTING + 1), "a".repeat(MAX_BYTES + 1)] {
            let error = globs(Breadth::Exact, &glob).unwrap_err();
            assert!(matches!(error, GlobError::Invalid { .. }), "{error:?}");
        }
        assert!(globs(Breadth::AnyName, &"a".repeat(MAX_BYTES)).is_ok());
        let nested = |depth| format!("{}{}", "{a,".repeat(depth), "}".repeat(depth));
        assert!(globs(Breadth::AnyName, &nested(100)).is_ok());
        let error = globs(Breadth::AnyName, &nested(MAX_NESTING)).unwrap_err();
        assert!(matches!(error, GlobError::TooLarge(_)), "{error:?}");
        assert!(error.to_string().len() <= MAX_REASON, "{error}");
    }

    proptest! {
        #[test]
        fn any_name_includes_every_narrower_breadth(
            glob in r"[aAß.?*/]{1,5}|\[[aBß]-[zß]\]|\{a,[Bß]\}c?",
            path in r"[aAbßẞsK.: ]{1,4}(/[aA.:]{1,3})?",
        ) {
            let Ok(exact) = globs(Breadth::Exact, &glob) else { return Ok(()) };
            let any_case = globs(Breadth::AnyCase, &glob).unwrap();
            let any_name = globs(Breadth::AnyName, &glob).unwrap();
            let names = names(&path);
            let [exact, any_case, any_name] =
                [&exact, &any_case, &any_name].map(|set| set.is_match(names.whole()));
            prop_assert!(any_name || !(exact || any_case), "{exact} {any_case}");
        }
    }
}
