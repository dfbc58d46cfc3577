//! Shell line reader: splits a line into the commands it could run.

use super::Segment;
use crate::matching::{Word, base_name};

/// Reads a line approximately as a shell does.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) segments: Vec<Segment>,
    segment: Segment,
    word: Option<Word>,
    /// The next word is the target of a redirection.
    is_target: bool,
    /// The line contains something this reader does not follow: another shell may see quotes
    /// elsewhere.
    pub(super) is_ambiguous: bool,
    /// Whether only blanks that every shell recognizes separate words.
    is_strict: bool,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl Reader {
    pub(super) fn read(line: &str, respects_quotes: bool) -> Self {
        Self::read_with(line, respects_quotes, respects_quotes)
    }

    /// Reads a line. With `is_strict`, only spaces and tabs separate words.
    pub(super) fn read_with(line: &str, respects_quotes: bool, is_strict: bool) -> Self {
        let mut reader = Self {
            is_strict,
            ..Self::default()
        };
        let mut chars = line.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => {
                    reader.word();
                    quote = respects_quotes.then_some(c);
                }
                (Some(_) | None, '\\') => reader.escape(quote, &mut chars, respects_quotes),
                (Some('"') | None, '$') => {
                    reader.is_ambiguous |= chars.peek().is_some_and(|next| "({".contains(*next));
                    reader.open(c);
                }
                (Some(_), c) => {
                    reader.is_ambiguous |= c == '`' && quote == Some('"');
                    // A subscript is evaluated wherever a name may be, whatever quotes surround it.
                    let opens = c == '`' || (c == '$' && chars.peek() == Some(&'('));
                    reader.is_ambiguous |= opens && reader.word().text.contains('[');
                    reader.word().text.push(c);
                }
                (None, c) => reader.bare(c, &mut chars),
            }
        }
        reader.is_ambiguous |= quote.is_some();
        reader.end_segment();
        reader
    }

    /// Handles a character outside of quotes.
    fn bare(&mut self, c: char, chars: &mut Chars<'_>) {
        match c {
            '&' if chars.peek() == Some(&'>') => self.segment.anywhere = true,
            '`' => {
                self.is_ambiguous = true;
                self.open(c);
                (self.segment.is_piped, self.segment.is_opened) = (true, true);
                self.end_segment();
            }
            '|' | '(' | ')' => {
                self.segment.is_opened = c == '(';
                self.segment.is_piped = c == ')' || (c == '|' && chars.peek() != Some(&'|'));
                self.end_segment();
            }
            ';' | '&' | '\n' => self.end_segment(),
            // For most shells these are ordinary characters; the line is also read the other way.
            c if self.is_strict && c.is_whitespace() && !matches!(c, ' ' | '\t') => {
                self.is_ambiguous = true;
                self.word().text.push(c);
            }
            '\r' => self.end_segment(),
            '<' | '>' => self.redirect(c, chars),
            '*' | '?' | '[' | '{' => self.open(c),
            c if c.is_whitespace() => self.end_word(),
            c => {
                self.is_ambiguous |= c == '#';
                self.word().text.push(c);
            }
        }
    }

    fn escape(&mut self, quote: Option<char>, chars: &mut Chars<'_>, respects_quotes: bool) {
        if quote == Some('\'') {
            // It is literal in most shells, but not in all.
            self.is_ambiguous = true;
            self.word().text.push('\\');
        } else if chars.next_if_eq(&'\n').is_none() && respects_quotes {
            let next = chars.next();
            self.word().text.extend(next);
        }
    }

    fn redirect(&mut self, c: char, chars: &mut Chars<'_>) {
        // `2>` and `{name}>` name a descriptor, not an argument.
        if self
            .word
            .as_ref()
            .is_some_and(|word| is_descriptor(&word.text))
        {
            self.word = None;
        }
        self.end_word();
        if chars
            .next_if(|next| "<>".contains(*next))
            .is_some_and(|next| (c, next) == ('<', '<'))
        {
            self.is_ambiguous = true;
        }
        chars.next_if(|next| "&|".contains(*next));
        self.segment.is_fed |= c == '<';
        self.is_target = true;
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    /// Handles a character that starts an expansion.
    fn open(&mut self, c: char) {
        let word = self.word();
        word.is_open = true;
        word.text.push(c);
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else {
            return;
        };
        // A lone brace groups commands, and braces without a list are literal.
        let is_list = word.text.contains(',') || word.text.contains("..");
        word.is_open &= is_list || word.text.contains(['$', '`', '*', '?', '[']);
        word.name = base_name(&word.text);
        let list = if std::mem::take(&mut self.is_target) {
            &mut self.segment.redirects
        } else {
            &mut self.segment.words
        };
        list.push(word);
    }

    fn end_segment(&mut self) {
        self.end_word();
        self.is_target = false;
        let segment = std::mem::take(&mut self.segment);
        if !(segment.words.is_empty() && segment.redirects.is_empty()) {
            self.segments.push(segment);
        }
    }
}

/// Returns the line without its comments, or `None` if it has none.
pub(super) fn without_comments(line: &str, respects_quotes: bool) -> Option<String> {
    let (mut left, mut is_cut) = (String::with_capacity(line.len()), false);
    let (mut quote, mut begins_word) = (None, true);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => {
                left.push(c);
                left.extend(chars.peek());
                // An escaped line break is removed entirely.
                begins_word &= chars.next() == Some('\n');
                continue;
            }
            (None, '#') if begins_word => {
                is_cut = true;
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            (None, '\'' | '"') if respects_quotes => (quote, begins_word) = (Some(c), false),
            (None, c) => begins_word = c.is_whitespace() || ";&|()<>`".contains(c),
            (Some(_), _) => {}
        }
        left.push(c);
    }
    is_cut.then_some(left)
}

/// Returns true if a word before a redirection names a descriptor.
fn is_descriptor(text: &str) -> bool {
    let name = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '[' || c == ']')
    };
    text.chars().all(|c| c.is_ascii_digit()) || name.is_some_and(is_name)
}
