//! A table on stdout: columns as wide as their widest cell.

use unicode_width::UnicodeWidthStr;

use super::print_line;
use super::style::DIM;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Prints a table.
pub(crate) fn table<const N: usize>(heads: [(&str, Align); N], rows: &[[String; N]]) {
    let mut lines = table_lines(heads, rows).into_iter();
    lines
        .next()
        .into_iter()
        .for_each(|line| outln!("{DIM}{line}{DIM:#}"));
    lines.for_each(|line| print_line(&line));
}

/// Returns the lines of a table: the heads, then one per row.
pub(crate) fn table_lines<const N: usize>(
    heads: [(&str, Align); N],
    rows: &[[String; N]],
) -> Vec<String> {
    let first = heads.map(|(head, _)| head.to_owned());
    let all = || std::iter::once(&first).chain(rows);
    let width = |column: usize| all().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let padded = row
            .iter()
            .zip(&widths)
            .zip(heads)
            .map(|((cell, width), (_, align))| {
                let space = " ".repeat(width - cell.width());
                match align {
                    Align::Left => format!("{cell}{space}"),
                    Align::Right => format!("{space}{cell}"),
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["längest", "1,000"]].map(|row| row.map(str::to_owned));
        let got = table_lines([("name", Align::Left), ("n", Align::Right)], &rows);
        assert_eq!(got, ["name         n", "a            1", "längest  1,000"]);
        let rows = [["日本", "1"], ["abcd", "2"]].map(|row| row.map(str::to_owned));
        let got = table_lines([("name", Align::Left), ("n", Align::Right)], &rows);
        assert_eq!(
            got,
            ["name  n", "日本  1", "abcd  2"],
            "wide characters take two columns"
        );
    }
}
