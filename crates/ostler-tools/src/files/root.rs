//! Workspace root: a directory handle. The system opens every path below it, so none leads out.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::FileRules;
use super::git_link;
use super::given_path::GivenPath;
use super::io_errors::{display_path, io_error};
use super::regular_file::open_regular;
use super::rules::{Access, Rules, TargetKind, check_root};
use super::write_checks::FoldedReferences;
use crate::names::unquoted;
use crate::repository::UserGitConfig;
use crate::tree::or_dot;
use crate::{Code, ToolError};

/// A directory, its real path, and the rules for everything below it.
#[derive(Debug)]
pub(crate) struct Root {
    pub(super) dir: Dir,
    pub(super) rules: Arc<Rules>,
    real: PathBuf,
    path_as_given: PathBuf,
    user_git: Arc<UserGitConfig>,
    references: OnceLock<FoldedReferences>,
    /// Files whose change a person has approved.
    approved: Vec<PathBuf>,
}

/// An opened directory below the workspace.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) dir: Dir,
    /// Real path, relative to the workspace.
    pub(super) real: PathBuf,
}

impl Root {
    /// Opens a directory as a workspace.
    pub(crate) fn open(path: &Path, rules: &FileRules) -> Result<Self, ToolError> {
        let (dir, real) = open_root(path)?;
        let git = git_directory(&dir, &real)?;
        let rules = Rules::new(rules, git.as_deref())?;
        let path_as_given = path.to_owned();
        Ok(Self {
            dir,
            rules: Arc::new(rules),
            real,
            path_as_given,
            user_git: Arc::default(),
            references: OnceLock::new(),
            approved: Vec::new(),
        })
    }

    /// Returns the same workspace for one call in which a person has approved changes to these
    /// files. Git's settings are read anew.
    pub(crate) fn for_call(&self, approved: &[String]) -> Result<Self, ToolError> {
        Ok(Self {
            dir: self
                .dir
                .try_clone()
                .map_err(|error| io_error(&error, "the workspace"))?,
            rules: self.rules.clone(),
            real: self.real.clone(),
            path_as_given: self.path_as_given.clone(),
            user_git: self.user_git.clone(),
            references: OnceLock::new(),
            approved: approved.iter().map(PathBuf::from).collect(),
        })
    }

    /// Sets the user's git settings.
    pub(crate) fn set_user_git(&mut self, user_git: UserGitConfig) {
        self.user_git = Arc::new(user_git);
    }

    pub(crate) fn user_git(&self) -> &UserGitConfig {
        &self.user_git
    }

    pub(super) fn references_cell(&self) -> &OnceLock<FoldedReferences> {
        &self.references
    }

    pub(super) fn is_approved(&self, path: &Path) -> bool {
        // Directories are created for a file, and moved with their content.
        self.approved
            .iter()
            .any(|approved| path.starts_with(approved) || approved.starts_with(path))
    }

    /// Returns the real path.
    pub(crate) fn path(&self) -> &Path {
        &self.real
    }

    /// Returns true if the file at this path, relative to the workspace, is denied to the model.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        // The system cannot open a path this long, and comparing it with the rules would be slow.
        path.as_os_str().len() > MAX_PATH_BYTES || self.rules.is_secret(path, TargetKind::File)
    }

    /// Parses a path argument, and refuses at once what the rules forbid by its text.
    pub(super) fn parse_path(&self, text: &str, access: Access) -> Result<GivenPath, ToolError> {
        let given = self.parse_or_unquote(text)?;
        self.rules
            .check(&given.path, access, TargetKind::Directory)?;
        Ok(given)
    }

    /// Parses the path as written or, if it does not exist, the name that a listing quotes like
    /// this.
    fn parse_or_unquote(&self, text: &str) -> Result<GivenPath, ToolError> {
        let roots = [&*self.real, &*self.path_as_given];
        let given = GivenPath::new(text, roots)?;
        match unquoted(text) {
            Some(name) if self.dir.symlink_metadata(&given.path).is_err() => {
                GivenPath::new(&name, roots)
            }
            _ => Ok(given),
        }
    }

    /// Opens a directory and determines its real path. Only the system follows links here, and
    /// never out of the workspace.
    pub(super) fn open_dir(&self, path: &Path) -> io::Result<Directory> {
        let path = or_dot(path);
        let dir = self.dir.open_dir(path)?;
        let real = self.real_path(&dir, path)?;
        Ok(Directory { dir, real })
    }

    /// Returns the real path of an opened directory. It is read from the handle, so that no link
    /// can be swapped in.
    fn real_path(&self, dir: &Dir, path: &Path) -> io::Result<PathBuf> {
        real_below(&self.dir, dir, path)
    }
}

