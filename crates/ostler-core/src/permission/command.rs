//! Which commands a shell line could run, and whether it is one plain command and nothing else.
//!
//! Two questions, and neither can be answered exactly without being the shell. So each errs on its own safe side: a rule that
//! allows sees a command only where there is exactly one, spelt with harmless characters; a rule that denies or asks sees every
//! command that a line *could* run, also behind `sudo`, in `sh -c '…'`, and wherever a variable may stand for anything.

use std::ops::Range;

use super::pattern::is_like;

/// What runs its arguments: the command may stand anywhere after it.
const WRAPPERS: &str = "\
    sudo doas exec command builtin nohup xargs time timeout nice ionice chrt taskset stdbuf setsid setpriv prlimit \
    unshare nsenter chroot gosu su-exec systemd-run bwrap firejail strace ltrace busybox toybox find fd unbuffer \
    caffeinate pnpx bunx uvx ! { if then elif else while until do coproc function";

/// What runs its arguments if one of these words is among them.
const CONTAINERS: &str = "docker podman nerdctl kubectl docker-compose";
const RUNS: &str = "run exec";

/// What also reads text as commands: each word of the line may be a line of its own, also when it comes through a pipe.
const SHELLS: &str = "\
    sh bash dash ash zsh ksh fish rbash pwsh eval trap source . su sg ssh env runuser script at batch npx nix-shell \
    parallel watch flock";

/// The longest command that is looked at, in bytes, and in words of all that it could run. Rules that allow do not match a
/// longer one, rules that deny or ask do: nobody waits for thousands of rules to be tried with a megabyte.
const LONGEST: usize = 50_000;
const MOST_WORDS: usize = 10_000;

/// How deep lines are looked for in lines. Whatever is deeper could be anything.
const DEEPEST: usize = 4;

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
            (Some(_), c) if is_harmless(c) || " ?*#[]{}^!'\"".contains(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    // `NAME=value program` is a program in a changed environment, and that can be another program.
    let is_command = words.first().is_some_and(|first| !first.is_empty() && !first.contains('='));
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
        pattern == "*" || pattern == word || (is_as_deep && pattern.split('/').zip(word.split('/')).all(is_part))
    };
    words.len() >= prefix.len() && prefix.iter().zip(words).all(fits)
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
    let word = Word { is_open: true, ..Word::default() };
    vec![Segment { words: vec![word], starts: 0..1, ..Segment::default() }]
}

/// Finishes the segments, unless there are too many of them.
fn finished(mut found: Vec<Segment>) -> Vec<Segment> {
    if found.iter().map(|segment| segment.words.len()).sum::<usize>() > MOST_WORDS {
        return anything();
    }
    found.iter_mut().for_each(|segment| segment.starts = segment.find_starts());
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
    let word = |word: &String| Word { text: word.clone(), name: base(word), is_open: false };
    let mut found = Vec::new();
    let words = words.iter().map(word).collect();
    with_inner(vec![Segment { words, ..Segment::default() }], 0, &mut found);
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
    }
    with_inner(heeding.segments, depth, found);
}

/// Adds the segments, and the lines within them if something there reads lines.
fn with_inner(mut segments: Vec<Segment>, depth: usize, found: &mut Vec<Segment>) {
    if segments.iter().any(|segment| segment.holds(SHELLS)) {
        for word in segments.iter().flat_map(|segment| segment.words.iter().chain(&segment.aside)) {
            if word.text.contains(|c: char| c.is_whitespace() || ";|&$()<>`'\"\\".contains(c)) {
                collect(&word.text, depth + 1, found);
            }
        }
        // `echo rm x | sh`: it reads words that stand alone, too. Of a group it reads what all of it says.
        let is_fed = |at: usize| at > 0 && segments[at - 1].is_piped && segments[at].holds(SHELLS);
        let before = (0..segments.len()).rev().find(|&at| is_fed(at)).unwrap_or(0);
        let opened = |segment: &Segment| segment.is_opened && segment.holds(SHELLS);
        let after = segments.iter().position(opened).unwrap_or(segments.len());
        for (at, segment) in segments.iter_mut().enumerate() {
            segment.anywhere |= at < before || at > after;
        }
    }
    found.extend(segments);
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
        let mut after = vec![Fits::default(); prefix.more.len()];
        for (at, word) in self.words.iter().enumerate().skip(self.starts.start).rev() {
            let fits = word.is_open || after.first().is_none_or(|rest| rest.fresh);
            if fits && self.starts.contains(&at) && is_program(word) {
                return true;
            }
            for nth in 0..after.len() {
                let rest = after.get(nth + 1).is_none_or(|rest| rest.fresh);
                after[nth] = after[nth].before(word, &prefix.more[nth], rest);
            }
        }
        false
    }

    /// Whether one of the programs that it may start is on a list.
    fn holds(&self, names: &str) -> bool {
        self.words[self.find_starts()].iter().any(|word| word.is_one_of(names))
    }

    /// Where the program may stand.
    fn find_starts(&self) -> Range<usize> {
        let first = self.words.iter().position(|word| !is_assignment(&word.text)).unwrap_or(self.words.len());
        let among = |names: &str| self.words.iter().any(|word| names.split(' ').any(|name| name == word.text));
        let runs = |word: &Word| {
            word.is_one_of(WRAPPERS) || word.is_one_of(SHELLS) || (word.is_one_of(CONTAINERS) && among(RUNS))
        };
        let many = self.anywhere || self.words.get(first).is_some_and(runs);
        let end = if many { self.words.len() } else { self.words.len().min(first + 1) };
        first..end
    }
}

