//! Protected files: files through which a command could act later, outside its confinement. They
//! are restored when it has ended.
//!
//! A command may write anywhere in the workspace, and the kernel cannot exclude a part of a
//! writable directory. So files that would widen the policy of the next command, or make git run a
//! program for the user, are saved before the command and restored after it.

mod config;
mod discard;
mod entries;
mod gitlinks;
mod scan;

pub use self::discard::remove_tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};

use self::entries::{CollectError, SavedEntries, SavedEntry, collect, is_absent};
use self::scan::{RepositoriesAfter, RepositoriesBefore};
use crate::names::quoted;
use crate::repository::UserGitConfig;
use crate::repository::references::{HOOK_NAMES, ReferenceReason, ReferenceScan};
use crate::{Code, ToolError};

/// Maximum bytes of saved content; no command runs where there is more.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Git's directory; only the listed parts of it are ever touched.
const GIT: &str = ".git";

/// Git's settings. Git itself may write some of them: `git push -u` does.
const CONFIG: &str = ".git/config";

/// Ostler's policy and settings, and git's directory. A path comes after the directory that
/// contains it.
const PROTECTED: [&str; 3] = [".ostler", "ostler.toml", GIT];

/// Parts of a git directory that name its settings, and the programs it runs automatically.
const GIT_PARTS: [&str; 4] = ["commondir", "hooks", "config", "config.worktree"];

/// State of a git operation in progress: `git rebase --continue` runs programs named there.
const OPERATION_STATE: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// The saved state of a workspace's protected files.
#[derive(Debug)]
pub struct Snapshot {
    real_root: PathBuf,
    root: Dir,
    is_git: bool,
    protected: Vec<Protected>,
    repositories: RepositoriesBefore,
    index: gitlinks::IndexBefore,
}

/// A protected path and its saved content.
#[derive(Debug)]
struct Protected {
    path: PathBuf,
    extent: Extent,
    /// Nested git directory it belongs to. If that is gone, there is nothing to protect.
    owner: Option<PathBuf>,
    before: SavedEntries,
}

/// How much of a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Everything below it.
    Tree,
    /// Only the path itself: that it is a directory, and its mode.
    Itself,
}

/// Result of restoring the protected files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Paths that were changed, created or removed and are restored, and parts of new repositories
    /// that git would have run.
    pub put_back: Vec<String>,
    /// Paths that could not be restored, with the reason.
    pub failed: Vec<String>,
}

impl Snapshot {
    /// Saves the files that must not change while `command` runs.
    ///
    /// # Errors
    /// A file cannot be read, or there is too much to save.
    pub fn take(root: &Path, command: &str) -> Result<Self, ToolError> {
        Self::take_with(root, command, &UserGitConfig::default())
    }

