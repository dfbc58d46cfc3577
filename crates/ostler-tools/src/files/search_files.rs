//! `search_files`: lines that match, in the files that matter.

use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::hard_links::Twins;
use super::limits::{
    REGEX_BYTES, SEARCH_BYTES, SEARCH_CONTEXT, SEARCH_FILE_BYTES, SEARCH_MATCHES,
    SEARCH_MATCHES_DEFAULT, WALK_ENTRIES,
};
use super::open::open_at;
use super::pattern::{Pattern, check_length};
use super::regular::open_regular;
use super::resolve::{Kind, Links};
use super::root::Root;
use super::rules::{Access, Sort};
use super::walk::{Entry, Met, Walk, Walked};
use crate::{Code, ToolError};

mod found;

use found::{Found, Line};

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchFiles {
    /// What to look for in each line: a regular expression (Rust syntax), or plain text with `literal`.
    pattern: String,
    /// The directory or file to search, relative to the workspace; the workspace itself if left out.
    path: Option<String>,
    /// Whether `pattern` is plain text instead of a regular expression.
    literal: Option<bool>,
    /// Whether upper and lower case are the same.
    ignore_case: Option<bool>,
    /// Only files that match this glob, such as `*.rs` or `src/**/*.ts`.
    glob: Option<String>,
    /// How many lines to give before and after each match.
    context: Option<u64>,
    /// How many matches to give at most.
    max: Option<u64>,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Searched {
    matches: Vec<Line>,
    match_count: u64,
    files_searched: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Answer for Searched {
    fn text(&self) -> String {
        let mut text = found::text(&self.matches);
        if self.matches.is_empty() {
            text.push_str(&format!("(no match in {} files)\n", self.files_searched));
        }
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

/// Searches.
pub(crate) fn run(root: &Root, args: &SearchFiles) -> Result<Searched, ToolError> {
    let given = root.given(args.path.as_deref().unwrap_or("."), Access::Read)?;
    let matcher = matcher(args)?;
    let glob = args
        .glob
        .as_deref()
        .map(|text| Pattern::new(text, "glob"))
        .transpose()?;
    let most = args
        .max
        .unwrap_or(SEARCH_MATCHES_DEFAULT)
        .clamp(1, SEARCH_MATCHES);
    let context =
        usize::try_from(args.context.unwrap_or(0).min(SEARCH_CONTEXT)).unwrap_or_default();
    let mut search = Search {
        root,
        found: Found::new(matcher, most, context),
        twins: Twins::default(),
        skipped: Skipped::default(),
    };
    match root.directory(&given) {
        Ok(start) => {
            let real = start.real.clone();
            let mut walk = Walk::new(root, start, Walked::Sources);
            for met in &mut walk {
                search.directory(&met, &real, glob.as_ref());
                if search.is_over() {
                    break;
                }
            }
            search.skipped.is_cut_short |= walk.is_cut_short();
            search.skipped.unopened += walk.unopened as u64;
        }
        Err(error) if error.code == Code::NotADirectory => {
            let place = root.place(&given, Links::Follow)?;
            let (file, about) = open_at(root, &place, &search.twins)?;
            search.file(&place.real, &file, about.len());
        }
        Err(error) => return Err(error),
    }
    Ok(search.done())
}

fn matcher(args: &SearchFiles) -> Result<RegexMatcher, ToolError> {
    check_length(&args.pattern, "pattern")?;
    let bad = |message: String| Err(ToolError::new(Code::BadArguments, message));
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
            "files are searched line by line: leave out the line end"
        } else {
            "for plain text set `literal`"
        };
        bad(format!(
            "`pattern` is not a regular expression that can be used: {error} ({hint})"
        ))
    })
}

/// What was not searched, and why.
#[derive(Debug, Default)]
struct Skipped {
    denied: u64,
    large: u64,
    unopened: u64,
    is_cut_short: bool,
    bytes: u64,
}

struct Search<'r> {
    root: &'r Root,
    found: Found,
    twins: Twins,
    skipped: Skipped,
}

impl Search<'_> {
    fn directory(&mut self, met: &Met, start: &PathBuf, glob: Option<&Pattern>) {
        let below = |entry: &Entry| {
            entry
                .path
                .strip_prefix(start)
                .unwrap_or(&entry.path)
                .to_owned()
        };
        for entry in met.entries.iter().filter(|entry| entry.kind == Kind::File) {
            if glob.is_some_and(|glob| !glob.matches(&below(entry))) {
                continue;
            }
            self.entry(met, entry);
            if self.is_over() {
                return;
            }
        }
    }

    fn entry(&mut self, met: &Met, entry: &Entry) {
        if self.root.rules.is_secret(&entry.path, Sort::File) {
            self.skipped.denied += 1;
            return;
        }
        // A file that went, or was swapped for something else, is no news.
        let Ok(Some((file, about))) = open_regular(&met.dir, &entry.name) else {
            self.skipped.unopened += 1;
            return;
        };
        if self.twins.check(self.root, &about, "").is_err() {
            self.skipped.denied += 1;
            return;
        }
        self.file(&entry.path, &file, about.len());
    }

    fn file(&mut self, path: &Path, file: &std::fs::File, size: u64) {
        if size > SEARCH_FILE_BYTES {
            self.skipped.large += 1;
            return;
        }
        self.skipped.bytes += size;
        if !self.found.search(path, file) {
            self.skipped.unopened += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.found.is_full() || self.skipped.bytes > SEARCH_BYTES
    }

    fn done(self) -> Searched {
        let Skipped {
            denied,
            large,
            unopened,
            is_cut_short,
            bytes,
        } = self.skipped;
        let mut notes = Vec::new();
        if self.found.is_full() {
            notes.push(format!(
                "only the first {} matches: narrow `pattern`, `path` or `glob`",
                self.found.count
            ));
        }
        if is_cut_short || bytes > SEARCH_BYTES {
            notes.push(format!("not everything was searched (at most {WALK_ENTRIES} entries): give a narrower `path`"));
        }
        for (count, why) in [
            (denied, "kept from you by a rule"),
            (large, "too large to be searched"),
            (unopened, "that could not be read"),
        ] {
            if count > 0 {
                notes.push(format!("left out {count} {why}"));
            }
        }
        Searched {
            match_count: self.found.count,
            files_searched: self.found.files,
            matches: self.found.lines,
            notes,
        }
    }
}