/// Maximum length of a path that is compared with the rules, in bytes.
const MAX_PATH_BYTES: usize = 64 * 1024;

fn real_below(root: &Dir, dir: &Dir, path: &Path) -> io::Result<PathBuf> {
    if let (Some(root), Some(real)) = (path_of(root), path_of(dir)) {
        let escaped = || {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the directory left the workspace",
            )
        };
        return real
            .strip_prefix(root)
            .map(Path::to_owned)
            .map_err(|_| escaped());
    }
    let real = root.canonicalize(path)?;
    Ok(if real == Path::new(".") {
        PathBuf::new()
    } else {
        real
    })
}

/// Returns the directory inside the workspace that git uses, if it is not `.git` itself.
fn git_directory(dir: &Dir, real: &Path) -> Result<Option<PathBuf>, ToolError> {
    let written = git_link::git_target(dir).map_err(|error| io_error(&error, "`.git`"))?;
    let Some(path) = written.and_then(|path| git_link::below(real, &path)) else {
        return Ok(None);
    };
    let path = or_dot(&path);
    // A directory that cannot be opened below the workspace is outside it, or does not exist.
    let Ok(opened) = dir.open_dir(path) else {
        return Ok(None);
    };
    let found = real_below(dir, &opened, path).map_err(|error| io_error(&error, "`.git`"))?;
    if found.as_os_str().is_empty() {
        let message =
            "the workspace is the directory that `.git` points to: choose another workspace";
        return Err(ToolError::denied(message));
    }
    Ok(Some(found))
}

/// Reads a regular file of the workspace whose path contains no links: a file that decides about a
/// model must not be where the model can write.
pub(crate) fn read_own_file(
    root: &Path,
    file: &Path,
    max_bytes: u64,
) -> Result<Option<String>, ToolError> {
    let mut dir = Dir::open_ambient_dir(root, ambient_authority())
        .map_err(|error| open_error(root, &error))?;
    let display = display_path(&file.to_string_lossy());
    let missing_or_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => {
            let message = format!(
                "{display} must be a regular file in a regular directory, not a link: {error}"
            );
            Err(ToolError::new(Code::NotAFile, message))
        }
    };
    for part in file.parent().into_iter().flat_map(Path::components) {
        match dir.open_dir_nofollow(part.as_os_str()) {
            Ok(below) => dir = below,
            Err(error) => return missing_or_error(error),
        }
    }
    let name = file.file_name().unwrap_or_default();
    let (file, metadata) = match open_regular(&dir, name) {
        Ok(Some(opened)) => opened,
        Ok(None) => return missing_or_error(io::Error::other("not a regular file")),
        Err(error) => return missing_or_error(error),
    };
    if metadata.len() > max_bytes {
        let message = format!("{display} has more than {max_bytes} bytes");
        return Err(ToolError::new(Code::TooLarge, message));
    }
    let mut text = String::new();
    let read = file.take(max_bytes).read_to_string(&mut text);
    read.map_err(|error| io_error(&error, &display))?;
    Ok(Some(text))
}

fn open_error(path: &Path, error: &io::Error) -> ToolError {
    let io_error = io_error(error, &display_path(&path.to_string_lossy()));
    ToolError::new(
        io_error.code,
        format!("the workspace cannot be opened: {}", io_error.message),
    )
}

fn open_root(path: &Path) -> Result<(Dir, PathBuf), ToolError> {
    let to_error = |error: io::Error| open_error(path, &error);
    let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(to_error)?;
    let real = path_of(&dir)
        .map_or_else(|| path.canonicalize(), Ok)
        .map_err(to_error)?;
    check_root(&real)?;
    Ok((dir, real))
}

/// Returns the path of a handle, where the system provides it.
#[cfg(target_os = "linux")]
fn path_of(dir: &Dir) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;

    let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new()).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes()));
    path.is_absolute().then_some(path)
}

#[cfg(not(target_os = "linux"))]
fn path_of(_dir: &Dir) -> Option<PathBuf> {
    None
}
