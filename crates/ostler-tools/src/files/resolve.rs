//! Where a path leads: an opened directory and a name in it. What happens there happens to that name, never to a path.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, FileType, Metadata};

use super::bare;
use super::given::Given;
use super::limits::{LINKS, PATH_BYTES};
use super::nearest;
use super::root::{Directory, Root};
use super::rules::{Access, Sort};
use super::system::{outside, shown as quoted, told};
use crate::{Code, ToolError};

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory.
    pub(super) dir: Dir,
    /// The name in it.
    pub(super) name: OsString,
    /// Where it really is, relative to the workspace.
    pub(super) real: PathBuf,
    /// What is there, if anything.
    pub(super) about: Option<Metadata>,
    /// How messages name it.
    pub(super) shown: String,
}

/// What is done with a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// What it points to is meant.
    Follow,
    /// The link itself is meant.
    Keep,
}

/// What is at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

impl Kind {
    pub(super) fn of(sort: FileType) -> Self {
        match sort {
            sort if sort.is_file() => Self::File,
            sort if sort.is_dir() => Self::Directory,
            sort if sort.is_symlink() => Self::Link,
            _ => Self::Other,
        }
    }

    pub(super) fn sort(self) -> Sort {
        if self == Self::Directory {
            Sort::Directory
        } else {
            Sort::File
        }
    }
}

impl Place {
    /// What is there, if anything.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.about.as_ref().map(|about| Kind::of(about.file_type()))
    }

    /// Refuses what the rules forbid.
    pub(super) fn check(&self, root: &Root, access: Access) -> Result<(), ToolError> {
        root.check(
            &self.real,
            access,
            self.kind().map_or(Sort::File, Kind::sort),
        )
    }

    /// An error of the system, about this place.
    pub(super) fn told(&self, error: &io::Error) -> ToolError {
        told(error, &self.shown)
    }

    /// An error about this place: its name and a sentence after it.
    pub(super) fn error(&self, code: Code, says: &str) -> ToolError {
        ToolError::new(code, format!("{} {says}", self.shown))
    }

    /// There is nothing here: what else there is.
    pub(super) fn missing(&self) -> ToolError {
        let hint = nearest::names(&self.dir, &self.name);
        self.error(Code::FileNotFound, &format!("does not exist{hint}"))
    }
}

impl Root {
    /// Where a path leads. Its directory must exist.
    pub(super) fn place(&self, given: &Given, links: Links) -> Result<Place, ToolError> {
        let mut path = given.path.clone();
        for _ in 0..LINKS {
            // Only a link gets here with `..` at its end, and the workspace itself without any name.
            let Some(name) = path.file_name().map(OsStr::to_owned) else {
                self.open_dir(&path)
                    .map_err(|error| told(&error, &given.shown))?;
                let message = format!("{} is a directory: name a file in it", given.shown);
                return Err(ToolError::new(Code::IsDirectory, message));
            };
            let parent = path.parent().unwrap_or(Path::new(""));
            let directory = self
                .open_dir(parent)
                .map_err(|error| self.no_directory(&error, parent, &given.shown))?;
            let about = match directory.dir.symlink_metadata(&name) {
                Ok(about) => Some(about),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(told(&error, &given.shown)),
            };
            let is_link = about.as_ref().is_some_and(Metadata::is_symlink);
            if !is_link || links == Links::Keep {
                let real = directory.real.join(&name);
                return Ok(Place {
                    dir: directory.dir,
                    name,
                    real,
                    about,
                    shown: given.shown.clone(),
                });
            }
            let target = directory
                .dir
                .read_link_contents(&name)
                .map_err(|error| told(&error, &given.shown))?;
            if target.has_root() {
                return Err(outside(&given.shown));
            }
            if target.as_os_str().len() > PATH_BYTES {
                let message = format!(
                    "{}: a link on it is longer than {PATH_BYTES} bytes",
                    given.shown
                );
                return Err(ToolError::new(Code::BadArguments, message));
            }
            path = directory.real.join(target);
        }
        let message = format!("{}: its symbolic links go in a circle", given.shown);
        Err(ToolError::new(Code::FileNotFound, message))
    }

