//! Walking through a workspace, directory by directory, each opened below the root. Links are not followed.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::rc::Rc;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::limits::{GITIGNORE_BYTES, WALK_ENTRIES};
use super::regular::open_regular;
use super::resolve::Kind;
use super::root::{Directory, Root};
use super::rules::Sort;

/// What a walk looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// All there is, for the rules.
    Everything,
    /// What is neither ignored by git nor git's own.
    Sources,
    /// The same without names that begin with a dot.
    Visible,
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: OsString,
    /// Where it is, relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// A directory that was come to.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) dir: Dir,
    /// What is in it, sorted by name.
    pub(super) entries: Vec<Entry>,
}

/// The way through a workspace. Gives one directory after the other, the files of each before the directories in it.
#[derive(Debug)]
pub(super) struct Walk<'r> {
    root: &'r Root,
    walked: Walked,
    start: Option<Directory>,
    ahead: Vec<(PathBuf, Option<Rc<Level>>)>,
    left: usize,
    /// How many entries were left out because their names begin with a dot.
    pub(super) hidden: usize,
    /// How many entries were left out because git ignores them.
    pub(super) ignored: usize,
    /// How many directories could not be opened.
    pub(super) unopened: usize,
}

/// The `.gitignore` of a directory, and those above it.
#[derive(Debug)]
struct Level {
    at: PathBuf,
    ignored: Gitignore,
    above: Option<Rc<Level>>,
}

impl<'r> Walk<'r> {
    /// A walk from a directory down.
    pub(super) fn new(root: &'r Root, start: Directory, walked: Walked) -> Self {
        let above = if walked == Walked::Everything {
            None
        } else {
            levels_above(root, &start)
        };
        let ahead = vec![(start.real.clone(), above)];
        let start = Some(start);
        Self {
            root,
            walked,
            start,
            ahead,
            left: WALK_ENTRIES,
            hidden: 0,
            ignored: 0,
            unopened: 0,
        }
    }

    /// Whether there was more than a walk looks at.
    pub(super) fn is_cut_short(&self) -> bool {
        self.left == 0
    }

    /// Opens the next directory. If its real path is not the one it was met at, a link was put in its place.
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

    /// Neither git's own directory nor one that is kept from a model is looked into for it.
    fn goes_into(&self, entry: &Entry) -> bool {
        let is_free =
            || entry.name != ".git" && !self.root.rules.is_secret(&entry.path, Sort::Directory);
        entry.kind == Kind::Directory && (self.walked == Walked::Everything || is_free())
    }

    fn entries(&mut self, directory: &Directory) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Ok(listed) = directory.dir.entries() else {
            self.unopened += 1;
            return entries;
        };
        for entry in listed.flatten() {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let name = entry.file_name();
            let Ok(sort) = entry.file_type() else {
                continue;
            };
            entries.push(Entry {
                path: directory.real.join(&name),
                name,
                kind: Kind::of(sort),
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    fn leave_out(&mut self, entries: &mut Vec<Entry>, level: Option<&Rc<Level>>) {
        if self.walked == Walked::Everything {
            return;
        }
        let (mut hidden, mut ignored) = (0, 0);
        entries.retain(|entry| {
            let is_hidden = self.walked == Walked::Visible
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
    type Item = Met;

    fn next(&mut self) -> Option<Met> {
        while let Some((path, above)) = self.ahead.pop() {
            if self.left == 0 {
                return None;
            }
            let Some(directory) = self.open(&path) else {
                continue;
            };
            let mut entries = self.entries(&directory);
            let level = if self.walked == Walked::Everything {
                None
            } else {
                level(&directory, above)
            };
            self.leave_out(&mut entries, level.as_ref());
            let below = entries.iter().rev().filter(|entry| self.goes_into(entry));
            let below: Vec<_> = below
                .map(|entry| (entry.path.clone(), level.clone()))
                .collect();
            self.ahead.extend(below);
            return Some(Met {
                dir: directory.dir,
                entries,
            });
        }
        None
    }
}

/// The levels of the directories above one, which hold for it too.
fn levels_above(root: &Root, directory: &Directory) -> Option<Rc<Level>> {
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

/// The level of a directory: its own if it has a `.gitignore`, else the one above.
fn level(directory: &Directory, above: Option<Rc<Level>>) -> Option<Rc<Level>> {
    let Some(text) = gitignore(&directory.dir) else {
        return above;
    };
    // The root is `.`, since the paths are made relative before they are asked about.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.lines() {
        // A line that is no glob is passed over, as git does.
        if builder.add_line(None, line).is_err() {
            continue;
        }
    }
    match builder.build() {
        Ok(ignored) => Some(Rc::new(Level {
            at: directory.real.clone(),
            ignored,
            above,
        })),
        Err(_) => above,
    }
}

fn gitignore(dir: &Dir) -> Option<String> {
    let (file, _) = open_regular(dir, ".gitignore".as_ref()).ok()??;
    let mut bytes = Vec::new();
    file.take(GITIGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_ignored(mut level: Option<&Rc<Level>>, entry: &Entry) -> bool {
    while let Some(here) = level {
        if let Ok(path) = entry.path.strip_prefix(&here.at) {
            match here.ignored.matched(path, entry.kind == Kind::Directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        level = here.above.as_ref();
    }
    false
}
