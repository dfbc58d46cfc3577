//! Path resolution: an opened directory and a name in it. Operations act on that name, never on a
//! path.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, FileType, Metadata};

use super::bare_repository;
use super::given_path::GivenPath;
use super::io_errors::{display_path, io_error, outside};
use super::limits::{LINKS, PATH_BYTES};
use super::root::{Directory, Root};
use super::rules::{Access, TargetKind};
use super::suggestions;
use crate::{Code, ToolError};

/// A resolved path: a name in an opened directory.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The directory.
    pub(super) dir: Dir,
    /// Name in the directory.
    pub(super) name: OsString,
    /// Real path, relative to the workspace.
    pub(super) real: PathBuf,
    /// Metadata of the entry, if it exists.
    pub(super) metadata: Option<Metadata>,
    /// The path as messages show it.
    pub(super) display: String,
}

/// Treatment of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkMode {
    /// The link is followed.
    Follow,
    /// The link itself is used.
    NoFollow,
}

/// Type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

impl FileKind {
    pub(super) fn of(file_type: FileType) -> Self {
        match file_type {
            file_type if file_type.is_file() => Self::File,
            file_type if file_type.is_dir() => Self::Directory,
            file_type if file_type.is_symlink() => Self::Link,
            _ => Self::Other,
        }
    }

    pub(super) fn target_kind(self) -> TargetKind {
        if self == Self::Directory {
            TargetKind::Directory
        } else {
            TargetKind::File
        }
    }
}

impl ResolvedPath {
    /// Returns the type of the entry, if it exists.
    pub(super) fn kind(&self) -> Option<FileKind> {
        self.metadata
            .as_ref()
            .map(|metadata| FileKind::of(metadata.file_type()))
    }

    /// Refuses accesses that the rules forbid.
    pub(super) fn check(&self, root: &Root, access: Access) -> Result<(), ToolError> {
        root.check(
            &self.real,
            access,
            self.kind().map_or(TargetKind::File, FileKind::target_kind),
        )
    }

    /// Converts a system error about this path.
    pub(super) fn io_error(&self, error: &io::Error) -> ToolError {
        io_error(error, &self.display)
    }

    /// Returns an error about this path: its name, followed by `message`.
    pub(super) fn error(&self, code: Code, message: &str) -> ToolError {
        ToolError::new(code, format!("{} {message}", self.display))
    }

    /// Returns the error for a missing entry, with similar names.
    pub(super) fn missing(&self) -> ToolError {
        let hint = suggestions::names(&self.dir, &self.name);
        self.error(Code::FileNotFound, &format!("does not exist{hint}"))
    }
}

impl Root {
    /// Resolves a path. Its directory must exist.
    pub(super) fn resolve(
        &self,
        given: &GivenPath,
        links: LinkMode,
    ) -> Result<ResolvedPath, ToolError> {
        let mut path = given.path.clone();
        for _ in 0..LINKS {
            // Only a link can end in `..` here, and only the workspace itself has no name.
            let Some(name) = path.file_name().map(OsStr::to_owned) else {
                self.open_dir(&path)
                    .map_err(|error| io_error(&error, &given.display))?;
                let message = format!("{} is a directory: name a file in it", given.display);
                return Err(ToolError::new(Code::IsDirectory, message));
            };
            let parent = path.parent().unwrap_or(Path::new(""));
            let directory = self
                .open_dir(parent)
                .map_err(|error| self.directory_error(&error, parent, &given.display))?;
            let metadata = match directory.dir.symlink_metadata(&name) {
                Ok(metadata) => Some(metadata),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(io_error(&error, &given.display)),
            };
            let is_link = metadata.as_ref().is_some_and(Metadata::is_symlink);
            if !is_link || links == LinkMode::NoFollow {
                let real = directory.real.join(&name);
                return Ok(ResolvedPath {
                    dir: directory.dir,
                    name,
                    real,
                    metadata,
                    display: given.display.clone(),
                });
            }
            let target = directory
                .dir
                .read_link_contents(&name)
                .map_err(|error| io_error(&error, &given.display))?;
            if target.has_root() {
                return Err(outside(&given.display));
            }
            if target.as_os_str().len() > PATH_BYTES {
                let message = format!(
                    "{}: the target of a link on this path is longer than {PATH_BYTES} bytes",
                    given.display
                );
                return Err(ToolError::bad_arguments(message));
            }
            path = directory.real.join(target);
        }
        let message = format!("{}: its symbolic links form a loop", given.display);
        Err(ToolError::new(Code::FileNotFound, message))
    }

    /// Opens a directory given as an argument.
    pub(super) fn directory(&self, given: &GivenPath) -> Result<Directory, ToolError> {
        let opened = self.open_dir(&given.path);
        let directory =
            opened.map_err(|error| self.directory_error(&error, &given.path, &given.display))?;
        self.rules
            .check(&directory.real, Access::Read, TargetKind::Directory)?;
        Ok(directory)
    }

