//! Repositories in a workspace, wherever they are and whatever they are called: found by the names in each directory.
//!
//! The scan reads no files. It looks at the entries of every directory once before and once after a command.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, OpenOptions};

use super::{GIT, NOT_BY_GIT, config, discard};
use crate::names::quoted;
use crate::repository::directory::{exists, held_by, is_git_directory, named_by};
use crate::tree::{EntryKind, Listed, Visitor, open_below, walk};

/// How many entries a workspace may have; no command runs where there are more.
pub(super) const MOST_ENTRIES: usize = 3_000_000;

/// The largest configuration of a new repository that is looked at, in bytes.
const LONGEST_CONFIG: u64 = 256 * 1024;

/// The repositories of a workspace before a command runs.
#[derive(Debug)]
pub(super) struct Before {
    /// Directories that git takes for git directories.
    pub(super) git_directories: Vec<PathBuf>,
    /// Files and links named `.git`.
    pub(super) git_files: Vec<PathBuf>,
    /// Whether all of the workspace was seen.
    pub(super) is_whole: bool,
    directories: HashSet<u64>,
    unopened: HashSet<PathBuf>,
    hasher: RandomState,
}

impl Before {
    /// Looks at all directories of a workspace.
    pub(super) fn of(root: &Dir) -> io::Result<Self> {
        let mut before = Self {
            git_directories: Vec::new(),
            git_files: Vec::new(),
            is_whole: false,
            directories: HashSet::new(),
            unopened: HashSet::new(),
            hasher: RandomState::new(),
        };
        before.is_whole = walk(root, MOST_ENTRIES, &mut before)?.is_whole;
        Ok(before)
    }

    fn has_directory(&self, path: &Path) -> bool {
        self.directories.contains(&self.hasher.hash_one(path))
    }
}

impl Visitor for Before {
    fn visit(&mut self, listed: &mut Listed<'_>) {
        self.directories.insert(self.hasher.hash_one(listed.path));
        if is_git(listed) {
            self.git_directories.push(listed.path.to_owned());
            enter_git(&mut listed.below);
            return;
        }
        let named = listed
            .entries
            .iter()
            .filter(|entry| is_dot_git(&entry.name) && entry.kind != EntryKind::Directory);
        self.git_files
            .extend(named.map(|entry| listed.path.join(&entry.name)));
    }

    fn unopened(&mut self, path: &Path) {
        self.unopened.insert(path.to_owned());
    }
}

/// What is found after a command, compared with what was there before.
pub(super) struct Seen<'b> {
    before: &'b Before,
    at: &'b Path,
    /// Git directories that are there now, each looked after.
    git_directories: Vec<PathBuf>,
    /// New files named `.git`, by their directories.
    git_files: Vec<(PathBuf, OsString, EntryKind)>,
    pub(super) put_back: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl<'b> Seen<'b> {
    /// Nothing yet; `at` is the real path of the workspace.
    pub(super) fn after(before: &'b Before, at: &'b Path) -> Self {
        Self {
            before,
            at,
            git_directories: Vec::new(),
            git_files: Vec::new(),
            put_back: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn note(&mut self, path: &Path, done: io::Result<bool>) {
        let shown = quoted(&path.to_string_lossy());
        match done {
            Ok(true) => self.put_back.push(shown),
            Ok(false) => {}
            Err(error) => self.failed.push(format!("{shown}: {error}")),
        }
    }

    /// Takes from a new git directory what git would run, or takes it for none at all if it is not an honest one.
    fn new_git_directory(&mut self, dir: &Dir, path: &Path) {
        let is_named = path.file_name().is_some_and(is_dot_git);
        // A directory of sources does not become a repository, nor one whose settings lie elsewhere.
        let is_taken_over = !is_named && self.before.has_directory(path);
        if is_taken_over || has_other_settings(dir, (self.at, path)) {
            return self.note(&path.join("HEAD"), remove(dir, "HEAD"));
        }
        self.note(
            &path.join("hooks"),
            if has_hooks(dir) {
                remove(dir, "hooks")
            } else {
                Ok(false)
            },
        );
        for part in NOT_BY_GIT {
            self.note(&path.join(part), remove(dir, part));
        }
        for part in ["config", "config.worktree"] {
            self.note(&path.join(part), keep_harmless(dir, part));
        }
    }

    /// A new file named `.git` stays if it leads to a git directory of the workspace that was looked after: not to one in a place
    /// where nobody looks.
    pub(super) fn check_git_files(&mut self, root: &Dir) {
        for (path, name, kind) in std::mem::take(&mut self.git_files) {
            let dir = match if path.as_os_str().is_empty() {
                root.try_clone()
            } else {
                root.open_dir(&path)
            } {
                Ok(dir) => dir,
                Err(error) => {
                    self.note(&path.join(&name), Err(error));
                    continue;
                }
            };
            let leads_inside = || {
                let named = named_by(&mut dir.open(&name).ok()?)?;
                let real = self.at.join(&path).join(named).canonicalize().ok()?;
                let inside = real.strip_prefix(self.at).ok()?;
                self.git_directories
                    .iter()
                    .any(|known| known == inside)
                    .then_some(())
            };
            if kind != EntryKind::File || leads_inside().is_none() {
                self.note(&path.join(&name), remove(&dir, &name.to_string_lossy()));
            }
        }
    }
}

impl Visitor for Seen<'_> {
    fn visit(&mut self, listed: &mut Listed<'_>) {
        let path = listed.path;
        if is_git(listed) {
            if !self
                .before
                .git_directories
                .iter()
                .any(|known| known == path)
                && path != Path::new(GIT)
            {
                self.new_git_directory(listed.dir, path);
            }
            if is_git_directory(listed.dir, Path::new("")) {
                self.git_directories.push(path.to_owned());
                keep_existing(listed);
                return enter_git(&mut listed.below);
            }
        } else if path.file_name().is_some_and(is_dot_git) && path != Path::new(GIT) {
            // One that is not complete yet: `git init` would take what is in it.
            self.new_git_directory(listed.dir, path);
            keep_existing(listed);
        }
        for entry in listed
            .entries
            .iter()
            .filter(|entry| is_dot_git(&entry.name) && entry.kind != EntryKind::Directory)
        {
            let at = path.join(&entry.name);
            if at != Path::new(GIT) && !self.before.git_files.contains(&at) {
                self.git_files
                    .push((path.to_owned(), entry.name.clone(), entry.kind));
            }
        }
    }

    fn open(&mut self, dir: &Dir, name: &OsStr) -> io::Result<Dir> {
        open_below(dir, name).or_else(|_| {
            // A command can shut a directory that git still gets into.
            discard::open_up(dir, Path::new(name));
            open_below(dir, name)
        })
    }

    fn unopened(&mut self, path: &Path) {
        if !self.before.unopened.contains(path) {
            let shown = quoted(&path.to_string_lossy());
            self.failed.push(format!(
                "{shown}: it could not be opened to look for repositories"
            ));
        }
    }
}

/// Whether a directory is a git directory. Nearly always its names alone say that it is not.
fn is_git(listed: &Listed<'_>) -> bool {
    listed
        .entries
        .iter()
        .any(|entry| entry.name.eq_ignore_ascii_case("HEAD"))
        && is_git_directory(listed.dir, Path::new(""))
}

/// Leaves out what was just removed.
fn keep_existing(listed: &mut Listed<'_>) {
    let dir = listed.dir;
    listed
        .below
        .retain(|name| dir.symlink_metadata(name).is_ok());
}

/// Objects and references are many, and are no git directories; everything else in one could be another.
fn enter_git(below: &mut Vec<OsString>) {
    below.retain(|name| name != "objects" && name != "refs" && name != "logs");
}

fn is_dot_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(GIT)
}

