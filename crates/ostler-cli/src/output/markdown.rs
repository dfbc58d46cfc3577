//! Streaming Markdown renderer for the terminal: wraps words and turns marks into styles.
//!
//! Text comes in pieces. A word is written as soon as it is complete and no open mark precedes it.
//! Code is written line by line, and a table once its last row is known.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use super::style::{DIM, TOOL};
use super::wrap::{WIDEST, Wrapped, styled_width};

/// Maximum width of a horizontal rule.
const RULE: usize = 40;

/// Characters at the beginning of a line that leave its kind open.
const MARKS: &str = "#*-+_>`~|=.) \t";

/// Renders text that comes in pieces.
pub(super) struct Markdown {
    /// The style of all text.
    base: Style,
    /// True if marks are interpreted; otherwise words only wrap.
    has_marks: bool,
    /// Part of the current line that is not written yet.
    rest: String,
    /// The character before it.
    before: char,
    state: State,
    line: Wrapped,
    table: Vec<String>,
}

/// State of the current line.
enum State {
    /// The kind of line is not known yet.
    Begin,
    /// Prose in this style.
    Prose(Style),
    /// Inside a code block that ends with this fence.
    Code(String),
}

impl Markdown {
    pub(super) fn new() -> Self {
        Self::with(Style::new(), true)
    }

    /// Text without marks, in one style.
    pub(super) fn plain(base: Style) -> Self {
        Self::with(base, false)
    }

    fn with(base: Style, has_marks: bool) -> Self {
        Self {
            base,
            has_marks,
            rest: String::new(),
            before: ' ',
            state: State::Begin,
            line: Wrapped::default(),
            table: Vec::new(),
        }
    }

