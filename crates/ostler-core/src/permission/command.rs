//! Shell command analysis: which commands a line could run, and whether it is one plain command and
//! nothing else.
//!
//! Neither question has an exact answer without running the shell, so each errs on the safe side.
//! An allowing rule matches only a single command spelled with harmless characters. A denying or
//! asking rule matches every command that a line *could* run, including behind `sudo`, in `sh -c
//! '…'`, and wherever a variable may expand to anything.

mod data;
mod programs;
mod reader;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::data::{Takes, takes};
use self::programs::{COMMAND_VARIABLES, CONTAINERS, KEYWORDS, SCRIPTED, SHELLS, WRAPPERS};
use self::reader::{Reader, without_comments};
use crate::matching::{CommandPattern, Word, begins_with};

/// Maximum size of a command that is analyzed, in bytes. Beyond it, allowing rules do not match,
/// and denying or asking rules do: comparing a megabyte with thousands of rules would take too
/// long.
const MAX_BYTES: usize = 50_000;

/// Maximum number of words of everything that a command could run.
const MAX_WORDS: usize = 10_000;

/// Maximum nesting of lines within lines. Anything deeper could be any command.
const MAX_DEPTH: usize = 4;

/// Maximum number of commands derived from other commands' arguments, and of positions in one
/// command.
const MAX_DERIVED: usize = 1_000;

/// Words that could be run as one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    words: Vec<Word>,
    /// Targets of redirections: not arguments, but a shell may read them.
    redirects: Vec<Word>,
    /// Shells disagree on where the command begins.
    anywhere: bool,
    /// The next command may read its output.
    is_piped: bool,
    /// It may read the output of the next commands: `sh <(echo x)`.
    is_opened: bool,
    /// It has input: from a pipe, a file or the line itself.
    is_fed: bool,
    /// No program starts at or after this word: the rest are arguments of the program before it.
    last: Option<usize>,
    /// Possible positions of the program, once everything is known.
    starts: Range<usize>,
}

/// Returns the words of a line that is one plain command in every shell, or `None` for any other
/// line.
pub(super) fn plain(line: &str) -> Option<Vec<String>> {
    if line.len() > MAX_BYTES {
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
                word.get_or_insert_default().push(c);
            }
            _ => return None,
        }
    }
    words.extend(word);
    // `NAME=value program` runs in a changed environment, which can lead to another program.
    let is_command = words
        .first()
        .is_some_and(|first| !first.is_empty() && !first.contains('='));
    (quote.is_none() && is_command && !is_long(&words)).then_some(words)
}

fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || "_-./:=,+@%~".contains(c)
}

/// Returns true if words begin with those of an allowing rule, each as written. A command that a
/// program runs on request is not covered by the rule, unless the rule names it too.
pub(super) fn begins(words: &[String], prefix: &[String]) -> bool {
    begins_with(words, prefix)
        && (prefix.first().is_some_and(|first| first == "*")
            || !runs_other_command(words)
            || runs_other_command(prefix))
}

/// Returns everything that a line could run.
pub(super) fn segments(line: &str) -> Vec<Segment> {
    if line.len() > MAX_BYTES {
        return any_command();
    }
    let mut found = Vec::new();
    collect(line, 0, &mut found);
    complete(found)
}

