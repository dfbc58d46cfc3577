//! Files through which a command could act later, outside of its confinement: they are as before when it has ended.
//!
//! A command may write anywhere in the workspace, and the kernel has no way to take a part of a directory out again. So what
//! would widen the policy of the next command, or have git run a program for the user, is remembered and put back.

mod config;
mod discard;
mod entries;
mod gitlinks;
mod scan;

pub use self::discard::remove_tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};

use self::entries::{Entries, Entry, Trouble, collect, is_absent};
use self::scan::{Before, Seen};
use crate::names::quoted;
use crate::repository::UserGitConfig;
use crate::repository::steering::{HOOK_NAMES, Look, Reason};
use crate::{Code, ToolError};

/// How much is remembered at most; nothing runs where there is more.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Git's own directory: of what is in it, only what is listed is ours to touch.
const GIT: &str = ".git";

/// Git's settings, of which git itself may write a little: `git push -u` does.
const CONFIG: &str = ".git/config";

/// Ostler's policy and settings, git's directory, and where git finds its settings. What is in another comes after it.
const ALWAYS: [&str; 3] = [".ostler", "ostler.toml", GIT];

/// Of a git directory: where it finds its settings, and the programs it runs by itself.
const OF_GIT: [&str; 4] = ["commondir", "hooks", "config", "config.worktree"];

/// What git is in the middle of: `git rebase --continue` runs programs that are named there.
const NOT_BY_GIT: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// The protected files of a workspace as they were.
#[derive(Debug)]
pub struct Snapshot {
    at: PathBuf,
    root: Dir,
    is_git: bool,
    protected: Vec<Protected>,
    seen: Before,
    index: gitlinks::Before,
}

/// A protected path and what was there.
#[derive(Debug)]
struct Protected {
    path: PathBuf,
    extent: Extent,
    /// The nested git directory that it belongs to; if that is gone, there is nothing to protect.
    of: Option<PathBuf>,
    before: Entries,
}

/// How much of a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Everything below it.
    Tree,
    /// Only itself: that it is a directory, and its mode.
    Itself,
}

/// What had to be done so that protected files are as before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// What was changed, made or removed, and is as before again; and what a new repository held that git would have run.
    pub put_back: Vec<String>,
    /// What is not as before, and why.
    pub failed: Vec<String>,
}

impl Snapshot {
    /// Remembers what must not change while `command` runs.
    ///
    /// # Errors
    /// When it cannot be read, or is too large to be remembered.
    pub fn take(root: &Path, command: &str) -> Result<Self, ToolError> {
        Self::take_with(root, command, &UserGitConfig::default())
    }