    /// Appends a piece of text and returns what can be written to a terminal of this width.
    pub(super) fn push(&mut self, text: &str, columns: usize) -> String {
        self.line.width = columns.clamp(1, WIDEST);
        self.rest.push_str(text);
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.whole_line(line.trim_end_matches(['\r', '\n']));
        }
        self.part_of_line();
        self.line.take()
    }

    /// Returns everything that is left, and ends the current line.
    pub(super) fn finish(&mut self) -> String {
        if !self.rest.is_empty() || matches!(self.state, State::Prose(_)) {
            let line = std::mem::take(&mut self.rest);
            self.whole_line(&line);
        }
        self.end_table();
        self.line.take()
    }

    /// Returns the current word, complete or not, after a pause in the input.
    pub(super) fn flush_word(&mut self) -> String {
        self.line.flush();
        self.line.take()
    }

    /// Resets the state for another text.
    pub(super) fn reset(&mut self) {
        *self = Self::with(self.base, self.has_marks);
    }

    /// Returns true if a line is incomplete or text waits to be written.
    pub(super) fn is_open(&self) -> bool {
        !self.rest.is_empty() || !self.table.is_empty() || matches!(self.state, State::Prose(_))
    }

    fn whole_line(&mut self, line: &str) {
        match &self.state {
            State::Code(fence) => {
                if line.trim_start().starts_with(fence.as_str())
                    && line.trim().chars().all(|c| fence.starts_with(c))
                {
                    self.state = State::Begin;
                } else {
                    self.line.raw(line, TOOL);
                }
            }
            State::Prose(style) => self.end_prose(line, *style),
            State::Begin if self.has_marks && line.trim_start().starts_with('|') => {
                self.table.push(line.to_owned());
            }
            State::Begin => {
                self.end_table();
                self.begin_line(line);
            }
        }
    }

    /// Writes a complete line.
    fn begin_line(&mut self, line: &str) {
        let text = line.trim();
        let fence: String = text
            .chars()
            .take_while(|c| text.starts_with(*c) && matches!(c, '`' | '~'))
            .collect();
        if !self.has_marks {
            let style = self.base;
            self.end_prose(line, style);
        } else if fence.len() >= 3 && !text[fence.len()..].contains('`') {
            self.state = State::Code(fence);
        } else if is_rule(text) {
            self.line.raw(&"─".repeat(RULE.min(self.line.width)), DIM);
        } else {
            let (rest, style) = self.begin_prose(line);
            self.end_prose(&rest, style);
        }
    }

    /// Writes the lead of a line of prose, and returns the text and its style.
    fn begin_prose(&mut self, line: &str) -> (String, Style) {
        let mut style = self.base;
        self.before = ' ';
        if !self.has_marks {
            self.line.hang(String::new(), 0);
            return (line.to_owned(), style);
        }
        let mut rest = line;
        let (mut lead, mut hang) = (String::new(), String::new());
        while let Some(quoted) = rest.trim_start().strip_prefix('>') {
            lead.push_str(&format!("{DIM}│{DIM:#} "));
            rest = quoted.strip_prefix(' ').unwrap_or(quoted);
        }
        hang.push_str(&lead);
        let text = rest.trim_start_matches(' ');
        let indent = " ".repeat(rest.len() - text.len());
        let level = text.bytes().take_while(|b| *b == b'#').count();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            style = style.bold();
            rest = text[level..].trim_start();
        } else if let Some((mark, item)) = item(text) {
            lead.push_str(&format!("{indent}{mark}"));
            hang.push_str(&format!("{indent}{}", " ".repeat(mark.width())));
            rest = item;
        } else {
            lead.push_str(&indent);
            hang.push_str(&indent);
            rest = text;
        }
        let rest = rest.to_owned();
        self.line.lead(&lead);
        self.line.hang(hang, styled_width(&lead));
        (rest, style)
    }

    fn end_prose(&mut self, rest: &str, style: Style) {
        self.inline(rest, style, Known::Whole);
        self.line.end();
        self.state = State::Begin;
    }

    /// Writes as much of an incomplete line as is certain.
    fn part_of_line(&mut self) {
        if matches!(self.state, State::Begin)
            && if self.has_marks {
                is_prose(&self.rest)
            } else {
                !self.rest.is_empty()
            }
        {
            self.end_table();
            let line = std::mem::take(&mut self.rest);
            let (rest, style) = self.begin_prose(&line);
            (self.rest, self.state) = (rest, State::Prose(style));
        }
        if let State::Prose(style) = self.state {
            let rest = std::mem::take(&mut self.rest);
            let used = self.inline(&rest, style, Known::Part);
            self.rest = rest[used..].to_owned();
        }
    }

    /// Writes text with inline marks, and returns the number of bytes used.
    fn inline(&mut self, text: &str, style: Style, known: Known) -> usize {
        if !self.has_marks {
            text.chars().for_each(|c| self.line.push(c, style));
            return text.len();
        }
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            match mark(&text[at..], self.before, known) {
                Mark::Text(shown, used) => {
                    self.line.push(shown, style);
                    self.before = shown;
                    at += used;
                }
                Mark::Code(code, used) => {
                    code.chars().for_each(|c| self.line.push(c, TOOL));
                    self.before = '`';
                    at += used;
                }
                Mark::Span(inner, weight, used) => {
                    let style = if weight == Weight::Bold {
                        style.bold()
                    } else {
                        style.italic()
                    };
                    self.before = ' ';
                    self.inline(inner, style, Known::Whole);
                    at += used;
                }
                Mark::Link(label, url, used) => {
                    self.before = ' ';
                    self.inline(label, style, Known::Whole);
                    if label != url {
                        format!(" ({url})")
                            .chars()
                            .for_each(|c| self.line.push(c, DIM));
                    }
                    at += used;
                }
                Mark::Unclear if known == Known::Part && text.len() - at <= REACH => return at,
                Mark::Unclear => {
                    self.line.push(c, style);
                    self.before = c;
                    at += c.len_utf8();
                }
            }
        }
        at
    }

    /// Writes the completed table.
    fn end_table(&mut self) {
        let lines = std::mem::take(&mut self.table);
        let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).collect();
        let is_rule =
            |cell: &String| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'));
        let is_ruled = rows.get(1).is_some_and(|row| row.iter().all(is_rule));
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        let all = rows.iter().enumerate();
        for (_, row) in all.filter(|(at, _)| *at != 1 || !is_ruled) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(rendered(cell, self.base).1);
            }
        }
        let total = widths.iter().sum::<usize>() + 3 * columns.saturating_sub(1);
        let fits = total <= self.line.width && is_ruled;
        for (at, (line, row)) in lines.iter().zip(&rows).enumerate() {
            if !fits {
                self.line.raw(line.trim(), self.base);
            } else if at == 1 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.line.raw(&rules.join("─┼─"), DIM);
            } else {
                let style = if at == 0 { self.base.bold() } else { self.base };
                let cell = |(at, width): (usize, &usize)| {
                    let (text, used) = rendered(row.get(at).map_or("", String::as_str), style);
                    format!("{text}{}", " ".repeat(width - used.min(*width)))
                };
                let cells: Vec<String> = widths.iter().enumerate().map(cell).collect();
                self.line.raw(
                    cells.join(&format!("{DIM} │ {DIM:#}")).trim_end(),
                    Style::new(),
                );
            }
        }
    }
}

/// Whether more of a text may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Whole,
    Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Bold,
    Italic,
}

