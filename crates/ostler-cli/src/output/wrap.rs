//! Word wrapping for messages and Markdown.

use std::fmt::Write as _;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum width of prose, however wide the terminal is.
pub(super) const WIDEST: usize = 100;

/// Width of a tab in prose.
const TAB: usize = 4;

/// Wraps a message that starts in column `lead`. Further lines are indented.
pub(super) fn wrap(text: &str, lead: usize, columns: usize) -> String {
    let mut line = Wrapped {
        width: columns.clamp(1, WIDEST),
        column: lead,
        ..Wrapped::default()
    };
    line.hang("  ".to_owned(), 2);
    for (at, part) in text.lines().enumerate() {
        if at > 0 {
            line.out.push_str("\n  ");
            line.column = 2;
        }
        part.chars().for_each(|c| line.push(c, Style::new()));
        line.flush();
        line.spaces = 0;
    }
    line.take()
}

/// Returns the width of a text that contains styles.
pub(super) fn styled_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().width()
}

/// A line whose words wrap.
#[derive(Default)]
pub(super) struct Wrapped {
    pub(super) out: String,
    pub(super) width: usize,
    column: usize,
    /// Prefix of wrapped lines, and its width.
    hang: (String, usize),
    /// Spaces before the current word.
    spaces: usize,
    word: Vec<(Style, String)>,
    word_width: usize,
    /// True if the word is one wide character and what is joined to it.
    is_wide: bool,
}

impl Wrapped {
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Writes the beginning of a line.
    pub(super) fn lead(&mut self, lead: &str) {
        self.out.push_str(lead);
        self.column = styled_width(lead);
    }

    pub(super) fn hang(&mut self, hang: String, width: usize) {
        self.hang = (hang, width);
    }

    /// Writes a line without wrapping.
    pub(super) fn raw(&mut self, line: &str, style: Style) {
        let _ = writeln!(self.out, "{style}{line}{style:#}"); // writing to a String never fails
    }

    pub(super) fn push(&mut self, c: char, style: Style) {
        if c == ' ' || c == '\t' {
            self.flush();
            self.spaces += if c == '\t' { TAB } else { 1 };
            return;
        }
        let last = self
            .word
            .last()
            .and_then(|(_, text)| text.chars().next_back());
        // Joined characters and skin tones are drawn as part of the previous character.
        let is_joined =
            last == Some('\u{200d}') || last.is_some() && ('\u{1f3fb}'..='\u{1f3ff}').contains(&c);
        let width = if is_joined { 0 } else { c.width().unwrap_or(0) };
        // Scripts without spaces break between any two characters.
        if width > 1 || width > 0 && self.is_wide {
            self.flush();
        }
        self.is_wide |= width > 1;
        match self.word.last_mut() {
            Some((last, text)) if *last == style => text.push(c),
            _ => self.word.push((style, c.to_string())),
        }
        self.word_width += width;
    }

    /// Writes the current word, on a new line if it does not fit.
    pub(super) fn flush(&mut self) {
        self.is_wide = false;
        if self.word.is_empty() {
            return;
        }
        if self.column.saturating_add(self.spaces + self.word_width) > self.width
            && self.column > self.hang.1
        {
            self.out.push('\n');
            self.out.push_str(&self.hang.0);
            self.column = self.hang.1;
        } else {
            self.out.push_str(&" ".repeat(self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        for (style, text) in std::mem::take(&mut self.word) {
            let _ = write!(self.out, "{style}{text}{style:#}");
        }
        self.column += std::mem::take(&mut self.word_width);
    }

    pub(super) fn end(&mut self) {
        self.flush();
        self.out.push('\n');
        (self.column, self.spaces) = (0, 0);
        self.hang = Default::default();
    }
}

/// Breaks a text into lines of at most `width` columns, unless a word is longer. Lines after the
/// first are indented.
pub(crate) fn wrap_lines(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut line = Wrapped {
        width,
        ..Wrapped::default()
    };
    line.hang(" ".repeat(indent), indent);
    for word in text.split_whitespace() {
        word.chars().for_each(|c| line.push(c, Style::new()));
        line.push(' ', Style::new());
    }
    line.take().lines().map(str::to_owned).collect()
}

/// Breaks a text into lines of at most `width` columns, all of them indented.
pub(crate) fn wrap_indented(text: &str, indent: usize, width: usize) -> Vec<String> {
    let lines = wrap_lines(text, width.saturating_sub(indent), 0).into_iter();
    lines.map(|line| format!("{:indent$}{line}", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wrap() {
        let table = [
            ("one two three four", 2, 9, "one two\n  three\n  four"),
            ("one two", 2, 20, "one two"),
            ("one\n\ntwo", 2, 20, "one\n  \n  two"),
            ("", 2, 20, ""),
        ];
        for (text, lead, columns, want) in table {
            assert_eq!(wrap(text, lead, columns), want, "{text:?}");
        }
    }

    #[test]
    fn joined_characters_stay_together() {
        let (one, two) = ("👩\u{200d}👩\u{200d}👧", "👍🏽");
        assert_eq!(wrap(&one.repeat(3), 0, 4), format!("{one}{one}\n  {one}"));
        assert_eq!(
            wrap(&format!("{two}{one}a {one}"), 0, 5),
            format!("{two}{one}a\n  {one}")
        );
        let bold = Style::new().bold();
        let mut line = Wrapped {
            width: 80,
            ..Wrapped::default()
        };
        one.chars().for_each(|c| line.push(c, bold));
        line.flush();
        assert_eq!(line.take(), format!("{bold}{one}{bold:#}"));
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap_lines("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap_lines("one two three", 9, 4), ["one two", "    three"]);
        assert_eq!(
            wrap_lines("unbreakable word", 4, 0),
            ["unbreakable", "word"]
        );
        assert_eq!(wrap_lines("ééé ééé", 7, 0), ["ééé ééé"]);
        assert_eq!(wrap_lines(" \n", 10, 2), [""; 0]);
    }
}
