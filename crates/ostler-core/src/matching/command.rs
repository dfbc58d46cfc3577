//! Commands as words, and the first words of a command as a pattern.

use std::ops::Range;

use super::wildcard::matches_wildcard;
use super::words::{Spelling, WordSet};

/// A word of a command, as a shell would pass it on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Base name, in case it is a program.
    pub(crate) name: String,
    /// Contains an expansion: it could become any word, none, or several.
    pub(crate) is_open: bool,
}

impl Word {
    pub(crate) fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            name: base_name(text),
            is_open: false,
        }
    }

    pub(crate) fn is_one_of(&self, programs: &str) -> bool {
        programs.split(' ').any(|program| program == self.name)
    }
}

/// Returns the base name of a program in lowercase, because some file systems ignore case.
pub(crate) fn base_name(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_lowercase()
}

/// Returns true if a command certainly begins with the words of a pattern, each as written.
pub(crate) fn begins_with(words: &[String], pattern: &[String]) -> bool {
    // A star matches within one path component, and only a name: `bin/*/x` does not match
    // `bin/../x`.
    let is_part = |(pattern, part): (&str, &str)| match part {
        "" | "." | ".." => pattern == part,
        part => matches_wildcard(pattern, part),
    };
    let matches = |(pattern, word): (&String, &String)| {
        let is_as_deep = pattern.matches('/').count() == word.matches('/').count();
        pattern == "*"
            || pattern == word
            || (is_as_deep && pattern.split('/').zip(word.split('/')).all(is_part))
    };
    words.len() >= pattern.len() && pattern.iter().zip(words).all(matches)
}

/// The first words of a command, in any spelling: its program, positional words in their order, and
/// options as a set.
#[derive(Debug, Clone)]
pub(crate) struct CommandPattern {
    program: String,
    ordered: Vec<String>,
    options: WordSet,
}

impl CommandPattern {
    pub(crate) fn new(words: &[String]) -> Self {
        let (program, more) = words
            .split_first()
            .map_or((String::new(), &[][..]), |(first, more)| {
                (base_name(first), more)
            });
        let is_option = |word: &String| word.starts_with('-') && word != "-" && word != "--";
        let options = more.iter().position(is_option).unwrap_or(more.len());
        let (ordered, options) = more.split_at(options);
        let options = options.iter().map(String::as_str);
        Self {
            options: WordSet::new(&program, Spelling::Possible, options),
            program,
            ordered: ordered.to_vec(),
        }
    }

    /// Returns true if words could be a command that matches, with its program at one of `starts`.
    ///
    /// The words are scanned once, from last to first, however many of them may be the program. A
    /// long line of programs must not take quadratic time.
    pub(crate) fn could_begin(&self, words: &[Word], starts: &Range<usize>) -> bool {
        let is_program = |word: &Word| word.is_open || matches_wildcard(&self.program, &word.name);
        if !words[starts.clone()].iter().any(is_program) {
            return false;
        }
        let mut after = vec![OrderedMatch::default(); self.ordered.len()];
        let mut options = vec![false; self.options.len()];
        for (at, word) in words.iter().enumerate().skip(starts.start).rev() {
            let rest =
                after.first().is_none_or(|rest| rest.fresh) && options.iter().all(|seen| *seen);
            if (word.is_open || rest) && starts.contains(&at) && is_program(word) {
                return true;
            }
            for nth in 0..after.len() {
                let rest = after.get(nth + 1).is_none_or(|rest| rest.fresh);
                after[nth] = after[nth].before(word, &self.ordered[nth], rest);
            }
            for (nth, seen) in options.iter_mut().enumerate() {
                *seen |= word.is_open || self.options.matches(nth, &word.text);
            }
        }
        false
    }
}

/// Whether the rest of a command could continue with the rest of a pattern's positional words.
#[derive(Debug, Clone, Copy, Default)]
struct OrderedMatch {
    /// After a word that takes no value.
    fresh: bool,
    /// After an option: the next word may be its value.
    after_option: bool,
}

