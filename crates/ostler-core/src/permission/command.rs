//! Which commands a shell line could run, and whether it is one plain command and nothing else.
//!
//! Two questions, and neither can be answered exactly without being the shell. So each errs on its own safe side: a rule that
//! allows sees a command only where there is exactly one, spelt with harmless characters; a rule that denies or asks sees every
//! command that a line *could* run, also behind `sudo`, in `sh -c '…'`, and wherever a variable may stand for anything.

mod data;
mod options;
mod programs;
mod reader;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::data::{Takes, takes};
pub use self::options::is_same_option;
use self::options::{Options, separate};
use self::programs::{COMMAND_VARIABLES, CONTAINERS, KEYWORDS, SCRIPTED, SHELLS, WRAPPERS};
use self::reader::{Reader, without_comments};
use super::pattern::is_like;

/// The longest command that is looked at, in bytes, and in words of all that it could run. Rules that allow do not match a
/// longer one, rules that deny or ask do: nobody waits for thousands of rules to be tried with a megabyte.
const LONGEST: usize = 50_000;
const MOST_WORDS: usize = 10_000;

/// How deep lines are looked for in lines. Whatever is deeper could be anything.
const DEEPEST: usize = 4;

/// How many commands are taken out of other commands' arguments, and at how many places of one command.
const MOST_DERIVED: usize = 1_000;

/// A word of a command, as a shell would hand it over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// The name if it is a program, without the way to it.
    name: String,
    /// It holds something that the shell replaces: it could become any word, none, or several.
    is_open: bool,
}

impl Word {
    fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            name: base(text),
            is_open: false,
        }
    }

    fn is_one_of(&self, programs: &str) -> bool {
        programs.split(' ').any(|program| program == self.name)
    }
}

/// Words that could be run as one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    words: Vec<Word>,
    /// Targets of redirections: not arguments, but a shell may read them.
    aside: Vec<Word>,
    /// Shells do not agree on where the command begins.
    anywhere: bool,
    /// The next command may read what it says.
    is_piped: bool,
    /// It may read what the next commands say: `sh <(echo x)`.
    is_opened: bool,
    /// It has something to read: from a pipe, a file or the line itself.
    is_fed: bool,
    /// No program starts at or after this word: the rest are arguments of the program before it.
    last: Option<usize>,
    /// Where the program may stand, once everything is known.
    starts: Range<usize>,
}

/// The words of a line that is one plain command, whatever shell reads it; none for every other line.
pub(super) fn plain(line: &str) -> Option<Vec<String>> {
    if line.len() > LONGEST {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, c) if is_harmless(c) => word.get_or_insert_default().push(c),
            (Some(_), c) if is_harmless(c) || " ?*#[]{}^!'\"".contains(c) => {
                word.get_or_insert_default().push(c)
            }
            _ => return None,
        }
    }
    words.extend(word);
    // `NAME=value program` is a program in a changed environment, and that can be another program.
    let is_command = words
        .first()
        .is_some_and(|first| !first.is_empty() && !first.contains('='));
    (quote.is_none() && is_command && !is_long(&words)).then_some(words)
}

fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || "_-./:=,+@%~".contains(c)
}

/// Whether words begin with those of a rule that allows: each as it is written.
pub(super) fn begins(words: &[String], prefix: &[String]) -> bool {
    // A star within a word stays within a part of a path, and is a name there: `bin/*/x` is not `bin/../x`.
    let is_part = |(pattern, part): (&str, &str)| match part {
        "" | "." | ".." => pattern == part,
        part => is_like(pattern, part),
    };
    let fits = |(pattern, word): (&String, &String)| {
        let is_as_deep = pattern.matches('/').count() == word.matches('/').count();
        pattern == "*"
            || pattern == word
            || (is_as_deep && pattern.split('/').zip(word.split('/')).all(is_part))
    };
    let begins = words.len() >= prefix.len() && prefix.iter().zip(words).all(fits);
    // A command that a program runs on request is not what the rule allows, unless the rule names it too.
    begins
        && (prefix.first().is_some_and(|first| first == "*") || !is_told(words) || is_told(prefix))
}

/// Everything that a line could run.
pub(super) fn segments(line: &str) -> Vec<Segment> {
    if line.len() > LONGEST {
        return anything();
    }
    let mut found = Vec::new();
    collect(line, 0, &mut found);
    finished(found)
}

/// A command of which nothing is known: it could be any.
fn anything() -> Vec<Segment> {
    let word = Word {
        is_open: true,
        ..Word::default()
    };
    vec![Segment {
        words: vec![word],
        starts: 0..1,
        ..Segment::default()
    }]
}

/// Finishes the segments, unless there are too many of them.
fn finished(mut found: Vec<Segment>) -> Vec<Segment> {
    if found
        .iter()
        .map(|segment| segment.words.len())
        .sum::<usize>()
        > MOST_WORDS
    {
        return anything();
    }
    found
        .iter_mut()
        .for_each(|segment| segment.starts = segment.find_starts());
    found
}