    /// Resolves a path whose entry will be written, creating missing directories above it.
    pub(super) fn resolve_or_create(
        &self,
        given: &GivenPath,
        links: LinkMode,
        target_kind: TargetKind,
    ) -> Result<(ResolvedPath, Option<CreatedDirs>), ToolError> {
        match self.resolve(given, links) {
            Err(error) if error.code == Code::FileNotFound => {
                given.check_new()?;
                self.check(&self.prospective_entry(given)?, Access::Write, target_kind)?;
                let Some(parent) = given.path.parent() else {
                    return Err(error);
                };
                let created = self.make_directories(parent, &given.display)?;
                Ok((self.resolve(given, links)?, Some(created)))
            }
            resolved => resolved.map(|resolved| (resolved, None)),
        }
    }

    /// Creates the missing directories of a path.
    pub(super) fn make_directories(
        &self,
        path: &Path,
        display: &str,
    ) -> Result<CreatedDirs, ToolError> {
        let io_error = |error: &io::Error| io_error(error, display);
        let (mut directory, missing) = self
            .deepest_existing(path)
            .map_err(|error| io_error(&error))?;
        let mut created = CreatedDirs {
            directories: Vec::new(),
            is_committed: false,
        };
        self.check(
            &joined(&directory.real, &missing),
            Access::Write,
            TargetKind::Directory,
        )?;
        for name in missing.components() {
            bare_repository::check(&directory.dir, name.as_os_str(), display)?;
            match directory.dir.create_dir(name.as_os_str()) {
                Ok(()) => {
                    let above = directory
                        .dir
                        .try_clone()
                        .map_err(|error| io_error(&error))?;
                    created
                        .directories
                        .push((above, name.as_os_str().to_owned()));
                }
                // Created concurrently, or a dangling link: opening it shows which.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&error)),
            }
            directory.dir = directory
                .dir
                .open_dir_nofollow(name.as_os_str())
                .map_err(|error| io_error(&error))?;
        }
        Ok(created)
    }

    /// Returns the real path that a path has or would have, whether or not it exists.
    pub(super) fn prospective_path(&self, given: &GivenPath) -> Result<PathBuf, ToolError> {
        let (directory, missing) = self
            .deepest_existing(&given.path)
            .map_err(|error| io_error(&error, &given.display))?;
        Ok(joined(&directory.real, &missing))
    }

    /// Returns the real path of a name: links in its directory are followed, one at its end is not.
    pub(super) fn prospective_entry(&self, given: &GivenPath) -> Result<PathBuf, ToolError> {
        let parent = given.path.parent().unwrap_or(Path::new(""));
        let (directory, missing) = self
            .deepest_existing(parent)
            .map_err(|error| io_error(&error, &given.display))?;
        Ok(joined(&directory.real, &missing).join(given.path.file_name().unwrap_or_default()))
    }

    /// Returns the deepest existing directory of a path, and the missing part below it.
    fn deepest_existing(&self, path: &Path) -> io::Result<(Directory, PathBuf)> {
        for there in path.ancestors() {
            match self.open_dir(there) {
                Ok(directory) => {
                    return Ok((
                        directory,
                        path.strip_prefix(there).unwrap_or(Path::new("")).to_owned(),
                    ));
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Returns the error for a directory that could not be opened, naming the missing part. The
    /// content of a denied directory is not revealed, not even by its absence.
    fn directory_error(&self, error: &io::Error, path: &Path, display: &str) -> ToolError {
        let io_error = io_error(error, display);
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            return io_error;
        }
        let Ok((directory, missing)) = self.deepest_existing(path) else {
            return io_error;
        };
        if let Err(denied) = self
            .rules
            .check(&directory.real, Access::Read, TargetKind::Directory)
        {
            return denied;
        }
        match missing.components().next() {
            Some(first) if io_error.code == Code::FileNotFound => {
                let hint = suggestions::names(&directory.dir, first.as_os_str());
                let name = display_path(&directory.real.join(first).to_string_lossy());
                ToolError::new(
                    io_error.code,
                    format!("{display}: {name} does not exist{hint}"),
                )
            }
            _ => io_error,
        }
    }
}

/// Joins two paths, of which the second may be empty.
fn joined(above: &Path, below: &Path) -> PathBuf {
    above.components().chain(below.components()).collect()
}

/// Directories created for an operation; removed again on drop unless committed.
#[derive(Debug)]
pub(super) struct CreatedDirs {
    directories: Vec<(Dir, OsString)>,
    is_committed: bool,
}

impl CreatedDirs {
    /// Retains the directories and returns their number.
    pub(super) fn commit(mut self) -> usize {
        self.is_committed = true;
        self.directories.len()
    }
}

impl Drop for CreatedDirs {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        for (dir, name) in self.directories.iter().rev() {
            // Only empty directories are removed; entries added by others stay.
            if dir.remove_dir(name).is_err() {
                return;
            }
        }
    }
}
