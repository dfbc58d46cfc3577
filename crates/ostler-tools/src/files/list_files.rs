//! `list_files`: lists a directory, or the paths below it that match a glob.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::limits::{LIST_ENTRIES, WALK_ENTRIES};
use super::pattern::Pattern;
use super::resolve::FileKind;
use super::root::Root;
use super::rules::Access;
use super::walk::{ListedDir, Walk, WalkEntry, WalkScope};
use crate::ToolError;
use crate::names::quoted;

/// Arguments of `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFiles {
    /// The directory, relative to the workspace; the workspace itself if omitted.
    path: Option<String>,
    /// A glob. With it, everything below the directory that matches is listed, at any depth. `*.rs`
    /// matches names anywhere, `src/**/*.rs` matches paths relative to the directory. Without it,
    /// only the directory's own entries are listed.
    pattern: Option<String>,
    /// Whether to list names that begin with a dot.
    hidden: Option<bool>,
}

/// Result of `list_files`.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    path: String,
    entries: Vec<ListingEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ListingEntry {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Whether a rule denies reading it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    denied: bool,
}

impl Render for Listing {
    fn text(&self) -> String {
        let mut text = String::new();
        for ListingEntry {
            path, kind, denied, ..
        } in &self.entries
        {
            text.push_str(&quoted(path));
            text.push_str(match *kind {
                "directory" => "/",
                "link" => " (link)",
                "other" => " (not a file)",
                _ => "",
            });
            text.push_str(if *denied { " (denied)\n" } else { "\n" });
        }
        if self.entries.is_empty() {
            text.push_str("(no entries)\n");
        }
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

/// Lists the entries.
pub(crate) fn run(root: &Root, args: &ListFiles) -> Result<Listing, ToolError> {
    let given = root.parse_path(args.path.as_deref().unwrap_or("."), Access::Read)?;
    let pattern = args
        .pattern
        .as_deref()
        .map(|text| Pattern::new(text, "pattern"))
        .transpose()?;
    let start = root.directory(&given)?;
    let real = start.real.clone();
    let scope = if args.hidden == Some(true) {
        WalkScope::Sources
    } else {
        WalkScope::Visible
    };
    let mut walk = Walk::new(root, start, scope);
    let mut entries = Vec::new();
    let mut is_full = false;
    for dir in &mut walk {
        let is_match = |entry: &&WalkEntry| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(below(&entry.path, &real)))
        };
        for entry in dir.entries.iter().filter(is_match) {
            if entries.len() == LIST_ENTRIES {
                is_full = true;
                break;
            }
            entries.push(listing_entry(root, &dir, entry));
        }
        if is_full || pattern.is_none() {
            break;
        }
    }
    entries.sort_by(|one: &ListingEntry, other| Path::new(&one.path).cmp(Path::new(&other.path)));
    let notes = notes(&walk, is_full);
    Ok(Listing {
        path: path_or_dot(&real),
        entries,
        notes,
    })
}

fn notes(walk: &Walk<'_>, is_full: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if is_full {
        notes.push(format!(
            "only the first {LIST_ENTRIES} entries: give a narrower `path` or `pattern`"
        ));
    }
    if walk.is_truncated() {
        notes.push(format!(
            "incomplete, only {WALK_ENTRIES} entries were examined: give a narrower `path`"
        ));
    }
    if walk.hidden > 0 {
        notes.push(format!(
            "{} omitted whose names begin with a dot: set `hidden` to see them",
            walk.hidden
        ));
    }
    if walk.ignored > 0 {
        notes.push(format!(
            "{} omitted because git ignores them: give an ignored directory as `path` to list it",
            walk.ignored
        ));
    }
    if walk.unopened > 0 {
        notes.push(format!("{} directories could not be opened", walk.unopened));
    }
    notes
}

fn listing_entry(root: &Root, dir: &ListedDir, entry: &WalkEntry) -> ListingEntry {
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    let denied = root.rules.is_secret(&entry.path, entry.kind.target_kind());
    let has_size = entry.kind == FileKind::File && !denied;
    let metadata = has_size
        .then(|| dir.dir.symlink_metadata(&entry.name).ok())
        .flatten();
    ListingEntry {
        path: entry.path.to_string_lossy().into_owned(),
        kind,
        size: metadata.map(|metadata| metadata.len()),
        denied,
    }
}

fn below<'e>(path: &'e Path, start: &PathBuf) -> &'e Path {
    path.strip_prefix(start).unwrap_or(path)
}

fn path_or_dot(path: &Path) -> String {
    if path.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        path.to_string_lossy().into_owned()
    }
}
