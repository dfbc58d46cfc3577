//! Collected matches of a search, each line truncated to what is shown.

use std::fs::File;
use std::io;
use std::path::Path;

use grep_regex::RegexMatcher;
use grep_searcher::sinks::Bytes;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use serde::Serialize;

use crate::files::limits::{SEARCH_LINE_CHARS, SEARCH_OUTPUT_BYTES};
use crate::names::quoted;

/// Bytes of one line that the searcher holds in memory.
const HEAP_BYTES: usize = 8 * 1024 * 1024;

/// A matching line, or a line of context.
#[derive(Debug, Serialize)]
pub(super) struct MatchLine {
    path: String,
    line: u64,
    text: String,
    /// Whether the line is only context.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    context: bool,
}

/// The matches so far.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) lines: Vec<MatchLine>,
    /// Number of matching lines.
    pub(super) count: u64,
    /// Number of files searched.
    pub(super) files: u64,
    matcher: RegexMatcher,
    searcher: Searcher,
    max_matches: u64,
    bytes: usize,
}

impl Matches {
    /// Creates an empty collection for at most `max_matches` matches, each with `context` lines
    /// around it.
    pub(super) fn new(matcher: RegexMatcher, max_matches: u64, context: usize) -> Self {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(true)
            .before_context(context)
            .after_context(context);
        builder
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_BYTES));
        Self {
            lines: Vec::new(),
            count: 0,
            files: 0,
            matcher,
            searcher: builder.build(),
            max_matches,
            bytes: 0,
        }
    }

    /// Searches a file; returns false if it could not be read to its end.
    pub(super) fn search(&mut self, path: &Path, file: &File) -> bool {
        let (max_matches, bytes) = (
            self.max_matches - self.count,
            SEARCH_OUTPUT_BYTES.saturating_sub(self.bytes),
        );
        let path = path.to_string_lossy().into_owned();
        let mut lines = FileSink {
            path,
            max_matches,
            bytes,
            matcher: &self.matcher,
            found: Vec::new(),
            count: 0,
            is_binary: false,
        };
        let searched = self.searcher.search_file(&self.matcher, file, &mut lines);
        let FileSink {
            found,
            count,
            is_binary,
            bytes: left,
            ..
        } = lines;
        if is_binary {
            return true;
        }
        self.files += 1;
        self.count += count;
        self.bytes += bytes - left;
        self.lines.extend(found);
        searched.is_ok()
    }

    /// Returns true if the output limits are reached.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.max_matches || self.bytes >= SEARCH_OUTPUT_BYTES
    }
}

/// Renders the lines: `path:line:text` for matches, `path-line-text` for context.
pub(super) fn text(lines: &[MatchLine]) -> String {
    let mut text = String::new();
    let mut last: Option<&MatchLine> = None;
    let has_context = lines.iter().any(|line| line.context);
    for line in lines {
        let follows = last.is_none_or(|last| last.path == line.path && last.line + 1 == line.line);
        if has_context && !follows {
            text.push_str("--\n");
        }
        let mark = if line.context { '-' } else { ':' };
        text.push_str(&format!(
            "{}{mark}{}{mark}{}\n",
            quoted(&line.path),
            line.line,
            line.text
        ));
        last = Some(line);
    }
    text
}

/// Lines collected from one file; discarded if it turns out to be binary.
struct FileSink<'f> {
    path: String,
    max_matches: u64,
    bytes: usize,
    matcher: &'f RegexMatcher,
    found: Vec<MatchLine>,
    count: u64,
    is_binary: bool,
}

impl FileSink<'_> {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], context: bool) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let text = if context {
            window(text, |_| true)
        } else {
            window(text, |part| self.matches(part))
        };
        self.bytes = self.bytes.saturating_sub(text.len() + self.path.len());
        self.found.push(MatchLine {
            path: self.path.clone(),
            line: number.unwrap_or_default(),
            text,
            context,
        });
    }

    /// Returns true if a part of a line contains a match.
    fn matches(&self, part: &str) -> bool {
        let mut is_match = false;
        let sink = Bytes(|_, _| {
            is_match = true;
            Ok(false)
        });
        Searcher::new()
            .search_slice(self.matcher, part.as_bytes(), sink)
            .is_ok()
            && is_match
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        // Context after the last match is still collected; the next match stops the search.
        if self.count == self.max_matches || self.bytes == 0 {
            return Ok(false);
        }
        self.count += 1;
        self.push(found.line_number(), found.bytes(), false);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(beside.line_number(), beside.bytes(), true);
        Ok(self.bytes > 0)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Returns the part of a line that is shown: the first one that matches.
fn window(line: &str, matches: impl Fn(&str) -> bool) -> String {
    // Parts overlap, so that a match of up to half the shown length is whole in one of them.
    const STEP: usize = SEARCH_LINE_CHARS / 2;
    const PARTS: usize = 1_000;
    let starts: Vec<usize> = line
        .char_indices()
        .map(|(at, _)| at)
        .step_by(STEP)
        .take(PARTS)
        .collect();
    let part_from = |start: usize| {
        let rest = &line[start..];
        rest.char_indices()
            .nth(SEARCH_LINE_CHARS)
            .map_or(rest, |(end, _)| &rest[..end])
    };
    let first = part_from(0);
    if first.len() == line.len() {
        return line.to_owned();
    }
    let start = starts
        .into_iter()
        .find(|start| matches(part_from(*start)))
        .unwrap_or(0);
    let shown = part_from(start);
    let lead = if start > 0 { "…" } else { "" };
    let tail = if start + shown.len() < line.len() {
        "…"
    } else {
        ""
    };
    format!("{lead}{shown}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_truncated_around_its_match() {
        let line = format!("{}needle{}", "ä".repeat(5_000), "b".repeat(5_000));
        let shown = window(&line, |part| part.contains("needle"));
        assert!(
            shown.contains("needle") && shown.starts_with('…') && shown.ends_with('…'),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), SEARCH_LINE_CHARS + 2);
        assert!(window(&line, |_| false).starts_with("ää"));
        assert_eq!(window("short", |_| false), "short");
        assert_eq!(window("", |_| false), "");
    }
}