    /// As [`Snapshot::take`], also considering the user's git settings.
    ///
    /// # Errors
    /// As [`Snapshot::take`].
    pub fn take_with(
        root: &Path,
        command: &str,
        user_git: &UserGitConfig,
    ) -> Result<Self, ToolError> {
        let io = |error: io::Error| ToolError::io(format!("the workspace cannot be read: {error}"));
        let real_root = root.canonicalize().map_err(io)?;
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).map_err(io)?;
        let is_git = command == "git";
        let repositories = RepositoriesBefore::of(&root).map_err(io)?;
        if !repositories.is_complete {
            return Err(too_large("the workspace"));
        }
        let index = gitlinks::IndexBefore::of(&root).ok_or_else(|| too_large(".git/index"))?;
        let mut snapshot = Self {
            real_root,
            root,
            is_git,
            protected: Vec::new(),
            repositories,
            index,
        };
        snapshot.protect_workspace()?;
        snapshot.protect_nested()?;
        snapshot.protect_referenced(user_git)?;
        let bytes: usize = snapshot
            .protected
            .iter()
            .flat_map(|known| known.before.values())
            .map(SavedEntry::size)
            .sum();
        if bytes > MAX_BYTES {
            return Err(too_large("the repositories of the workspace"));
        }
        Ok(snapshot)
    }

    fn protect_workspace(&mut self) -> Result<(), ToolError> {
        for path in PROTECTED {
            let extent = if path == GIT {
                Extent::Itself
            } else {
                Extent::Tree
            };
            self.protect(Path::new(path), extent, None)?;
        }
        self.protect_parts(Path::new(GIT), None)
    }

    /// Protects the parts of a git directory that can make git run programs.
    fn protect_parts(&mut self, git: &Path, owner: Option<&Path>) -> Result<(), ToolError> {
        let parts = GIT_PARTS.iter().chain(if self.is_git {
            &[]
        } else {
            &OPERATION_STATE[..]
        });
        parts
            .into_iter()
            .try_for_each(|part| self.protect(&git.join(part), Extent::Tree, owner))
    }

    /// Protects repositories other than the workspace's: those inside it, and the modules and
    /// worktrees of all.
    fn protect_nested(&mut self) -> Result<(), ToolError> {
        let (directories, files) = (
            self.repositories.git_directories.clone(),
            self.repositories.git_files.clone(),
        );
        for git in directories.iter().filter(|git| **git != Path::new(GIT)) {
            self.protect(git, Extent::Itself, Some(git))?;
            self.protect_parts(git, Some(git))?;
            self.protect(&git.join("gitdir"), Extent::Tree, Some(git))?;
        }
        for file in files.iter().filter(|file| **file != Path::new(GIT)) {
            let owner = file.parent().filter(|above| !above.as_os_str().is_empty());
            self.protect(file, Extent::Tree, owner)?;
        }
        Ok(())
    }

    /// Protects the files in the workspace that the settings of these repositories, and of those
    /// above, reference.
    fn protect_referenced(&mut self, user_git: &UserGitConfig) -> Result<(), ToolError> {
        let real_root = self.real_root.clone();
        let mut references = ReferenceScan::new(&real_root, user_git);
        real_root
            .ancestors()
            .for_each(|top| references.working_tree(top));
        for git in &self.repositories.git_directories {
            let top = if git.file_name().is_some_and(|name| name == GIT) {
                git.parent()
            } else {
                None
            };
            references.git_directory(&real_root.join(git), &real_root.join(top.unwrap_or(git)));
        }
        for file in &self.repositories.git_files {
            references.working_tree(&real_root.join(file.parent().unwrap_or(Path::new(""))));
        }
        for (path, reason) in references.found() {
            let is_known = self
                .protected
                .iter()
                .any(|known| known.extent == Extent::Tree && path.starts_with(&known.path));
            // A path behind a link is protected at its real location, and the link as a link.
            if is_known || self.passes_through_link(&path) {
                continue;
            }
            match self.protect(&path, Extent::Tree, None) {
                Err(error) if error.code == Code::TooLarge && reason == ReferenceReason::Hooks => {
                    HOOK_NAMES
                        .iter()
                        .try_for_each(|name| self.protect(&path.join(name), Extent::Tree, None))?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn passes_through_link(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| {
            self.root
                .symlink_metadata(above)
                .is_ok_and(|meta| meta.is_symlink())
        })
    }

    fn protect(
        &mut self,
        path: &Path,
        extent: Extent,
        owner: Option<&Path>,
    ) -> Result<(), ToolError> {
        let before = collect(&self.root, path, extent).map_err(|error_kind| match error_kind {
            CollectError::Io(error) => {
                ToolError::io(format!("{} cannot be read: {error}", path.display()))
            }
            CollectError::TooLarge => too_large(&path.display().to_string()),
        })?;
        self.protected.push(Protected {
            path: path.to_owned(),
            extent,
            owner: owner.map(Path::to_owned),
            before,
        });
        Ok(())
    }

    /// Restores everything that was changed, created or removed, and lists it. Every process that
    /// could change it again must have ended.
    #[must_use]
    pub fn restore(&self) -> Restored {
        let mut restored = Restored::default();
        discard::restore_access_to_root(&self.real_root, &self.root);
        for known in &self.protected {
            self.restore_one(known, &mut restored);
        }
        self.check_new_repositories(&mut restored);
        self.restore_index(&mut restored);
        restored.put_back.sort();
        restored.put_back.dedup();
        restored
    }

    fn restore_one(&self, known: &Protected, restored: &mut Restored) {
        let Protected {
            path,
            extent,
            owner,
            before,
        } = known;
        if owner
            .as_ref()
            .is_some_and(|owner| !self.is_reachable(owner))
        {
            return;
        }
        let replaced = if owner.is_none() {
            self.restore_parents(path, !before.is_empty())
        } else {
            Ok(None)
        };
        match replaced {
            Ok(Some(moved)) => restored.put_back.push(quoted(&moved.to_string_lossy())),
            Ok(None) => {}
            Err(error) => return restored.failed.push(format!("{}: {error}", path.display())),
        }
        let after = self.current(path, *extent);
        if after
            .as_ref()
            .is_some_and(|after| after == before || self.is_allowed_change(path, before, after))
        {
            return;
        }
        match &after {
            Some(after) => restored.put_back.extend(differences(before, after)),
            None => restored.put_back.push(quoted(&path.to_string_lossy())),
        }
        match self.put_back(known) {
            Ok(()) if self.current(path, *extent).as_ref() == Some(before) => {}
            Ok(()) => restored
                .failed
                .push(format!("{}: it could not be restored", path.display())),
            Err(error) => restored.failed.push(format!("{}: {error}", path.display())),
        }
    }

    /// Returns true for a directory, but not for a link to one.
    fn is_directory(&self, path: &Path) -> bool {
        self.root
            .symlink_metadata(path)
            .is_ok_and(|meta| meta.is_dir())
    }

    /// Returns true if a path still exists and is reached without links.
    fn is_reachable(&self, path: &Path) -> bool {
        path.ancestors()
            .skip(1)
            .filter(|above| !above.as_os_str().is_empty())
            .all(|above| self.is_directory(above))
            && self.root.symlink_metadata(path).is_ok()
    }

    /// Replaces anything that is not a directory above a path by a directory, where one is needed.
    /// Returns the path that was replaced.
    fn restore_parents(&self, path: &Path, is_needed: bool) -> io::Result<Option<PathBuf>> {
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
            if !is_needed {
                break;
            }
            self.root.create_dir(directory)?;
        }
        Ok(moved)
    }

    /// Removes dangerous parts of repositories that did not exist before.
    fn check_new_repositories(&self, restored: &mut Restored) {
        let mut repositories = RepositoriesAfter::after(&self.repositories, &self.real_root);
        match crate::tree::walk(&self.root, scan::MAX_ENTRIES, &mut repositories) {
            Ok(walked) if walked.is_complete => {}
            Ok(_) => repositories
                .failed
                .push("the workspace became too large to check for new repositories".to_owned()),
            Err(error) => repositories.failed.push(format!(
                "the workspace could not be checked for new repositories: {error}"
            )),
        }
        repositories.check_git_files(&self.root);
        restored.put_back.append(&mut repositories.put_back);
        restored.failed.append(&mut repositories.failed);
    }

    /// Restores the index. A nested repository in the index makes `git status` look into it and
    /// follow its settings.
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
            owner: None,
            before: entries,
        };
        restored.put_back.push(index.display().to_string());
        if let Err(error) = self.put_back(&known) {
            restored
                .failed
                .push(format!("{}: {error}", index.display()));
        }
    }

    /// Returns the current content, or `None` if it cannot be read or is too large.
    fn current(&self, path: &Path, extent: Extent) -> Option<SavedEntries> {
        collect(&self.root, path, extent).ok()
    }

    /// Returns true if a difference is one that git may make: a new repository, or branch settings.
    fn is_allowed_change(&self, path: &Path, before: &SavedEntries, after: &SavedEntries) -> bool {
        let is_config = path.file_name().is_some_and(|name| name == "config");
        match (before.get(path), after.get(path)) {
            (None, Some(SavedEntry::Directory { .. })) => path == Path::new(GIT) && self.is_git,
            (None, Some(SavedEntry::File { bytes, .. })) => {
                path == Path::new(CONFIG) && self.is_git && config::is_new(bytes)
            }
            (
                Some(SavedEntry::File { bytes: old, mode }),
                Some(SavedEntry::File {
                    bytes: new,
                    mode: current,
                }),
            ) => is_config && self.is_git && mode == current && config::is_allowed_change(old, new),
            _ => false,
        }
    }

    /// Moves the current content away by its name alone, so that nothing in it can interfere, and
    /// then writes the saved content.
    fn put_back(&self, known: &Protected) -> io::Result<()> {
        let Protected {
            path,
            extent,
            before,
            ..
        } = known;
        let was_directory = matches!(before.get(path), Some(SavedEntry::Directory { .. }));
        let is_retained = *extent == Extent::Itself && was_directory && self.is_directory(path);
        let discarded = match is_retained {
            true => None,
            false => discard::move_away(&self.root, path)?,
        };
        let written = self.write_all(before);
        if let Some(discarded) = discarded {
            discard::delete(&self.root, &discarded);
        }
        written
    }

    fn write_all(&self, before: &SavedEntries) -> io::Result<()> {
        // Parents are written before their entries. Their modes, which may forbid writing, are set
        // afterwards.
        for (path, entry) in before {
            match entry {
                SavedEntry::Directory { .. } if self.root.is_dir(path) => {}
                SavedEntry::Directory { .. } => self.root.create_dir(path)?,
                SavedEntry::Link(target) => self.root.symlink_contents(target, path)?,
                SavedEntry::File { bytes, mode } => self.write(path, bytes, *mode)?,
                SavedEntry::Other => {}
            }
        }
        for (path, entry) in before.iter().rev() {
            if let SavedEntry::Directory { mode } = entry {
                discard::set_mode(&self.root, path, *mode)?;
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = self
            .root
            .open_with(path, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(bytes)?;
        #[cfg(unix)]
        file.set_permissions(cap_std::fs::PermissionsExt::from_mode(mode))?;
        #[cfg(not(unix))]
        let _ = mode;
        Ok(())
    }
}

fn differences(before: &SavedEntries, after: &SavedEntries) -> Vec<String> {
    let gone_or_other = before
        .iter()
        .filter(|(path, entry)| after.get(*path) != Some(*entry))
        .map(|(path, _)| path);
    let new = after.keys().filter(|path| !before.contains_key(*path));
    gone_or_other
        .chain(new)
        .map(|path| quoted(&path.to_string_lossy()))
        .collect()
}

/// Returns the existing paths of a workspace that a confined agent or command must not change:
/// hooks, files referenced by git's settings, and Ostler's policy and settings. Absolute.
/// `.git/config` is not included, because git itself replaces it.
#[must_use]
pub fn protected_paths(root: &Path) -> Vec<PathBuf> {
    protected_paths_with(root, &UserGitConfig::default())
}

/// As [`protected_paths`], also considering the user's git settings.
#[must_use]
pub fn protected_paths_with(root: &Path, user_git: &UserGitConfig) -> Vec<PathBuf> {
    let Ok(real_root) = root.canonicalize() else {
        return Vec::new();
    };
    let mut references = ReferenceScan::new(&real_root, user_git);
    real_root
        .ancestors()
        .for_each(|top| references.working_tree(top));
    let mut paths: Vec<PathBuf> = [".ostler", "ostler.toml"]
        .iter()
        .map(|path| real_root.join(path))
        .collect();
    let git = crate::repository::references::git_directory_of(&real_root)
        .and_then(|git| git.canonicalize().ok());
    paths.extend(
        git.filter(|git| git.starts_with(&real_root))
            .map(|git| git.join("hooks")),
    );
    paths.extend(
        references
            .found()
            .into_keys()
            .map(|path| real_root.join(path)),
    );
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths.sort();
    paths.dedup();
    paths
}

fn too_large(what: &str) -> ToolError {
    let message =
        format!("{what} is too large to protect; commands are not run in such a workspace");
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