impl OrderedMatch {
    /// Extends the match by one word to the left. `rest` says whether the words after the wanted
    /// one match the words after this one.
    fn before(self, word: &Word, wanted: &str, rest: bool) -> Self {
        if word.is_open {
            return Self {
                fresh: true,
                after_option: true,
            };
        }
        if matches_wildcard(wanted, &word.text) {
            return Self {
                fresh: rest,
                after_option: rest,
            };
        }
        // Options do not hide what follows them, and each may have a value.
        let is_option = word.text.starts_with('-');
        let skipped = if is_option {
            self.after_option
        } else {
            self.fresh
        };
        Self {
            fresh: skipped && is_option,
            after_option: skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_program_is_known_by_its_base_name_in_any_case() {
        for (program, expected) in [
            ("sh", true),
            ("/bin/sh", true),
            ("./SH", true),
            ("ash", false),
            ("sh/", false),
            ("sh bash", false),
        ] {
            assert_eq!(
                Word::literal(program).is_one_of("bash sh"),
                expected,
                "{program}"
            );
        }
    }

    #[test]
    fn a_command_begins_with_words_as_written() {
        for (pattern, line, expected) in [
            ("git status", "git status -s", true),
            ("git status", "git", false),
            ("git status", "git -s status", false),
            ("git *", "git anything/at/all", true),
            ("git sta*", "git status", true),
            ("./bin/*", "./bin/x", true),
            ("./bin/*", "./bin/x/y", false),
            ("./bin/*", "./bin/..", false),
            ("./*/x", ".//x", false),
            ("a/../b", "a/../b", true),
            ("", "anything", true),
        ] {
            let found = begins_with(&owned(line), &owned(pattern));
            assert_eq!(found, expected, "{pattern:?} {line:?}");
        }
    }

    /// Words that contain `$` could be anything.
    fn could_begin(pattern: &str, line: &str, starts: Range<usize>) -> bool {
        let word = |text: &String| Word {
            is_open: text.contains('$'),
            ..Word::literal(text)
        };
        let words: Vec<Word> = owned(line).iter().map(word).collect();
        CommandPattern::new(&owned(pattern)).could_begin(&words, &starts)
    }

    #[test]
    fn a_pattern_is_found_in_any_spelling() {
        for (pattern, line, expected) in [
            ("git push", "git push", true),
            ("git push", "/usr/bin/GIT push", true),
            ("git push", "git -C x push", true),
            ("git push", "git -C push", true),
            ("git push", "git --a --b push x", true),
            ("git push", "git log push", false),
            ("git push", "git log -x y push", false),
            ("git push", "git", false),
            ("git push", "push git", false),
            ("git push", "$x", true),
            ("git push", "git $x", true),
            ("git push", "git log $x", false),
            ("git push --force", "git push origin $x", true),
            ("git push --force", "git push origin", false),
            ("git push --force", "git --force push", true),
            ("git push origin -f", "git push -v origin -f", true),
            ("git push origin -f", "git push -f other", false),
            ("git push -o origin", "git push -o origin", true),
            ("git push -o origin", "git push -o=origin", true),
            ("git push -o origin", "git push -o", false),
            ("g* p*", "git pull", true),
            ("*", "anything", true),
            ("", "", false),
        ] {
            let words = owned(line).len().min(1);
            let found = could_begin(pattern, line, 0..words);
            assert_eq!(found, expected, "{pattern:?} {line:?}");
        }
    }

    #[test]
    fn the_program_is_at_one_of_the_starts() {
        for (line, starts, expected) in [
            ("sudo rm -f x", 0..4, true),
            ("sudo rm -f x", 0..1, false),
            ("sudo rm -f x", 1..2, true),
            ("rm -f x", 1..3, false),
            ("x -f rm", 0..3, false),
            ("rm x rm -f", 2..3, true),
            ("rm -f x rm", 3..4, false),
        ] {
            let found = could_begin("rm -f", line, starts.clone());
            assert_eq!(found, expected, "{line:?} {starts:?}");
        }
    }
}
