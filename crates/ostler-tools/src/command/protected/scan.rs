//! Scan for repositories in a workspace, wherever they are and whatever their names: recognized by
//! the names in each directory.
//!
//! The scan reads no files. It lists every directory once before and once after a command.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, OpenOptions};

use super::{GIT, OPERATION_STATE, config, discard};
use crate::names::quoted;
use crate::repository::directory::{exists, is_git_directory, parse_git_file, parse_path_file};
use crate::tree::{EntryKind, VisitedDir, Visitor, open_below, walk};

/// Maximum number of entries in a workspace; no command runs where there are more.
pub(super) const MAX_ENTRIES: usize = 3_000_000;

/// Maximum size of a new repository's configuration that is examined, in bytes.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Repositories of a workspace before a command runs.
#[derive(Debug)]
pub(super) struct RepositoriesBefore {
    /// Directories that git treats as git directories.
    pub(super) git_directories: Vec<PathBuf>,
    /// Files and links named `.git`.
    pub(super) git_files: Vec<PathBuf>,
    /// Whether the whole workspace was scanned.
    pub(super) is_complete: bool,
    directories: HashSet<u64>,
    unopened: HashSet<PathBuf>,
    hasher: RandomState,
}

impl RepositoriesBefore {
    /// Scans all directories of a workspace.
    pub(super) fn of(root: &Dir) -> io::Result<Self> {
        let mut before = Self {
            git_directories: Vec::new(),
            git_files: Vec::new(),
            is_complete: false,
            directories: HashSet::new(),
            unopened: HashSet::new(),
            hasher: RandomState::new(),
        };
        before.is_complete = walk(root, MAX_ENTRIES, &mut before)?.is_complete;
        Ok(before)
    }

    fn has_directory(&self, path: &Path) -> bool {
        self.directories.contains(&self.hasher.hash_one(path))
    }
}

impl Visitor for RepositoriesBefore {
    fn visit(&mut self, visited: &mut VisitedDir<'_>) {
        self.directories.insert(self.hasher.hash_one(visited.path));
        if is_git(visited) {
            self.git_directories.push(visited.path.to_owned());
            skip_objects(&mut visited.subdirs);
            return;
        }
        let named = visited
            .entries
            .iter()
            .filter(|entry| is_dot_git(&entry.name) && entry.kind != EntryKind::Directory);
        self.git_files
            .extend(named.map(|entry| visited.path.join(&entry.name)));
    }

    fn unopened(&mut self, path: &Path) {
        self.unopened.insert(path.to_owned());
    }
}

