//! Workspace walk: visits directory by directory, each opened below the root, without following
//! links.

use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::limits::{GITIGNORE_BYTES, WALK_ENTRIES};
use super::regular_file::open_regular;
use super::resolve::FileKind;
use super::root::{Directory, Root};
use super::rules::TargetKind;
use crate::repository::directory::read_start;

/// Entries that a walk visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkScope {
    /// Everything, to check it against the rules.
    Everything,
    /// Everything except files that git ignores and git's own files.
    Sources,
    /// As `Sources`, without names that begin with a dot.
    Visible,
}

/// A directory entry.
#[derive(Debug)]
pub(super) struct WalkEntry {
    pub(super) name: OsString,
    /// Path relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
}

/// A directory and its entries.
#[derive(Debug)]
pub(super) struct ListedDir {
    pub(super) dir: Dir,
    /// Entries, sorted by name.
    pub(super) entries: Vec<WalkEntry>,
}

/// Iterator over the directories of a workspace. Yields a directory before its subdirectories.
#[derive(Debug)]
pub(super) struct Walk<'r> {
    root: &'r Root,
    scope: WalkScope,
    start: Option<Directory>,
    pending: Vec<(PathBuf, Option<Rc<IgnoreLevel>>)>,
    remaining: usize,
    /// Number of entries omitted because their names begin with a dot.
    pub(super) hidden: usize,
    /// Number of entries omitted because git ignores them.
    pub(super) ignored: usize,
    /// Number of directories that could not be opened.
    pub(super) unopened: usize,
}

/// The `.gitignore` of a directory, chained to those above it.
#[derive(Debug)]
struct IgnoreLevel {
    at: PathBuf,
    ignored: Gitignore,
    above: Option<Rc<IgnoreLevel>>,
}

impl<'r> Walk<'r> {
    /// Creates a walk that starts at a directory.
    pub(super) fn new(root: &'r Root, start: Directory, scope: WalkScope) -> Self {
        let above = if scope == WalkScope::Everything {
            None
        } else {
            ignore_levels_above(root, &start)
        };
        let pending = vec![(start.real.clone(), above)];
        let start = Some(start);
        Self {
            root,
            scope,
            start,
            pending,
            remaining: WALK_ENTRIES,
            hidden: 0,
            ignored: 0,
            unopened: 0,
        }
    }

    /// Returns true if the walk stopped at its limit.
    pub(super) fn is_truncated(&self) -> bool {
        self.remaining == 0
    }

    /// Opens the next directory. If its real path differs from the listed one, a link was put in
    /// its place.
    fn open(&mut self, path: &PathBuf) -> Option<Directory> {
        if let Some(start) = self.start.take() {
            return Some(start);
        }
        let opened = self
            .root
            .open_dir(path)
            .ok()
            .filter(|directory| directory.real == *path);
        self.unopened += usize::from(opened.is_none());
        opened
    }

    /// Returns true if the walk enters a directory. Git's own directory and denied ones are only
    /// entered to check the rules.
    fn enters(&self, entry: &WalkEntry) -> bool {
        let is_allowed = || {
            entry.name != ".git"
                && !self
                    .root
                    .rules
                    .is_secret(&entry.path, TargetKind::Directory)
        };
        entry.kind == FileKind::Directory && (self.scope == WalkScope::Everything || is_allowed())
    }

    fn entries(&mut self, directory: &Directory) -> Vec<WalkEntry> {
        let mut entries = Vec::new();
        let Ok(listed) = directory.dir.entries() else {
            self.unopened += 1;
            return entries;
        };
        for entry in listed.flatten() {
            if self.remaining == 0 {
                break;
            }
            self.remaining -= 1;
            let name = entry.file_name();
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            entries.push(WalkEntry {
                path: directory.real.join(&name),
                name,
                kind: FileKind::of(file_type),
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    fn remove_omitted(&mut self, entries: &mut Vec<WalkEntry>, level: Option<&Rc<IgnoreLevel>>) {
        if self.scope == WalkScope::Everything {
            return;
        }
        let (mut hidden, mut ignored) = (0, 0);
        entries.retain(|entry| {
            let is_hidden = self.scope == WalkScope::Visible
                && entry.name.as_encoded_bytes().first() == Some(&b'.');
            let is_ignored = !is_hidden && is_ignored(level, entry);
            hidden += usize::from(is_hidden);
            ignored += usize::from(is_ignored);
            !is_hidden && !is_ignored
        });
        self.hidden += hidden;
        self.ignored += ignored;
    }
}

impl Iterator for Walk<'_> {
    type Item = ListedDir;

    fn next(&mut self) -> Option<ListedDir> {
        while let Some((path, above)) = self.pending.pop() {
            if self.remaining == 0 {
                return None;
            }
            let Some(directory) = self.open(&path) else {
                continue;
            };
            let mut entries = self.entries(&directory);
            let level = if self.scope == WalkScope::Everything {
                None
            } else {
                level(&directory, above)
            };
            self.remove_omitted(&mut entries, level.as_ref());
            let below = entries.iter().rev().filter(|entry| self.enters(entry));
            let below: Vec<_> = below
                .map(|entry| (entry.path.clone(), level.clone()))
                .collect();
            self.pending.extend(below);
            return Some(ListedDir {
                dir: directory.dir,
                entries,
            });
        }
        None
    }
}

/// Returns the ignore levels of the directories above one, which also apply to it.
fn ignore_levels_above(root: &Root, directory: &Directory) -> Option<Rc<IgnoreLevel>> {
    let mut above = None;
    let mut ancestors: Vec<_> = directory.real.ancestors().skip(1).collect();
    ancestors.reverse();
    for path in ancestors {
        if let Ok(opened) = root.open_dir(path) {
            above = level(&opened, above);
        }
    }
    above
}

/// Returns the ignore level of a directory: its own if it has a `.gitignore`, otherwise the one
/// above.
fn level(directory: &Directory, above: Option<Rc<IgnoreLevel>>) -> Option<Rc<IgnoreLevel>> {
    let Some(text) = gitignore(&directory.dir) else {
        return above;
    };
    // The root is `.`, because paths are made relative before they are matched.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.lines() {
        // Lines that are not globs are ignored, as in git.
        if builder.add_line(None, line).is_err() {
            continue;
        }
    }
    match builder.build() {
        Ok(ignored) => Some(Rc::new(IgnoreLevel {
            at: directory.real.clone(),
            ignored,
            above,
        })),
        Err(_) => above,
    }
}

fn gitignore(dir: &Dir) -> Option<String> {
    let (file, _) = open_regular(dir, ".gitignore".as_ref()).ok()??;
    read_start(file, GITIGNORE_BYTES)
}

fn is_ignored(mut level: Option<&Rc<IgnoreLevel>>, entry: &WalkEntry) -> bool {
    while let Some(here) = level {
        if let Ok(path) = entry.path.strip_prefix(&here.at) {
            match here
                .ignored
                .matched(path, entry.kind == FileKind::Directory)
            {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        level = here.above.as_ref();
    }
    false
}
