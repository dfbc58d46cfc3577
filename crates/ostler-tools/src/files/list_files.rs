//! `list_files`: what is in a directory, or what matches a glob below it.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::limits::{LIST_ENTRIES, WALK_ENTRIES};
use super::pattern::Pattern;
use super::resolve::Kind;
use super::root::Root;
use super::rules::Access;
use super::walk::{Entry, Met, Walk, Walked};
use crate::ToolError;
use crate::names::quoted;

/// What to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFiles {
    /// The directory, relative to the workspace; the workspace itself if left out.
    path: Option<String>,
    /// A glob: then everything below the directory that matches is listed, at any depth. `*.rs` matches names anywhere,
    /// `src/**/*.rs` matches paths from the directory on. Without it, only the directory's own entries are listed.
    pattern: Option<String>,
    /// Whether to list names that begin with a dot.
    hidden: Option<bool>,
}

/// What there is.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    path: String,
    entries: Vec<Shown>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Whether a rule keeps it from being read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    denied: bool,
}

impl Answer for Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        for Shown {
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
            text.push_str(if *denied { " (kept from you)\n" } else { "\n" });
        }
        if self.entries.is_empty() {
            text.push_str("(nothing)\n");
        }
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }
}

/// Lists.
pub(crate) fn run(root: &Root, args: &ListFiles) -> Result<Listed, ToolError> {
    let given = root.given(args.path.as_deref().unwrap_or("."), Access::Read)?;
    let pattern = args
        .pattern
        .as_deref()
        .map(|text| Pattern::new(text, "pattern"))
        .transpose()?;
    let start = root.directory(&given)?;
    let real = start.real.clone();
    let walked = if args.hidden == Some(true) {
        Walked::Sources
    } else {
        Walked::Visible
    };
    let mut walk = Walk::new(root, start, walked);
    let mut entries = Vec::new();
    let mut is_full = false;
    for met in &mut walk {
        let meant = |entry: &&Entry| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(below(&entry.path, &real)))
        };
        for entry in met.entries.iter().filter(meant) {
            if entries.len() == LIST_ENTRIES {
                is_full = true;
                break;
            }
            entries.push(shown(root, &met, entry));
        }
        if is_full || pattern.is_none() {
            break;
        }
    }
    entries.sort_by(|one: &Shown, other| Path::new(&one.path).cmp(Path::new(&other.path)));
    let notes = notes(&walk, is_full);
    Ok(Listed {
        path: path_or_dot(&real),
        entries,
        notes,
    })
}

fn notes(walk: &Walk<'_>, is_full: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if is_full {
        notes.push(format!(
            "only the first {LIST_ENTRIES}: give a narrower `path` or `pattern`"
        ));
    }
    if walk.is_cut_short() {
        notes.push(format!(
            "not everything was looked at, only {WALK_ENTRIES} entries: give a narrower `path`"
        ));
    }
    if walk.hidden > 0 {
        notes.push(format!(
            "{} left out whose names begin with a dot: set `hidden` to see them",
            walk.hidden
        ));
    }
    if walk.ignored > 0 {
        notes.push(format!(
            "{} left out that git ignores: give such a directory as `path` to see into it",
            walk.ignored
        ));
    }
    if walk.unopened > 0 {
        notes.push(format!("{} directories could not be opened", walk.unopened));
    }
    notes
}

fn shown(root: &Root, met: &Met, entry: &Entry) -> Shown {
    let kind = match entry.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    };
    let denied = root.rules.is_secret(&entry.path, entry.kind.sort());
    let has_size = entry.kind == Kind::File && !denied;
    let about = has_size
        .then(|| met.dir.symlink_metadata(&entry.name).ok())
        .flatten();
    Shown {
        path: entry.path.to_string_lossy().into_owned(),
        kind,
        size: about.map(|about| about.len()),
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