    /// Opens a directory that a tool was given.
    pub(super) fn directory(&self, given: &Given) -> Result<Directory, ToolError> {
        let opened = self.open_dir(&given.path);
        let directory =
            opened.map_err(|error| self.no_directory(&error, &given.path, &given.shown))?;
        self.rules
            .check(&directory.real, Access::Read, Sort::Directory)?;
        Ok(directory)
    }

    /// Makes the directories of a path that are missing.
    pub(super) fn make_directories(&self, path: &Path, shown: &str) -> Result<Made, ToolError> {
        let told = |error: &io::Error| told(error, shown);
        let (mut directory, missing) = self.deepest(path).map_err(|error| told(&error))?;
        let mut made = Made {
            directories: Vec::new(),
            is_kept: false,
        };
        self.check(
            &joined(&directory.real, &missing),
            Access::Write,
            Sort::Directory,
        )?;
        for name in missing.components() {
            bare::check(&directory.dir, name.as_os_str(), shown)?;
            match directory.dir.create_dir(name.as_os_str()) {
                Ok(()) => {
                    let above = directory.dir.try_clone().map_err(|error| told(&error))?;
                    made.directories.push((above, name.as_os_str().to_owned()));
                }
                // Made by someone else in the meantime, or a link that leads nowhere: opening it tells.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(told(&error)),
            }
            directory.dir = directory
                .dir
                .open_dir_nofollow(name.as_os_str())
                .map_err(|error| told(&error))?;
        }
        Ok(made)
    }

    /// Where a path would really be, whether or not it exists.
    pub(super) fn would_be(&self, given: &Given) -> Result<PathBuf, ToolError> {
        let (directory, missing) = self
            .deepest(&given.path)
            .map_err(|error| told(&error, &given.shown))?;
        Ok(joined(&directory.real, &missing))
    }

    /// Where a name would really be: links in its directory count, one at its end is itself meant.
    pub(super) fn would_be_named(&self, given: &Given) -> Result<PathBuf, ToolError> {
        let parent = given.path.parent().unwrap_or(Path::new(""));
        let (directory, missing) = self
            .deepest(parent)
            .map_err(|error| told(&error, &given.shown))?;
        Ok(joined(&directory.real, &missing).join(given.path.file_name().unwrap_or_default()))
    }

    /// The deepest directory of a path that exists, and what is missing below it.
    fn deepest(&self, path: &Path) -> io::Result<(Directory, PathBuf)> {
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

    /// A directory could not be opened: which part of it is missing. What is in a directory that is kept from a model is
    /// not told, not even by its absence.
    fn no_directory(&self, error: &io::Error, path: &Path, shown: &str) -> ToolError {
        let told = told(error, shown);
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            return told;
        }
        let Ok((directory, missing)) = self.deepest(path) else {
            return told;
        };
        if let Err(denied) = self
            .rules
            .check(&directory.real, Access::Read, Sort::Directory)
        {
            return denied;
        }
        match missing.components().next() {
            Some(first) if told.code == Code::FileNotFound => {
                let hint = nearest::names(&directory.dir, first.as_os_str());
                let name = quoted(&directory.real.join(first).to_string_lossy());
                ToolError::new(told.code, format!("{shown}: there is no {name}{hint}"))
            }
            _ => told,
        }
    }
}

/// A path below another, which may be no longer than it.
fn joined(above: &Path, below: &Path) -> PathBuf {
    above.components().chain(below.components()).collect()
}

/// Directories that were made for something; they go again if it fails.
#[derive(Debug)]
pub(super) struct Made {
    directories: Vec<(Dir, OsString)>,
    is_kept: bool,
}

impl Made {
    /// They stay. Says how many they are.
    pub(super) fn keep(mut self) -> usize {
        self.is_kept = true;
        self.directories.len()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        for (dir, name) in self.directories.iter().rev() {
            // Only empty ones go; what someone else put there stays.
            if dir.remove_dir(name).is_err() {
                return;
            }
        }
    }
}