/// Whether a git directory takes its settings from elsewhere. A worktree of git's own lies two levels below them.
fn has_other_settings(dir: &Dir, (at, path): (&Path, &Path)) -> bool {
    if !exists(dir, Path::new("commondir")) {
        return false;
    }
    let is_worktree = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == "worktrees");
    let is_file = dir
        .symlink_metadata("commondir")
        .is_ok_and(|about| about.is_file());
    let held = is_file
        .then(|| dir.open("commondir").ok())
        .flatten()
        .and_then(|mut file| held_by(&mut file));
    // Git is content with less there than makes a git directory; such a one is not looked after.
    let common = path
        .parent()
        .and_then(Path::parent)
        .map(|common| at.join(common));
    let common =
        common.and_then(|common| Dir::open_ambient_dir(common, cap_std::ambient_authority()).ok());
    let is_common = common.is_some_and(|common| is_git_directory(&common, Path::new("")));
    !(is_worktree && is_common && held.is_some_and(|held| held == Path::new("../..")))
}

/// Whether there is a hook that git would run; git's own examples are none.
fn has_hooks(dir: &Dir) -> bool {
    match dir
        .open_dir_nofollow("hooks")
        .and_then(|hooks| hooks.entries())
    {
        Ok(entries) => {
            let is_example = |name: OsString| name.as_encoded_bytes().ends_with(b".sample");
            entries
                .into_iter()
                .any(|entry| entry.map_or(true, |entry| !is_example(entry.file_name())))
        }
        Err(_) => exists(dir, Path::new("hooks")),
    }
}

/// Leaves in a configuration file what does not have git run anything. True if something was taken out.
fn keep_harmless(dir: &Dir, name: &str) -> io::Result<bool> {
    let about = match dir.symlink_metadata(name) {
        Ok(about) => about,
        Err(error) if super::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    if !about.is_file() || about.len() > LONGEST_CONFIG {
        return remove(dir, name);
    }
    let mut text = String::new();
    if dir.open(name)?.read_to_string(&mut text).is_err() {
        return remove(dir, name);
    }
    let Some(harmless) = config::harmless(&text) else {
        return Ok(false);
    };
    remove(dir, name)?;
    let mut file = dir.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(harmless.as_bytes())?;
    Ok(true)
}

/// Removes what is at a name, whatever it is. True if there was something.
fn remove(dir: &Dir, name: &str) -> io::Result<bool> {
    let moved = discard::move_away(dir, Path::new(name))?;
    if let Some(moved) = &moved {
        discard::delete(dir, moved);
    }
    Ok(moved.is_some())
}