/// Repositories found after a command, compared with those before it.
pub(super) struct RepositoriesAfter<'b> {
    before: &'b RepositoriesBefore,
    real_root: &'b Path,
    /// Existing git directories, each already checked.
    git_directories: Vec<PathBuf>,
    /// New files named `.git`, by their directories.
    git_files: Vec<(PathBuf, OsString, EntryKind)>,
    pub(super) put_back: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl<'b> RepositoriesAfter<'b> {
    /// Creates an empty scan; `real_root` is the real path of the workspace.
    pub(super) fn after(before: &'b RepositoriesBefore, real_root: &'b Path) -> Self {
        Self {
            before,
            real_root,
            git_directories: Vec::new(),
            git_files: Vec::new(),
            put_back: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn record(&mut self, path: &Path, done: io::Result<bool>) {
        let display = quoted(&path.to_string_lossy());
        match done {
            Ok(true) => self.put_back.push(display),
            Ok(false) => {}
            Err(error) => self.failed.push(format!("{display}: {error}")),
        }
    }

    /// Removes the parts of a new git directory that git would run. A directory that is not a
    /// regular repository loses its `HEAD`.
    fn new_git_directory(&mut self, dir: &Dir, path: &Path) {
        let is_named = path.file_name().is_some_and(is_dot_git);
        // A directory of sources must not become a repository, nor one whose settings are
        // elsewhere.
        let was_plain_directory = !is_named && self.before.has_directory(path);
        if was_plain_directory || has_other_settings(dir, self.real_root, path) {
            return self.record(&path.join("HEAD"), remove(dir, "HEAD"));
        }
        self.record(
            &path.join("hooks"),
            if has_hooks(dir) {
                remove(dir, "hooks")
            } else {
                Ok(false)
            },
        );
        for part in OPERATION_STATE {
            self.record(&path.join(part), remove(dir, part));
        }
        for part in ["config", "config.worktree"] {
            self.record(&path.join(part), remove_harmful_settings(dir, part));
        }
    }

    /// Removes new files named `.git`, unless they point to a checked git directory of the
    /// workspace.
    pub(super) fn check_git_files(&mut self, root: &Dir) {
        for (path, name, kind) in std::mem::take(&mut self.git_files) {
            let dir = match if path.as_os_str().is_empty() {
                root.try_clone()
            } else {
                root.open_dir(&path)
            } {
                Ok(dir) => dir,
                Err(error) => {
                    self.record(&path.join(&name), Err(error));
                    continue;
                }
            };
            let leads_inside = || {
                let named = parse_git_file(&mut dir.open(&name).ok()?)?;
                let real = self.real_root.join(&path).join(named).canonicalize().ok()?;
                let inside = real.strip_prefix(self.real_root).ok()?;
                self.git_directories
                    .iter()
                    .any(|known| known == inside)
                    .then_some(())
            };
            if kind != EntryKind::File || leads_inside().is_none() {
                self.record(&path.join(&name), remove(&dir, &name.to_string_lossy()));
            }
        }
    }
}

impl Visitor for RepositoriesAfter<'_> {
    fn visit(&mut self, visited: &mut VisitedDir<'_>) {
        let path = visited.path;
        if is_git(visited) {
            if !self
                .before
                .git_directories
                .iter()
                .any(|known| known == path)
                && path != Path::new(GIT)
            {
                self.new_git_directory(visited.dir, path);
            }
            if is_git_directory(visited.dir, Path::new("")) {
                self.git_directories.push(path.to_owned());
                drop_removed(visited);
                return skip_objects(&mut visited.subdirs);
            }
        } else if path.file_name().is_some_and(is_dot_git) && path != Path::new(GIT) {
            // Incomplete: `git init` would adopt its content.
            self.new_git_directory(visited.dir, path);
            drop_removed(visited);
        }
        for entry in visited
            .entries
            .iter()
            .filter(|entry| is_dot_git(&entry.name) && entry.kind != EntryKind::Directory)
        {
            let real_root = path.join(&entry.name);
            if real_root != Path::new(GIT) && !self.before.git_files.contains(&real_root) {
                self.git_files
                    .push((path.to_owned(), entry.name.clone(), entry.kind));
            }
        }
    }

    fn open(&mut self, dir: &Dir, name: &OsStr) -> io::Result<Dir> {
        open_below(dir, name).or_else(|_| {
            // A command can close a directory that git can still enter.
            discard::restore_access(dir, Path::new(name));
            open_below(dir, name)
        })
    }

    fn unopened(&mut self, path: &Path) {
        if !self.before.unopened.contains(path) {
            let display = quoted(&path.to_string_lossy());
            self.failed.push(format!(
                "{display}: it could not be opened to search for repositories"
            ));
        }
    }
}

/// Returns true for a git directory. Nearly always the names alone show that it is not one.
fn is_git(visited: &VisitedDir<'_>) -> bool {
    visited
        .entries
        .iter()
        .any(|entry| entry.name.eq_ignore_ascii_case("HEAD"))
        && is_git_directory(visited.dir, Path::new(""))
}

/// Drops subdirectories that were just removed.
fn drop_removed(visited: &mut VisitedDir<'_>) {
    let dir = visited.dir;
    visited
        .subdirs
        .retain(|name| dir.symlink_metadata(name).is_ok());
}

/// Skips objects and references, which are many and never git directories; anything else in one
/// could be another.
fn skip_objects(subdirs: &mut Vec<OsString>) {
    subdirs.retain(|name| name != "objects" && name != "refs" && name != "logs");
}

fn is_dot_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(GIT)
}

/// Returns true if a git directory takes its settings from elsewhere. A regular worktree is two
/// levels below them.
fn has_other_settings(dir: &Dir, real_root: &Path, path: &Path) -> bool {
    if !exists(dir, Path::new("commondir")) {
        return false;
    }
    let is_worktree = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == "worktrees");
    let is_file = dir
        .symlink_metadata("commondir")
        .is_ok_and(|metadata| metadata.is_file());
    let common_path = is_file
        .then(|| dir.open("commondir").ok())
        .flatten()
        .and_then(|mut file| parse_path_file(&mut file));
    // Git accepts less there than a complete git directory, but an incomplete one would not be
    // checked.
    let common = path
        .parent()
        .and_then(Path::parent)
        .map(|common| real_root.join(common));
    let common =
        common.and_then(|common| Dir::open_ambient_dir(common, cap_std::ambient_authority()).ok());
    let is_common = common.is_some_and(|common| is_git_directory(&common, Path::new("")));
    !(is_worktree
        && is_common
        && common_path.is_some_and(|common_path| common_path == Path::new("../..")))
}

/// Returns true if there is a hook that git would run; git's samples are not.
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

/// Removes settings that make git run something from a configuration file. Returns true if there
/// were any.
fn remove_harmful_settings(dir: &Dir, name: &str) -> io::Result<bool> {
    let metadata = match dir.symlink_metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if super::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.len() > MAX_CONFIG_BYTES {
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

/// Removes whatever has this name. Returns true if it existed.
fn remove(dir: &Dir, name: &str) -> io::Result<bool> {
    let moved = discard::move_away(dir, Path::new(name))?;
    if let Some(moved) = &moved {
        discard::delete(dir, moved);
    }
    Ok(moved.is_some())
}
