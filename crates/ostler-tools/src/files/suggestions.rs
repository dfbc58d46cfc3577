//! Suggestions: names and lines close to one that was not found.

use std::ffi::OsStr;

use cap_std::fs::Dir;
use similar::TextDiff;

use super::io_errors::display_path;

/// Maximum number of names or lines compared.
const MAX_CANDIDATES: usize = 2_000;
/// Characters of a line that are compared.
const MAX_CHARS: usize = 120;

/// Returns up to three names in a directory close to `name`, as the end of a sentence; empty if
/// none are close.
pub(super) fn names(dir: &Dir, name: &OsStr) -> String {
    let Ok(entries) = dir.entries() else {
        return String::new();
    };
    let mut all: Vec<String> = entries
        .flatten()
        .take(MAX_CANDIDATES)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    let wanted = name.to_string_lossy().to_lowercase();
    if wanted.len() > 255 {
        return String::new();
    }
    let lower: Vec<String> = all.iter().map(|name| name.to_lowercase()).collect();
    let candidates: Vec<&str> = lower.iter().map(String::as_str).collect();
    let close = similar::get_close_matches(wanted.as_str(), &candidates, 3, 0.6);
    let close: Vec<String> = close
        .into_iter()
        .filter_map(|name| lower.iter().position(|other| other == name))
        .filter_map(|at| all.get(at))
        .map(|name| display_path(name))
        .collect();
    if close.is_empty() {
        String::new()
    } else {
        format!("; similar names: {}", close.join(", "))
    }
}

/// Returns the line of a text closest to the first line of `find`, with its number.
pub(super) fn line<'t>(text: &'t str, find: &str) -> Option<(usize, &'t str)> {
    let wanted = find.lines().map(str::trim).find(|line| !line.is_empty())?;
    let exact = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.trim() == wanted);
    if let Some((at, line)) = exact {
        return Some((at + 1, line));
    }
    let wanted = start(wanted);
    let rate = |line: &str| TextDiff::from_chars(wanted, start(line.trim())).ratio();
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .take(MAX_CANDIDATES);
    let (rate, at, line) =
        lines
            .map(|(at, line)| (rate(line), at, line))
            .fold(
                (0.0, 0, ""),
                |best, next| if next.0 > best.0 { next } else { best },
            );
    (rate >= 0.6).then_some((at + 1, line))
}

fn start(line: &str) -> &str {
    line.char_indices()
        .nth(MAX_CHARS)
        .map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_line_is_found() {
        let text = "fn main() {\n    let count = 1;\n}\n";
        assert_eq!(
            line(text, "let count = 2;"),
            Some((2, "    let count = 1;"))
        );
        assert_eq!(
            line(text, "\nlet count = 1;\nmore"),
            Some((2, "    let count = 1;"))
        );
        assert_eq!(line(text, "zzzzzzzzzzzzzzz"), None);
        assert_eq!(line(text, "\n"), None);
    }
}
