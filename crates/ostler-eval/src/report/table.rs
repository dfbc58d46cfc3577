//! Text tables with aligned columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A table. The first column is aligned left and gives way if the terminal is narrow; the others
/// are aligned right.
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// Renders the table in at most `width` columns, if the first column can shrink that far.
    /// Columns that do not fit beside it are left out from the right.
    pub(super) fn render(&self, width: usize) -> String {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let column = |index: usize| {
            let cells = all().map(|row| row.get(index).map_or(0, |cell| cell.width()));
            cells.max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.head.len()).map(column).collect();
        let taken = |widths: &[usize]| widths.iter().skip(1).map(|it| it + 2).sum::<usize>();
        let first = widths.first().copied().unwrap_or(0);
        let least = first.min(MIN_FIRST);
        while widths.len() > 2 && taken(&widths) + least > width {
            widths.pop();
        }
        let room = width.saturating_sub(taken(&widths)).max(least);
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(room);
        }
        let lines = all().map(|row| {
            let cells = row.iter().zip(&widths).enumerate();
            let line: String = cells
                .map(|(index, (cell, width))| place(index, cell, *width))
                .collect();
            line.trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

/// Width that the first column does not fall below.
const MIN_FIRST: usize = 16;

fn place(index: usize, cell: &str, width: usize) -> String {
    let cell = clip(cell, width);
    let padding = " ".repeat(width.saturating_sub(cell.width()));
    if index == 0 {
        format!("{cell}{padding}")
    } else {
        format!("  {padding}{cell}")
    }
}

/// Cuts a text to a width, with `…` at its end.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut clipped, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        clipped.push(c);
    }
    clipped + "…"
}
