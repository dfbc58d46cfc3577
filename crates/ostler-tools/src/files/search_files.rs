//! `search_files`: finds lines that match a pattern.

use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::hard_links::DeniedHardLinks;
use super::limits::{
    REGEX_BYTES, SEARCH_BYTES, SEARCH_CONTEXT, SEARCH_FILE_BYTES, SEARCH_MATCHES,
    SEARCH_MATCHES_DEFAULT, WALK_ENTRIES,
};
use super::open::open_at;
use super::pattern::{Pattern, check_length};
use super::regular_file::open_regular;
use super::resolve::{FileKind, LinkMode};
use super::root::Root;
use super::rules::{Access, TargetKind};
use super::walk::{ListedDir, Walk, WalkEntry, WalkScope};
use crate::{Code, ToolError};

mod matches;

use matches::{MatchLine, Matches};

/// Arguments of `search_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchFiles {
    /// A regular expression (Rust syntax) to find in each line, or plain text with `literal`.
    pattern: String,
    /// The directory or file to search, relative to the workspace; the workspace itself if omitted.
    path: Option<String>,
    /// Whether `pattern` is plain text instead of a regular expression.
    literal: Option<bool>,
    /// Whether to ignore case.
    ignore_case: Option<bool>,
    /// Only search files that match this glob, such as `*.rs` or `src/**/*.ts`.
    glob: Option<String>,
    /// The number of lines to return before and after each match.
    context: Option<u64>,
    /// The maximum number of matches to return.
    max: Option<u64>,
}

/// Result of `search_files`.
#[derive(Debug, Serialize)]
pub(crate) struct SearchResult {
    matches: Vec<MatchLine>,
    match_count: u64,
    files_searched: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Render for SearchResult {
    fn text(&self) -> String {
        let mut text = matches::text(&self.matches);
        if self.matches.is_empty() {
            text.push_str(&format!("(no match in {} files)\n", self.files_searched));
        }
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

/// Searches the files.
pub(crate) fn run(root: &Root, args: &SearchFiles) -> Result<SearchResult, ToolError> {
    let given = root.parse_path(args.path.as_deref().unwrap_or("."), Access::Read)?;
    let matcher = matcher(args)?;
    let glob = args
        .glob
        .as_deref()
        .map(|text| Pattern::new(text, "glob"))
        .transpose()?;
    let max_matches = args
        .max
        .unwrap_or(SEARCH_MATCHES_DEFAULT)
        .clamp(1, SEARCH_MATCHES);
    let context =
        usize::try_from(args.context.unwrap_or(0).min(SEARCH_CONTEXT)).unwrap_or_default();
    let mut search = Search {
        root,
        matches: Matches::new(matcher, max_matches, context),
        hard_links: DeniedHardLinks::default(),
        skipped: Skipped::default(),
    };
    match root.directory(&given) {
        Ok(start) => {
            let real = start.real.clone();
            let mut walk = Walk::new(root, start, WalkScope::Sources);
            for dir in &mut walk {
                search.directory(&dir, &real, glob.as_ref());
                if search.is_done() {
                    break;
                }
            }
            search.skipped.is_truncated |= walk.is_truncated();
            search.skipped.unopened += walk.unopened as u64;
        }
        Err(error) if error.code == Code::NotADirectory => {
            let resolved = root.resolve(&given, LinkMode::Follow)?;
            let (file, metadata) = open_at(root, &resolved, &search.hard_links)?;
            search.file(&resolved.real, &file, metadata.len());
        }
        Err(error) => return Err(error),
    }
    Ok(search.finish())
}

fn matcher(args: &SearchFiles) -> Result<RegexMatcher, ToolError> {
    check_length(&args.pattern, "pattern")?;
    let bad = |message: String| Err(ToolError::bad_arguments(message));
    if args.pattern.is_empty() {
        return bad("`pattern` is empty: give what to look for".to_owned());
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .crlf(true)
        .line_terminator(Some(b'\n'));
    builder
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .nest_limit(100);
    builder
        .case_insensitive(args.ignore_case == Some(true))
        .fixed_strings(args.literal == Some(true));
    builder.build(&args.pattern).or_else(|error| {
        let hint = if args.pattern.contains('\n') || args.pattern.contains("\\n") {
            "files are searched line by line: omit the line ending"
        } else {
            "for plain text set `literal`"
        };
        bad(format!(
            "`pattern` is not a valid regular expression: {error} ({hint})"
        ))
    })
}

/// Counts of files that were not searched, by reason.
#[derive(Debug, Default)]
struct Skipped {
    denied: u64,
    large: u64,
    unopened: u64,
    is_truncated: bool,
    bytes: u64,
}

struct Search<'r> {
    root: &'r Root,
    matches: Matches,
    hard_links: DeniedHardLinks,
    skipped: Skipped,
}

impl Search<'_> {
    fn directory(&mut self, dir: &ListedDir, start: &PathBuf, glob: Option<&Pattern>) {
        let below = |entry: &WalkEntry| {
            entry
                .path
                .strip_prefix(start)
                .unwrap_or(&entry.path)
                .to_owned()
        };
        for entry in dir
            .entries
            .iter()
            .filter(|entry| entry.kind == FileKind::File)
        {
            if glob.is_some_and(|glob| !glob.matches(&below(entry))) {
                continue;
            }
            self.entry(dir, entry);
            if self.is_done() {
                return;
            }
        }
    }

    fn entry(&mut self, dir: &ListedDir, entry: &WalkEntry) {
        if self.root.rules.is_secret(&entry.path, TargetKind::File) {
            self.skipped.denied += 1;
            return;
        }
        // The file was removed or replaced in the meantime.
        let Ok(Some((file, metadata))) = open_regular(&dir.dir, &entry.name) else {
            self.skipped.unopened += 1;
            return;
        };
        if self.hard_links.check(self.root, &metadata, "").is_err() {
            self.skipped.denied += 1;
            return;
        }
        self.file(&entry.path, &file, metadata.len());
    }

    fn file(&mut self, path: &Path, file: &std::fs::File, size: u64) {
        if size > SEARCH_FILE_BYTES {
            self.skipped.large += 1;
            return;
        }
        self.skipped.bytes += size;
        if !self.matches.search(path, file) {
            self.skipped.unopened += 1;
        }
    }

    fn is_done(&self) -> bool {
        self.matches.is_full() || self.skipped.bytes > SEARCH_BYTES
    }

    fn finish(self) -> SearchResult {
        let Skipped {
            denied,
            large,
            unopened,
            is_truncated,
            bytes,
        } = self.skipped;
        let mut notes = Vec::new();
        if self.matches.is_full() {
            notes.push(format!(
                "only the first {} matches: narrow `pattern`, `path` or `glob`",
                self.matches.count
            ));
        }
        if is_truncated || bytes > SEARCH_BYTES {
            notes.push(format!(
                "incomplete, at most {WALK_ENTRIES} entries are searched: give a narrower `path`"
            ));
        }
        for (count, reason) in [
            (denied, "denied by a rule"),
            (large, "too large to search"),
            (unopened, "that could not be read"),
        ] {
            if count > 0 {
                notes.push(format!("skipped {count} {reason}"));
            }
        }
        SearchResult {
            match_count: self.matches.count,
            files_searched: self.matches.files,
            matches: self.matches.lines,
            notes,
        }
    }
}
