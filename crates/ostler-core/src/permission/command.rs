//! Which commands a shell line could run, and whether it is one plain command and nothing else.
//!
//! Two questions, and neither can be answered exactly without being the shell. So each errs on its own safe side: a rule that
//! allows sees a command only where there is exactly one, spelt with harmless characters; a rule that denies or asks sees every
//! command that a line *could* run, also behind `sudo`, in `sh -c '…'`, and wherever a variable may stand for anything.

use super::pattern::is_like;

/// What runs its arguments: the command may stand anywhere after it.
const WRAPPERS: &str = "\
    sudo doas exec command builtin nohup xargs parallel time timeout nice ionice chrt taskset stdbuf setsid \
    unshare chroot strace ltrace busybox find fd watch flock unbuffer caffeinate ! { if then elif else while \
    until do coproc function";

/// What also reads text as commands: each word of the line may be a line of its own, also when it comes through a pipe.
const SHELLS: &str = "\
    sh bash dash ash zsh ksh fish rbash pwsh eval trap source . su ssh env runuser script at batch";

/// How deep lines are looked for in lines. Whatever is deeper could be anything.
const DEEPEST: usize = 4;

/// A word of a command, as a shell would hand it over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// It holds something that the shell replaces: it could become any word, none, or several.
    is_open: bool,
}

impl Word {
    fn is_one_of(&self, programs: &str) -> bool {
        let name = base(&self.text);
        programs.split(' ').any(|program| program == name)
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
}

/// The words of a line that is one plain command, whatever shell reads it; none for every other line.
pub(super) fn plain(line: &str) -> Option<Vec<String>> {
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
    (quote.is_none() && is_command).then_some(words)
}

fn is_harmless(c: char) -> bool {
    c.is_alphanumeric() || "_-./:=,+@%~".contains(c)
}

/// Whether words begin with those of a rule that allows: each as it is written.
pub(super) fn begins(words: &[String], prefix: &[String]) -> bool {
    // A star within a word stays within a part of a path: `bin/*` is not `bin/../../x`.
    let fits = |(pattern, word): (&String, &String)| {
        pattern == "*" || (is_like(pattern, word) && pattern.matches('/').count() == word.matches('/').count())
    };
    words.len() >= prefix.len() && prefix.iter().zip(words).all(fits)
}

/// Everything that a line could run.
pub(super) fn segments(line: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    collect(line, 0, &mut found);
    found
}

/// Everything that a program with arguments could run: itself, and what it is told to run.
pub(super) fn segments_of(words: &[String]) -> Vec<Segment> {
    let words = words.iter().map(|word| Word { text: word.clone(), is_open: false }).collect();
    let mut found = Vec::new();
    with_inner(vec![Segment { words, ..Segment::default() }], 0, &mut found);
    found
}

fn collect(line: &str, depth: usize, found: &mut Vec<Segment>) {
    if depth >= DEEPEST {
        let anything = Word { text: String::new(), is_open: true };
        found.push(Segment { words: vec![anything], ..Segment::default() });
        return;
    }
    let heeding = Reader::read(line, true);
    // Where quotes may not be what they seem, the line is read once more as if there were none: nothing can hide in them.
    if heeding.is_odd {
        with_inner(Reader::read(line, false).segments, depth, found);
    }
    with_inner(heeding.segments, depth, found);
}

/// Adds the segments, and the lines within them if something there reads lines.
fn with_inner(segments: Vec<Segment>, depth: usize, found: &mut Vec<Segment>) {
    if segments.iter().any(|segment| segment.holds(SHELLS)) {
        for word in segments.iter().flat_map(|segment| segment.words.iter().chain(&segment.aside)) {
            if word.text.contains(|c: char| c.is_whitespace() || ";|&$()<>`'\"\\".contains(c)) {
                collect(&word.text, depth + 1, found);
            }
        }
    }
    found.extend(segments);
}

impl Segment {
    /// Whether it could be a command that begins with the words of a rule.
    pub(super) fn could_begin(&self, prefix: &[String]) -> bool {
        self.starts().any(|at| could_begin(&self.words[at..], prefix))
    }

    /// Whether one of the programs that it may start is on a list.
    fn holds(&self, names: &str) -> bool {
        self.starts().any(|at| self.words[at].is_one_of(names))
    }

    /// Where the program may stand.
    fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.words.iter().position(|word| !is_assignment(&word.text)).unwrap_or(self.words.len());
        let runs = |word: &Word| word.is_one_of(WRAPPERS) || word.is_one_of(SHELLS);
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

fn could_begin(words: &[Word], prefix: &[String]) -> bool {
    let (Some((program, mut rest)), Some((wanted, more))) = (words.split_first(), prefix.split_first()) else {
        return false;
    };
    if program.is_open {
        return true;
    }
    if !is_like(&base(wanted), &base(&program.text)) {
        return false;
    }
    for wanted in more {
        // Options do not hide what comes after them, and each may have a value.
        let mut may_be_value = false;
        loop {
            let Some((word, after)) = rest.split_first() else { return false };
            if word.is_open {
                return true;
            }
            rest = after;
            if is_like(wanted, &word.text) {
                break;
            }
            let is_option = word.text.starts_with('-');
            if !is_option && !may_be_value && !wanted.starts_with('-') {
                return false;
            }
            may_be_value = is_option;
        }
    }
    true
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
                self.end_segment();
            }
            ';' | '|' | '&' | '\n' | '\r' | '(' | ')' => self.end_segment(),
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