/// The first element of a text, with its length in bytes.
enum Mark<'a> {
    Text(char, usize),
    Code(&'a str, usize),
    Span(&'a str, Weight, usize),
    Link(&'a str, &'a str, usize),
    /// A mark whose other half is missing or has not arrived yet.
    Unclear,
}

/// Maximum distance from a mark to its other half, in bytes. A mark that stays open longer is text.
/// This bounds the delay, and avoids quadratic time on a line full of marks.
const REACH: usize = 1_000;

fn mark(text: &str, before: char, known: Known) -> Mark<'_> {
    let is_near = text.len() <= REACH;
    let (text, known) = if is_near {
        (text, known)
    } else {
        (&text[..text.floor_char_boundary(REACH)], Known::Whole)
    };
    let Some(c) = text.chars().next() else {
        return Mark::Unclear;
    };
    let rest = &text[c.len_utf8()..];
    match c {
        '\\' => match rest.chars().next() {
            Some(next) if next.is_ascii_punctuation() => Mark::Text(next, 1 + next.len_utf8()),
            None if known == Known::Part => Mark::Unclear,
            _ => Mark::Text(c, 1),
        },
        '`' => {
            let ticks = text.len() - text.trim_start_matches('`').len();
            let found = text[ticks..].find(&text[..ticks]);
            found.map_or(Mark::Unclear, |end| {
                Mark::Code(text[ticks..ticks + end].trim(), ticks + end + ticks)
            })
        }
        '*' | '_' => emphasis(text, c, before, known),
        '!' if rest.starts_with('[') => link(rest, 1, known),
        '!' if rest.is_empty() && known == Known::Part => Mark::Unclear,
        '[' => link(text, 0, known),
        c => Mark::Text(c, c.len_utf8()),
    }
}

fn emphasis(text: &str, c: char, before: char, known: Known) -> Mark<'_> {
    let run = text
        .bytes()
        .take_while(|byte| char::from(*byte) == c)
        .count();
    let rest = &text[run..];
    let opens = rest
        .chars()
        .next()
        .map(|next| !(next.is_whitespace() || c == '_' && before.is_alphanumeric()));
    match opens {
        None if known == Known::Part => return Mark::Unclear,
        Some(true) if run <= 3 => {}
        _ => return Mark::Text(c, 1),
    }
    let close = &text[..run.min(2)];
    let weight = if run == 1 {
        Weight::Italic
    } else {
        Weight::Bold
    };
    let ends = rest.match_indices(close).find(|(at, _)| {
        let (inner, after) = (&rest[..*at], &rest[at + close.len()..]);
        let is_alone = run > 1 || !after.starts_with(c) && !inner.ends_with(c);
        let within = c == '_' && after.starts_with(char::is_alphanumeric);
        !inner.is_empty() && !inner.ends_with([' ', '\\']) && is_alone && !within
    });
    match ends {
        // Another mark may follow and extend it.
        Some((at, _)) if known == Known::Part && rest.len() == at + close.len() => Mark::Unclear,
        Some((at, _)) => {
            let inner = &rest[..at];
            // Of three marks, the third belongs to the text.
            let is_third = run - close.len() == 1 && rest[at + close.len()..].starts_with(c);
            let used = run + at + close.len() + usize::from(is_third);
            Mark::Span(inner, weight, used)
        }
        None => Mark::Unclear,
    }
}

/// Parses a link, whose text is `skipped` bytes after the mark.
fn link(text: &str, skipped: usize, known: Known) -> Mark<'_> {
    let Some(end) = text.find(']') else {
        return Mark::Unclear;
    };
    let label = &text[1..end];
    let after = &text[end + 1..];
    match (after.strip_prefix('('), after.find(')')) {
        (Some(_), Some(close)) => {
            Mark::Link(label, &after[1..close], skipped + end + 1 + close + 1)
        }
        (Some(_), None) => Mark::Unclear,
        (None, _) if after.is_empty() && known == Known::Part => Mark::Unclear,
        (None, _) => Mark::Text(if skipped == 0 { '[' } else { '!' }, 1),
    }
}