/// Whether words are too many, or too long, to be looked at.
pub(super) fn is_long(words: &[String]) -> bool {
    words.len() > MOST_WORDS || words.iter().map(String::len).sum::<usize>() > LONGEST
}

/// Everything that a program with arguments could run: itself, and what it is told to run.
pub(super) fn segments_of(words: &[String]) -> Vec<Segment> {
    if is_long(words) {
        return anything();
    }
    let mut found = Vec::new();
    let words = words.iter().map(|word| Word::literal(word)).collect();
    with_inner(
        vec![Segment {
            words,
            ..Segment::default()
        }],
        0,
        &mut found,
    );
    finished(found)
}

fn collect(line: &str, depth: usize, found: &mut Vec<Segment>) {
    if depth >= DEEPEST {
        return found.extend(anything());
    }
    let heeding = Reader::read(line, true);
    // Where quotes may not be what they seem, the line is read once more as if there were none: nothing can hide in them.
    if heeding.is_odd {
        with_inner(Reader::read(line, false).segments, depth, found);
        if line.contains(|c: char| c.is_whitespace() && !" \t\n".contains(c)) {
            with_inner(Reader::read_with(line, false, true).segments, depth, found);
        }
    }
    with_inner(heeding.segments, depth, found);
    // A comment ends with its line, whatever the line ends with: what comes after it is no part of it.
    for heeds_quotes in [true, false] {
        if let Some(line) = without_comments(line, heeds_quotes) {
            with_inner(Reader::read(&line, heeds_quotes).segments, depth, found);
        }
    }
}

/// Adds the segments, what they run with data as arguments, and the lines within them if something there reads lines.
fn with_inner(mut segments: Vec<Segment>, depth: usize, found: &mut Vec<Segment>) {
    // Whatever comes after a pipe may read from it: it may stand in a group.
    let piped = segments
        .iter()
        .position(|segment| segment.is_piped)
        .map_or(segments.len(), |at| at + 1);
    segments
        .iter_mut()
        .skip(piped)
        .for_each(|segment| segment.is_fed = true);
    unfold(&mut segments);
    if found
        .iter()
        .chain(&segments)
        .map(|segment| segment.words.len())
        .sum::<usize>()
        > MOST_WORDS
    {
        return found.extend(anything());
    }
    for segment in &segments {
        let values = segment
            .words
            .iter()
            .filter_map(|word| command_of_variable(&word.text));
        values.for_each(|line| collect(line, depth + 1, found));
    }
    if segments.iter().any(|segment| segment.holds(SHELLS)) {
        let is_line = |text: &str| {
            text.contains(|c: char| c.is_whitespace() || ";|&$()<>`'\"\\{".contains(c))
        };
        for segment in &segments {
            for word in segment
                .words
                .iter()
                .chain(&segment.aside)
                .filter(|word| is_line(&word.text))
            {
                collect(&word.text, depth + 1, found);
            }
            // Some of them put their arguments together first.
            if segment.holds(SHELLS)
                && segment.words.len() > 2
                && segment.words.iter().any(|word| is_line(&word.text))
            {
                let texts: Vec<&str> = segment
                    .words
                    .iter()
                    .skip(1)
                    .map(|word| word.text.as_str())
                    .collect();
                collect(&texts.join(" "), depth + 1, found);
            }
        }
        // `echo rm x | sh`: it reads words that stand alone, too. Of a group it reads what all of it says.
        let is_fed = |at: usize| at > 0 && segments[at - 1].is_piped && segments[at].holds(SHELLS);
        let before = (0..segments.len())
            .rev()
            .find(|&at| is_fed(at))
            .unwrap_or(0);
        let opened = |segment: &Segment| segment.is_opened && segment.holds(SHELLS);
        let after = segments.iter().position(opened).unwrap_or(segments.len());
        for (at, segment) in segments.iter_mut().enumerate() {
            segment.anywhere |= at < before || at > after;
        }
    }
    found.extend(segments);
}

/// Adds the commands that programs among the segments run with data as arguments; and any command, where one comes from data.
fn unfold(segments: &mut Vec<Segment>) {
    let mut at = 0;
    while at < segments.len() {
        if segments.len() > MOST_DERIVED {
            return segments.extend(anything());
        }
        let segment = &segments[at];
        let is_fed = segment.is_fed || segment.is_opened;
        let mut derived = Vec::new();
        let mut last = None;
        for start in segment.find_starts().take(MOST_DERIVED) {
            match takes(&segment.words[start..], is_fed) {
                Takes::Nothing => continue,
                Takes::Anything => derived.extend(anything()),
                Takes::Commands(commands) => {
                    let of = |words| Segment {
                        words,
                        is_fed: segment.is_fed,
                        ..Segment::default()
                    };
                    derived.extend(commands.into_iter().map(of));
                    last.get_or_insert(start + 1);
                    break;
                }
            }
        }
        if segment.find_starts().len() > MOST_DERIVED && !segment.anywhere {
            let late = segment
                .find_starts()
                .skip(MOST_DERIVED)
                .any(|start| takes(&segment.words[start..start + 1], true) != Takes::Nothing);
            derived.extend(anything().into_iter().filter(|_| late));
        }
        segments[at].last = last;
        segments.extend(derived);
        at += 1;
    }
}