/// Returns a command of which nothing is known: it could be any.
fn any_command() -> Vec<Segment> {
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

/// Completes the segments, unless there are too many.
fn complete(mut found: Vec<Segment>) -> Vec<Segment> {
    if found
        .iter()
        .map(|segment| segment.words.len())
        .sum::<usize>()
        > MAX_WORDS
    {
        return any_command();
    }
    found
        .iter_mut()
        .for_each(|segment| segment.starts = segment.find_starts());
    found
}

/// Returns true if there are too many words, or too long ones, to analyze.
pub(super) fn is_long(words: &[String]) -> bool {
    words.len() > MAX_WORDS || words.iter().map(String::len).sum::<usize>() > MAX_BYTES
}

/// Returns everything that a program with arguments could run: itself, and what its arguments make
/// it run.
pub(super) fn segments_of(words: &[String]) -> Vec<Segment> {
    if is_long(words) {
        return any_command();
    }
    let mut found = Vec::new();
    let words = words.iter().map(|word| Word::literal(word)).collect();
    add_with_nested(
        vec![Segment {
            words,
            ..Segment::default()
        }],
        0,
        &mut found,
    );
    complete(found)
}

fn collect(line: &str, depth: usize, found: &mut Vec<Segment>) {
    if depth >= MAX_DEPTH {
        return found.extend(any_command());
    }
    let quoted = Reader::read(line, true);
    // Where quotes may be ambiguous, the line is read again as if there were none, so that nothing
    // can hide in them.
    if quoted.is_ambiguous {
        add_with_nested(Reader::read(line, false).segments, depth, found);
        if line.contains(|c: char| c.is_whitespace() && !" \t\n".contains(c)) {
            add_with_nested(Reader::read_with(line, false, true).segments, depth, found);
        }
    }
    add_with_nested(quoted.segments, depth, found);
    // A comment ends with its line, even after a backslash.
    for respects_quotes in [true, false] {
        if let Some(line) = without_comments(line, respects_quotes) {
            add_with_nested(Reader::read(&line, respects_quotes).segments, depth, found);
        }
    }
}

/// Adds the segments, the commands they run with data as arguments, and nested lines if a shell
/// could read them.
fn add_with_nested(mut segments: Vec<Segment>, depth: usize, found: &mut Vec<Segment>) {
    // Anything after a pipe may read from it, since it may be in a group.
    let piped = segments
        .iter()
        .position(|segment| segment.is_piped)
        .map_or(segments.len(), |at| at + 1);
    segments
        .iter_mut()
        .skip(piped)
        .for_each(|segment| segment.is_fed = true);
    add_derived(&mut segments);
    if found
        .iter()
        .chain(&segments)
        .map(|segment| segment.words.len())
        .sum::<usize>()
        > MAX_WORDS
    {
        return found.extend(any_command());
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
                .chain(&segment.redirects)
                .filter(|word| is_line(&word.text))
            {
                collect(&word.text, depth + 1, found);
            }
            // Some shells join their arguments first.
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
        // `echo rm x | sh`: a shell also reads unquoted words, and the output of a whole group.
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

/// Adds commands that programs among the segments run with data as arguments, and any command where
/// one comes from data.
fn add_derived(segments: &mut Vec<Segment>) {
    let mut at = 0;
    while at < segments.len() {
        if segments.len() > MAX_DERIVED {
            return segments.extend(any_command());
        }
        let segment = &segments[at];
        let is_fed = segment.is_fed || segment.is_opened;
        let mut derived = Vec::new();
        let mut last = None;
        for start in segment.find_starts().take(MAX_DERIVED) {
            match takes(&segment.words[start..], is_fed) {
                Takes::Nothing => continue,
                Takes::Anything => derived.extend(any_command()),
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
        if segment.find_starts().len() > MAX_DERIVED && !segment.anywhere {
            derived.extend(any_command());
        }
        segments[at].last = last;
        segments.extend(derived);
        at += 1;
    }
}

/// Returns true if a program's arguments make it run another command.
fn runs_other_command(words: &[String]) -> bool {
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

/// Returns the value of an assignment if programs run that variable as a command.
fn command_of_variable(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    COMMAND_VARIABLES
        .split(' ')
        .any(|known| known == name)
        .then_some(value)
}

impl Segment {
    /// Returns true if this could be a command that begins with the words of a rule.
    pub(super) fn could_begin(&self, pattern: &CommandPattern) -> bool {
        pattern.could_begin(&self.words, &self.starts)
    }

    /// Returns true if one of the programs it may start is in a list.
    fn holds(&self, names: &str) -> bool {
        self.words[self.find_starts()]
            .iter()
            .any(|word| word.is_one_of(names))
    }

    /// Returns the possible positions of the program.
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