/// The name of a program without the way to it, in small letters: some file systems do not tell them apart.
fn base(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_lowercase()
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_[]".contains(c))
}

/// The words of a rule that denies or asks.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    program: String,
    more: Vec<String>,
}

impl Prefix {
    pub(super) fn of(words: &[String]) -> Self {
        let (program, more) = words.split_first().map_or((String::new(), &[][..]), |(first, more)| (base(first), more));
        Self { program, more: more.to_vec() }
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
            return Self { fresh: true, after_option: true };
        }
        if is_like(wanted, &word.text) {
            return Self { fresh: rest, after_option: rest };
        }
        // Options do not hide what comes after them, and each may have a value.
        let is_option = word.text.starts_with('-');
        let skipped = if is_option { self.after_option } else { self.fresh };
        Self { fresh: skipped && (is_option || wanted.starts_with('-')), after_option: skipped }
    }
}

/// Reads a line more or less as a shell does.
#[derive(Default)]
struct Reader {
    segments: Vec<Segment>,
    segment: Segment,
    word: Option<Word>,
    /// The next word is the target of a redirection.
    is_target: bool,
    /// There is something that this reader does not follow: another shell may see quotes elsewhere.
    is_odd: bool,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl Reader {
    fn read(line: &str, heeds_quotes: bool) -> Self {
        let mut reader = Self::default();
        let mut chars = line.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => {
                    reader.word();
                    quote = heeds_quotes.then_some(c);
                }
                (Some(_) | None, '\\') => reader.escape(quote, &mut chars, heeds_quotes),
                (Some('"') | None, '$') => {
                    reader.is_odd |= chars.peek().is_some_and(|next| "({".contains(*next));
                    reader.open(c);
                }
                (Some(_), c) => {
                    reader.is_odd |= c == '`' && quote == Some('"');
                    reader.word().text.push(c);
                }
                (None, c) => reader.bare(c, &mut chars),
            }
        }
        reader.is_odd |= quote.is_some();
        reader.end_segment();
        reader
    }

    /// A character outside of quotes.
    fn bare(&mut self, c: char, chars: &mut Chars<'_>) {
        match c {
            '&' if chars.peek() == Some(&'>') => self.segment.anywhere = true,
            '`' => {
                self.is_odd = true;
                self.open(c);
                (self.segment.is_piped, self.segment.is_opened) = (true, true);
                self.end_segment();
            }
            '|' | '(' | ')' => {
                self.segment.is_opened = c == '(';
                self.segment.is_piped = c == ')' || (c == '|' && chars.peek() != Some(&'|'));
                self.end_segment();
            }
            ';' | '&' | '\n' | '\r' => self.end_segment(),
            '<' | '>' => self.redirect(c, chars),
            '*' | '?' | '[' | '{' => self.open(c),
            c if c.is_whitespace() => self.end_word(),
            c => {
                self.is_odd |= c == '#';
                self.word().text.push(c);
            }
        }
    }

    fn escape(&mut self, quote: Option<char>, chars: &mut Chars<'_>, heeds_quotes: bool) {
        if quote == Some('\'') {
            // It is itself for most shells, and not for all.
            self.is_odd = true;
            self.word().text.push('\\');
        } else if chars.next_if_eq(&'\n').is_none() && heeds_quotes {
            let next = chars.next();
            self.word().text.extend(next);
        }
    }

    fn redirect(&mut self, c: char, chars: &mut Chars<'_>) {
        // `2>` is about a descriptor, not an argument.
        if self.word.as_ref().is_some_and(|word| word.text.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if chars.next_if(|next| "<>".contains(*next)).is_some_and(|next| (c, next) == ('<', '<')) {
            self.is_odd = true;
        }
        chars.next_if(|next| "&|".contains(*next));
        self.is_target = true;
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    /// A character that makes the shell put something else in its place.
    fn open(&mut self, c: char) {
        let word = self.word();
        word.is_open = true;
        word.text.push(c);
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else { return };
        // A lone brace groups commands.
        word.is_open &= word.text != "{";
        word.name = base(&word.text);
        let list = if std::mem::take(&mut self.is_target) { &mut self.segment.aside } else { &mut self.segment.words };
        list.push(word);
    }

    fn end_segment(&mut self) {
        self.end_word();
        self.is_target = false;
        let segment = std::mem::take(&mut self.segment);
        if !(segment.words.is_empty() && segment.aside.is_empty()) {
            self.segments.push(segment);
        }
    }
}