/// Returns true if a program's arguments make it run another command.
fn is_told(words: &[String]) -> bool {
    let segment = Segment {
        words: words.iter().map(|word| Word::literal(word)).collect(),
        ..Segment::default()
    };
    let Some(first) = segment.words.first() else {
        return false;
    };
    let has_text = first.is_one_of(SCRIPTED)
        && words
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'));
    has_text || takes(&segment.words, false) != Takes::Nothing
}

/// The command that an assignment gives to programs, if its name says that they run it.
fn command_of_variable(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    COMMAND_VARIABLES
        .split(' ')
        .any(|known| known == name)
        .then_some(value)
}

impl Segment {
    /// Whether it could be a command that begins with the words of a rule.
    ///
    /// The words are gone through once, from the last to the first, however many of them may be the program: a long line of
    /// programs must not take the square of its length.
    pub(super) fn could_begin(&self, prefix: &Prefix) -> bool {
        let is_program = |word: &Word| word.is_open || is_like(&prefix.program, &word.name);
        if !self.words[self.starts.clone()].iter().any(is_program) {
            return false;
        }
        let mut after = vec![Fits::default(); prefix.ordered.len()];
        let mut options = vec![false; prefix.options.len()];
        for (at, word) in self.words.iter().enumerate().skip(self.starts.start).rev() {
            let rest =
                after.first().is_none_or(|rest| rest.fresh) && options.iter().all(|seen| *seen);
            if (word.is_open || rest) && self.starts.contains(&at) && is_program(word) {
                return true;
            }
            for nth in 0..after.len() {
                let rest = after.get(nth + 1).is_none_or(|rest| rest.fresh);
                after[nth] = after[nth].before(word, &prefix.ordered[nth], rest);
            }
            for (nth, seen) in options.iter_mut().enumerate() {
                *seen |= prefix.options.could_be(nth, word);
            }
        }
        false
    }

    /// Whether one of the programs that it may start is on a list.
    fn holds(&self, names: &str) -> bool {
        self.words[self.find_starts()]
            .iter()
            .any(|word| word.is_one_of(names))
    }

    /// Where the program may stand.
    fn find_starts(&self) -> Range<usize> {
        let is_before = |word: &Word| is_assignment(&word.text) || word.is_one_of(KEYWORDS);
        let first = self
            .words
            .iter()
            .position(|word| !is_before(word))
            .unwrap_or(self.words.len());
        let among = |names: &str| {
            self.words
                .iter()
                .any(|word| names.split(' ').any(|name| name == word.text))
        };
        let contains = |word: &Word| {
            CONTAINERS
                .iter()
                .any(|(names, runs)| word.is_one_of(names) && among(runs))
        };
        let runs =
            |word: &Word| word.is_one_of(WRAPPERS) || word.is_one_of(SHELLS) || contains(word);
        let many = self.anywhere || self.words.get(first).is_some_and(runs);
        let end = if many {
            self.words.len()
        } else {
            self.words.len().min(first + 1)
        };
        let last = self.last.unwrap_or(end);
        first..if self.anywhere {
            end
        } else {
            end.min(last.max(first))
        }
    }
}

/// The name of a program without the way to it, in small letters: some file systems do not tell them apart.
fn base(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_lowercase()
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_[]".contains(c))
}

/// The words of a rule that denies or asks.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    program: String,
    /// What follows it in this order, apart from options.
    ordered: Vec<String>,
    options: Options,
}

impl Prefix {
    pub(super) fn of(words: &[String]) -> Self {
        let (program, more) = words
            .split_first()
            .map_or((String::new(), &[][..]), |(first, more)| {
                (base(first), more)
            });
        let (ordered, options) = separate(&program, more);
        Self {
            program,
            ordered,
            options,
        }
    }
}

/// Whether what is left of a command could go on with what is left of a rule's words.
#[derive(Debug, Clone, Copy, Default)]
struct Fits {
    /// After a word that takes no value.
    fresh: bool,
    /// After an option: the next word may be its value.
    after_option: bool,
}

impl Fits {
    /// The same with one more word in front. `rest`: whether what comes after the wanted word fits what comes after this one.
    fn before(self, word: &Word, wanted: &str, rest: bool) -> Self {
        if word.is_open {
            return Self {
                fresh: true,
                after_option: true,
            };
        }
        if is_like(wanted, &word.text) {
            return Self {
                fresh: rest,
                after_option: rest,
            };
        }
        // Options do not hide what comes after them, and each may have a value.
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