    /// The same, where the user's own git settings count, too.
    ///
    /// # Errors
    /// As [`Snapshot::take`].
    pub fn take_with(
        root: &Path,
        command: &str,
        user_git: &UserGitConfig,
    ) -> Result<Self, ToolError> {
        let io = |error: io::Error| {
            ToolError::new(Code::Io, format!("the workspace cannot be read: {error}"))
        };
        let at = root.canonicalize().map_err(io)?;
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).map_err(io)?;
        let is_git = command == "git";
        let seen = Before::of(&root).map_err(io)?;
        if !seen.is_whole {
            return Err(too_large("the workspace"));
        }
        let index = gitlinks::Before::of(&root).ok_or_else(|| too_large(".git/index"))?;
        let mut snapshot = Self {
            at,
            root,
            is_git,
            protected: Vec::new(),
            seen,
            index,
        };
        snapshot.protect_own()?;
        snapshot.protect_nested()?;
        snapshot.protect_steered(user_git)?;
        let bytes: usize = snapshot
            .protected
            .iter()
            .flat_map(|known| known.before.values())
            .map(Entry::size)
            .sum();
        if bytes > MOST_BYTES {
            return Err(too_large("the repositories of the workspace"));
        }
        Ok(snapshot)
    }

    fn protect_own(&mut self) -> Result<(), ToolError> {
        for path in ALWAYS {
            let extent = if path == GIT {
                Extent::Itself
            } else {
                Extent::Tree
            };
            self.protect(Path::new(path), extent, None)?;
        }
        self.protect_parts(Path::new(GIT), None)
    }

    /// The parts of a git directory through which it makes git run programs.
    fn protect_parts(&mut self, git: &Path, of: Option<&Path>) -> Result<(), ToolError> {
        let parts = OF_GIT
            .iter()
            .chain(if self.is_git { &[] } else { &NOT_BY_GIT[..] });
        parts
            .into_iter()
            .try_for_each(|part| self.protect(&git.join(part), Extent::Tree, of))
    }

    /// Repositories other than that of the workspace: inside of it, and the modules and worktrees of all.
    fn protect_nested(&mut self) -> Result<(), ToolError> {
        let (directories, files) = (
            self.seen.git_directories.clone(),
            self.seen.git_files.clone(),
        );
        for git in directories.iter().filter(|git| **git != Path::new(GIT)) {
            self.protect(git, Extent::Itself, Some(git))?;
            self.protect_parts(git, Some(git))?;
            self.protect(&git.join("gitdir"), Extent::Tree, Some(git))?;
        }
        for file in files.iter().filter(|file| **file != Path::new(GIT)) {
            let of = file.parent().filter(|above| !above.as_os_str().is_empty());
            self.protect(file, Extent::Tree, of)?;
        }
        Ok(())
    }

    /// What the settings of these repositories, and of those above, lead to in the workspace.
    fn protect_steered(&mut self, user_git: &UserGitConfig) -> Result<(), ToolError> {
        let at = self.at.clone();
        let mut look = Look::new(&at, user_git);
        at.ancestors().for_each(|top| look.working_tree(top));
        for git in &self.seen.git_directories {
            let top = if git.file_name().is_some_and(|name| name == GIT) {
                git.parent()
            } else {
                None
            };
            look.git_directory(&at.join(git), &at.join(top.unwrap_or(git)));
        }
        for file in &self.seen.git_files {
            look.working_tree(&at.join(file.parent().unwrap_or(Path::new(""))));
        }
        for (path, reason) in look.found() {
            let is_known = self
                .protected
                .iter()
                .any(|known| known.extent == Extent::Tree && path.starts_with(&known.path));
            // What lies behind a link is protected where it is, and the link as a link.
            if is_known || self.leads_through_a_link(&path) {
                continue;
            }
            match self.protect(&path, Extent::Tree, None) {
                Err(error) if error.code == Code::TooLarge && reason == Reason::Hooks => {
                    HOOK_NAMES
                        .iter()
                        .try_for_each(|name| self.protect(&path.join(name), Extent::Tree, None))?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn leads_through_a_link(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| {
            self.root
                .symlink_metadata(above)
                .is_ok_and(|meta| meta.is_symlink())
        })
    }

    fn protect(&mut self, path: &Path, extent: Extent, of: Option<&Path>) -> Result<(), ToolError> {
        let before = collect(&self.root, path, extent).map_err(|trouble| match trouble {
            Trouble::Io(error) => ToolError::new(
                Code::Io,
                format!("{} cannot be read: {error}", path.display()),
            ),
            Trouble::TooMuch => too_large(&path.display().to_string()),
        })?;
        self.protected.push(Protected {
            path: path.to_owned(),
            extent,
            of: of.map(Path::to_owned),
            before,
        });
        Ok(())
    }

    /// Puts back what was changed, made or removed, and names it. Everything that could change it again must have ended.
    #[must_use]
    pub fn restore(&self) -> Restored {
        let mut restored = Restored::default();
        discard::open_up_root(&self.at, &self.root);
        for known in &self.protected {
            self.restore_one(known, &mut restored);
        }
        self.look_for_new(&mut restored);
        self.restore_index(&mut restored);
        restored.put_back.sort();
        restored.put_back.dedup();
        restored
    }

    fn restore_one(&self, known: &Protected, restored: &mut Restored) {
        let Protected {
            path,
            extent,
            of,
            before,
        } = known;
        if of.as_ref().is_some_and(|of| !self.is_there(of)) {
            return;
        }
        let in_the_way = if of.is_none() {
            self.clear_the_way(path, !before.is_empty())
        } else {
            Ok(None)
        };
        match in_the_way {
            Ok(Some(moved)) => restored.put_back.push(quoted(&moved.to_string_lossy())),
            Ok(None) => {}
            Err(error) => return restored.failed.push(format!("{}: {error}", path.display())),
        }
        let after = self.now(path, *extent);
        if after
            .as_ref()
            .is_some_and(|after| after == before || self.is_fine(path, before, after))
        {
            return;
        }
        match &after {
            Some(after) => restored.put_back.extend(differences(before, after)),
            None => restored.put_back.push(quoted(&path.to_string_lossy())),
        }
        match self.put_back(known) {
            Ok(()) if self.now(path, *extent).as_ref() == Some(before) => {}
            Ok(()) => restored
                .failed
                .push(format!("{}: it is not as before", path.display())),
            Err(error) => restored.failed.push(format!("{}: {error}", path.display())),
        }
    }

    /// Whether there is still something at a path, reached without links.
    fn is_there(&self, path: &Path) -> bool {
        let is_directory = |above: &Path| {
            self.root
                .symlink_metadata(above)
                .is_ok_and(|meta| meta.is_dir())
        };
        path.ancestors()
            .skip(1)
            .filter(|above| !above.as_os_str().is_empty())
            .all(is_directory)
            && self.root.symlink_metadata(path).is_ok()
    }

    /// Makes the directories above a path real ones again, where something has to be put into them. Names what was in the way.
    fn clear_the_way(&self, path: &Path, is_wanted: bool) -> io::Result<Option<PathBuf>> {
        let mut above: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|above| !above.as_os_str().is_empty())
            .collect();
        above.reverse();
        let mut moved = None;
        for directory in above
            .into_iter()
            .filter(|directory| *directory != Path::new(GIT))
        {
            match self.root.symlink_metadata(directory) {
                Ok(meta) if meta.is_dir() => continue,
                Ok(_) => {
                    if let Some(discarded) = discard::move_away(&self.root, directory)? {
                        discard::delete(&self.root, &discarded);
                    }
                    moved = Some(directory.to_owned());
                }
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error),
            }
            if !is_wanted {
                break;
            }
            self.root.create_dir(directory)?;
        }
        Ok(moved)
    }

    /// Looks for repositories that were not there before.
    fn look_for_new(&self, restored: &mut Restored) {
        let mut seen = Seen::after(&self.seen, &self.at);
        match crate::tree::walk(&self.root, scan::MOST_ENTRIES, &mut seen) {
            Ok(walked) if walked.is_whole => {}
            Ok(_) => seen.failed.push(
                "the workspace became too large to be checked for new repositories".to_owned(),
            ),
            Err(error) => seen.failed.push(format!(
                "the workspace could not be checked for new repositories: {error}"
            )),
        }
        seen.check_git_files(&self.root);
        restored.put_back.append(&mut seen.put_back);
        restored.failed.append(&mut seen.failed);
    }

    /// A nested repository in the index makes `git status` look into it, and follow its settings.
    fn restore_index(&self, restored: &mut Restored) {
        let before = &self.index;
        if !before.has_new_links(&self.root) {
            return;
        }
        let index = PathBuf::from(".git/index");
        let entries = before.entries();
        let known = Protected {
            path: index.clone(),
            extent: Extent::Tree,
            of: None,
            before: entries,
        };
        restored.put_back.push(index.display().to_string());
        if let Err(error) = self.put_back(&known) {
            restored
                .failed
                .push(format!("{}: {error}", index.display()));
        }
    }

    /// What is there; none when it cannot be read, or is too much.
    fn now(&self, path: &Path, extent: Extent) -> Option<Entries> {
        collect(&self.root, path, extent).ok()
    }

    /// Whether a difference is one that git may make: a new repository, and what it notes about branches.
    fn is_fine(&self, path: &Path, before: &Entries, after: &Entries) -> bool {
        let is_config = path.file_name().is_some_and(|name| name == "config");
        match (before.get(path), after.get(path)) {
            (None, Some(Entry::Directory { .. })) => path == Path::new(GIT) && self.is_git,
            (None, Some(Entry::File { bytes, .. })) => {
                path == Path::new(CONFIG) && self.is_git && config::is_new(bytes)
            }
            (
                Some(Entry::File { bytes: old, mode }),
                Some(Entry::File {
                    bytes: new,
                    mode: now,
                }),
            ) => is_config && self.is_git && mode == now && config::is_fine(old, new),
            _ => false,
        }
    }

    /// First away with what is there, by its name alone, so that nothing in it can stand in the way; then the old is written.
    fn put_back(&self, known: &Protected) -> io::Result<()> {
        let Protected {
            path,
            extent,
            before,
            ..
        } = known;
        let was_directory = matches!(before.get(path), Some(Entry::Directory { .. }));
        let is_directory = self
            .root
            .symlink_metadata(path)
            .is_ok_and(|meta| meta.is_dir());
        let discarded = match *extent == Extent::Itself && was_directory && is_directory {
            true => None,
            false => discard::move_away(&self.root, path)?,
        };
        let written = self.write_all(before);
        if let Some(discarded) = discarded {
            discard::delete(&self.root, &discarded);
        }
        written
    }

    fn write_all(&self, before: &Entries) -> io::Result<()> {
        // Parents come before what is in them; their modes, which may forbid to write, after it.
        for (at, entry) in before {
            match entry {
                Entry::Directory { .. } if self.root.is_dir(at) => {}
                Entry::Directory { .. } => self.root.create_dir(at)?,
                Entry::Link(target) => self.root.symlink_contents(target, at)?,
                Entry::File { bytes, mode } => self.write(at, bytes, *mode)?,
                Entry::Other => {}
            }
        }
        for (at, entry) in before.iter().rev() {
            if let Entry::Directory { mode } = entry {
                discard::set_mode(&self.root, at, *mode)?;
            }
        }
        Ok(())
    }

    fn write(&self, at: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = self
            .root
            .open_with(at, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(bytes)?;
        #[cfg(unix)]
        file.set_permissions(cap_std::fs::PermissionsExt::from_mode(mode))?;
        #[cfg(not(unix))]
        let _ = mode;
        Ok(())
    }
}

fn differences(before: &Entries, after: &Entries) -> Vec<String> {
    let gone_or_other = before
        .iter()
        .filter(|(at, entry)| after.get(*at) != Some(*entry))
        .map(|(at, _)| at);
    let new = after.keys().filter(|at| !before.contains_key(*at));
    gone_or_other
        .chain(new)
        .map(|at| quoted(&at.to_string_lossy()))
        .collect()
}

/// Existing paths of a workspace that a confined agent or command must not change: hooks and what git's settings lead to, Ostler's
/// own policy and settings. Absolute. `.git/config` is not among them, since git itself replaces it.
#[must_use]
pub fn protected_paths(root: &Path) -> Vec<PathBuf> {
    protected_paths_with(root, &UserGitConfig::default())
}

/// The same, where the user's own git settings count, too.
#[must_use]
pub fn protected_paths_with(root: &Path, user_git: &UserGitConfig) -> Vec<PathBuf> {
    let Ok(at) = root.canonicalize() else {
        return Vec::new();
    };
    let mut look = Look::new(&at, user_git);
    at.ancestors().for_each(|top| look.working_tree(top));
    let mut paths: Vec<PathBuf> = [".ostler", "ostler.toml"]
        .iter()
        .map(|path| at.join(path))
        .collect();
    let git =
        crate::repository::steering::git_directory_of(&at).and_then(|git| git.canonicalize().ok());
    paths.extend(
        git.filter(|git| git.starts_with(&at))
            .map(|git| git.join("hooks")),
    );
    paths.extend(look.found().into_keys().map(|path| at.join(path)));
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths.sort();
    paths.dedup();
    paths
}

fn too_large(what: &str) -> ToolError {
    let message = format!(
        "{what} holds more than can be protected; commands are not run in such a workspace"
    );
    ToolError::new(Code::TooLarge, message)
}

#[cfg(unix)]
fn mode(meta: &cap_std::fs::Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    meta.mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(_meta: &cap_std::fs::Metadata) -> u32 {
    0
}

#[cfg(test)]
mod tests;