/// Splits a list item into its mark and its text.
fn item(text: &str) -> Option<(String, &str)> {
    let rest = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    if let Some(rest) = rest {
        let done = [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")];
        let task = done
            .iter()
            .find_map(|(mark, shown)| Some((*shown, rest.strip_prefix(mark)?)));
        let (mark, item) = task.unwrap_or(("• ", rest));
        return Some((mark.to_owned(), item.trim_start()));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let end = text[digits..].starts_with(". ") || text[digits..].starts_with(") ");
    ((1..=9).contains(&digits) && end).then(|| {
        (
            text[..digits + 2].to_owned(),
            text[digits + 2..].trim_start(),
        )
    })
}

/// Returns true if a line with this beginning is certainly prose.
fn is_prose(begun: &str) -> bool {
    let text = begun.trim_start_matches([' ', '>']);
    let item = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    let is_block = ["|", "```", "~~~"]
        .iter()
        .any(|mark| text.starts_with(mark));
    let may_be_task =
        item.is_some_and(|item| item.starts_with('[') && item.chars().count() < "[x] ".len());
    !is_block && !may_be_task && text.contains(|c: char| !MARKS.contains(c) && !c.is_ascii_digit())
}

fn is_rule(text: &str) -> bool {
    let marks: String = text.chars().filter(|c| *c != ' ').collect();
    marks.len() >= 3
        && ['-', '*', '_']
            .iter()
            .any(|mark| marks.chars().all(|c| c == *mark))
}

/// Splits a row into its cells. A bar after a backslash is part of its cell, even in code.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut cells, mut cell) = (Vec::new(), String::new());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('|')) => cell.extend(chars.next()),
            // A double backslash stays together: its second half does not escape a bar.
            ('\\', Some('\\')) => cell.extend([Some(c), chars.next()].into_iter().flatten()),
            ('|', _) => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(c),
        }
    }
    if !cell.trim().is_empty() || !line.ends_with('|') {
        cells.push(cell);
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Renders a table cell and returns it with its width.
fn rendered(cell: &str, style: Style) -> (String, usize) {
    let mut inner = Markdown::new();
    inner.line.width = usize::MAX;
    inner.inline(cell, style, Known::Whole);
    inner.line.flush();
    let shown = inner.line.take();
    let width = styled_width(&shown);
    (shown, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_row_of_a_table_is_a_rule() {
        let shown = seen("| a | b |\n|---|---|\n| x | y |\n|  |  |\n| - | - |\n", 80);
        assert_eq!(shown.matches('┼').count(), 1, "{shown}");
        assert!(shown.contains("- │ -"), "{shown}");
    }

    // Quadratic, this would take minutes.
    #[test]
    fn marks_that_are_never_closed_are_text() {
        let many = "*a ".repeat(100_000);
        assert_eq!(seen(&many, 80).split_whitespace().count(), 100_000);
        let pieces: Vec<&str> = std::iter::once("`")
            .chain(std::iter::repeat_n("word ", 50_000))
            .collect();
        let mut markdown = Markdown::new();
        let before_the_end: usize = pieces
            .iter()
            .map(|piece| markdown.push(piece, 80).len())
            .sum();
        assert!(
            before_the_end > 200_000,
            "shown as it comes: {before_the_end}"
        );
    }

    fn raw(pieces: &[&str], columns: usize) -> String {
        let mut markdown = Markdown::new();
        let mut out: String = pieces
            .iter()
            .map(|piece| markdown.push(piece, columns))
            .collect();
        out.push_str(&markdown.finish());
        out
    }

    fn seen(text: &str, columns: usize) -> String {
        anstream::adapter::strip_str(&raw(&[text], columns)).to_string()
    }

    const ALL: &str = "# Title **x**\n\nSome *words* and __more__ of `a_b * c` them, snake_case and 2 * 3 * 4.\n\
        - one item that is long enough to wrap\n  * [x] nested\n12. number\n> a quote that is long enough\n---\n\
        ```rust\nfn main() { *x }\n```\n| a | **b** |\n|---|:-:|\n| 1 | 日本 |\nEnd ***both*** [text](http://x) \\*no\\* 😀";

    #[test]
    fn blocks_and_marks() {
        let table = [
            ("# Title **x**", "Title x\n"),
            ("###### six", "six\n"),
            ("#hash and ####### seven", "#hash and ####### seven\n"),
            ("a **b** *c* __d__ _e_ `f*g`", "a b c d e f*g\n"),
            ("***both*** **a *b* c**", "both a b c\n"),
            (
                "snake_case_name 2 * 3 * 4 a*b **open",
                "snake_case_name 2 * 3 * 4 a*b **open\n",
            ),
            ("\\*no\\* C:\\dir \\", "*no* C:\\dir \\\n"),
            (
                "[text](http://x) ![i](y) [z] [http://x](http://x)",
                "text (http://x) i (y) [z] http://x\n",
            ),
            (
                "- a\n  - b\n* [ ] c\n+ [x] d\n1. e\n2) f",
                "• a\n  • b\n☐ c\n☑ d\n1. e\n2) f\n",
            ),
            ("-no 1.no 2020 was", "-no 1.no 2020 was\n"),
            ("> a\n> > b", "│ a\n│ │ b\n"),
            ("***", "────────────────────\n"),
            (
                "```rust\nlet x = *y; // **no**\n\n  z\n```\nafter",
                "let x = *y; // **no**\n\n  z\nafter\n",
            ),
            ("~~~~\n```\n~~~~", "```\n"),
            ("``a`b`` and `` ` ``", "a`b and `\n"),
            (
                "| a | b |\n|---|---|\n| long | `1` |\n\nx",
                "a    │ b\n─────┼──\nlong │ 1\n\nx\n",
            ),
            (
                "| a | b |\n|---|---|\n| x \\| y | `p\\|q` |",
                "a     │ b\n──────┼────\nx | y │ p|q\n",
            ),
            ("| a |\n|---|\n| x \\|", "a\n───\nx |\n"),
            ("| not a table", "| not a table\n"),
            ("", ""),
            ("a\n\n\nb\n", "a\n\n\nb\n"),
        ];
        for (text, want) in table {
            assert_eq!(
                seen(text, 20.max(text.len())).replace(&"─".repeat(40), &"─".repeat(20)),
                want,
                "{text:?}"
            );
        }
    }

    #[test]
    fn words_wrap() {
        let table = [
            ("one two three", 7, "one two\nthree\n"),
            ("one  two", 8, "one  two\n"),
            ("- one two three", 7, "• one\n  two\n  three\n"),
            ("> one two", 6, "│ one\n│ two\n"),
            ("  in dented text", 8, "  in\n  dented\n  text\n"),
            ("averyverylongword x", 5, "averyverylongword\nx\n"),
            ("日本語のテキスト", 6, "日本語\nのテキ\nスト\n"),
            ("a **bold one** b", 6, "a bold\none b\n"),
            ("```\na long line of code\n```", 5, "a long line of code\n"),
            (
                "| a | b |\n|---|---|\n| long | x |",
                5,
                "| a | b |\n|---|---|\n| long | x |\n",
            ),
        ];
        for (text, columns, want) in table {
            assert_eq!(seen(text, columns), want, "{text:?}");
        }
        assert!(
            seen(&"word ".repeat(100), 300)
                .lines()
                .all(|line| line.len() <= WIDEST),
            "prose stays readable"
        );
    }

    #[test]
    fn marks_become_styles() {
        assert_eq!(raw(&["**a**"], 80), "\u{1b}[1ma\u{1b}[0m\n");
        assert_eq!(
            raw(&["# a *b*"], 80),
            "\u{1b}[1ma\u{1b}[0m \u{1b}[1m\u{1b}[3mb\u{1b}[0m\n"
        );
        assert_eq!(raw(&["`a`"], 80), "\u{1b}[36ma\u{1b}[0m\n");
        let head = "\u{1b}[1ma\u{1b}[0m\u{1b}[2m │ \u{1b}[0m\u{1b}[1mb\u{1b}[0m\n";
        assert!(
            raw(&["| a | b |\n|-|-|"], 80).starts_with(head),
            "every cell of the head is bold"
        );
    }

    // P19: text comes in any pieces.
    #[test]
    fn pieces_make_no_difference() {
        for columns in [12, 80] {
            let whole = raw(&[ALL], columns);
            for cut in ALL.char_indices().map(|(at, _)| at) {
                assert_eq!(raw(&[&ALL[..cut], &ALL[cut..]], columns), whole, "{cut}");
            }
            let letters: Vec<String> = ALL.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(raw(&letters, columns), whole);
        }
    }

    #[test]
    fn words_are_written_when_complete() {
        let mut markdown = Markdown::new();
        assert_eq!(markdown.push("Hello wor", 80), "Hello");
        assert_eq!(markdown.push("ld and **bo", 80), " world and");
        assert!(markdown.is_open());
        assert_eq!(markdown.flush_word(), "");
        assert_eq!(
            anstream::adapter::strip_str(&markdown.push("ld** x", 80)).to_string(),
            " bold"
        );
        assert_eq!(
            (markdown.flush_word(), markdown.push("y", 80)),
            (" x".to_owned(), String::new())
        );
        assert_eq!(markdown.finish(), "y\n");
        assert!(!markdown.is_open());
    }

    #[test]
    fn text_without_marks_only_wraps() {
        let mut plain = Markdown::plain(Style::new());
        assert_eq!(
            plain.push("# a *b* c\n```\n", 6) + &plain.finish(),
            "# a\n*b* c\n```\n"
        );
    }
}
