//! The workspace as a directory handle: every path is opened below it by the system, which lets none out.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::FileRules;
use super::git;
use super::given::Given;
use super::regular::open_regular;
use super::rules::{Access, Rules, Sort, check_root};
use super::steered::Steered;
use super::system::{shown, told};
use crate::names::unquoted;
use crate::repository::UserGitConfig;
use crate::{Code, ToolError};

/// A directory, its real path, and the rules about what is below it.
#[derive(Debug)]
pub(crate) struct Root {
    pub(super) dir: Dir,
    pub(super) rules: Arc<Rules>,
    real: PathBuf,
    named: PathBuf,
    user_git: Arc<UserGitConfig>,
    steered: OnceLock<Steered>,
    /// Files that a person has approved the change of.
    approved: Vec<PathBuf>,
}

/// A directory below the workspace that was opened.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) dir: Dir,
    /// Where it really is, relative to the workspace.
    pub(super) real: PathBuf,
}

impl Root {
    /// Opens a directory as a workspace.
    pub(crate) fn open(path: &Path, rules: &FileRules) -> Result<Self, ToolError> {
        let (dir, real) = open_root(path)?;
        let git = git_directory(&dir, &real)?;
        let rules = Rules::new(rules, git.as_deref())
            .map_err(|why| ToolError::new(Code::BadArguments, why))?;
        let named = path.to_owned();
        Ok(Self {
            dir,
            rules: Arc::new(rules),
            real,
            named,
            user_git: Arc::default(),
            steered: OnceLock::new(),
            approved: Vec::new(),
        })
    }

    /// The same workspace for one call, in which a person has approved the change of these files. Git's settings are looked at
    /// anew.
    pub(crate) fn for_call(&self, approved: &[String]) -> Result<Self, ToolError> {
        Ok(Self {
            dir: self
                .dir
                .try_clone()
                .map_err(|error| told(&error, "the workspace"))?,
            rules: self.rules.clone(),
            real: self.real.clone(),
            named: self.named.clone(),
            user_git: self.user_git.clone(),
            steered: OnceLock::new(),
            approved: approved.iter().map(PathBuf::from).collect(),
        })
    }

    /// Counts the user's own git settings, too.
    pub(crate) fn set_user_git(&mut self, user_git: UserGitConfig) {
        self.user_git = Arc::new(user_git);
    }

    pub(crate) fn user_git(&self) -> &UserGitConfig {
        &self.user_git
    }

    pub(super) fn steered_cell(&self) -> &OnceLock<Steered> {
        &self.steered
    }

    pub(super) fn is_approved(&self, path: &Path) -> bool {
        // Directories are made for a file, and moved with what is in them.
        self.approved
            .iter()
            .any(|approved| path.starts_with(approved) || approved.starts_with(path))
    }

    /// Its real path.
    pub(crate) fn path(&self) -> &Path {
        &self.real
    }

    /// Whether a file of that path, relative to the workspace, is kept from a model altogether.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        // The system opens nothing of such a length; to compare it with the rules would take very long.
        path.as_os_str().len() > LONGEST || self.rules.is_secret(path, Sort::File)
    }

    /// Reads a path that a tool was given, and refuses at once what the rules forbid by its text.
    pub(super) fn given(&self, text: &str, access: Access) -> Result<Given, ToolError> {
        let given = self.meant(text)?;
        self.rules.check(&given.path, access, Sort::Directory)?;
        Ok(given)
    }

    /// The path as it is written, or, if there is nothing of that name, the one that a listing writes like this.
    fn meant(&self, text: &str) -> Result<Given, ToolError> {
        let roots = [&*self.real, &*self.named];
        let given = Given::new(text, roots)?;
        match unquoted(text) {
            Some(name) if self.dir.symlink_metadata(&given.path).is_err() => {
                Given::new(&name, roots)
            }
            _ => Ok(given),
        }
    }

    /// Opens a directory and finds out where it really is. Only the system follows links here, and never out.
    pub(super) fn open_dir(&self, path: &Path) -> io::Result<Directory> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let dir = self.dir.open_dir(path)?;
        let real = self.real_path(&dir, path)?;
        Ok(Directory { dir, real })
    }

    /// Where an opened directory is: asked of the handle, so that no link can be put in between.
    fn real_path(&self, dir: &Dir, path: &Path) -> io::Result<PathBuf> {
        real_below(&self.dir, dir, path)
    }
}

/// The longest path that is compared with the rules, in bytes.
const LONGEST: usize = 64 * 1024;

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

/// The directory inside the workspace that git uses, if it is not `.git` itself.
fn git_directory(dir: &Dir, real: &Path) -> Result<Option<PathBuf>, ToolError> {
    let written = git::written(dir).map_err(|error| told(&error, "`.git`"))?;
    let Some(path) = written.and_then(|path| git::below(real, &path)) else {
        return Ok(None);
    };
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &path
    };
    // One that cannot be opened below the workspace is outside, or not there.
    let Ok(opened) = dir.open_dir(path) else {
        return Ok(None);
    };
    let found = real_below(dir, &opened, path).map_err(|error| told(&error, "`.git`"))?;
    if found.as_os_str().is_empty() {
        let message =
            "the workspace is itself the directory that `.git` leads to: take another one";
        return Err(ToolError::new(Code::DeniedByPolicy, message));
    }
    Ok(Some(found))
}

/// Reads a file of the workspace that is no link and is in a directory that is none: what decides about a model must
/// not be where the model can write.
pub(crate) fn read_own_file(
    root: &Path,
    file: &Path,
    most: u64,
) -> Result<Option<String>, ToolError> {
    let mut dir = Dir::open_ambient_dir(root, ambient_authority())
        .map_err(|error| not_opened(root, &error))?;
    let shown = shown(&file.to_string_lossy());
    let none_or = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => {
            let message =
                format!("{shown} must be a plain file in a plain directory, not a link: {error}");
            Err(ToolError::new(Code::NotAFile, message))
        }
    };
    for part in file.parent().into_iter().flat_map(Path::components) {
        match dir.open_dir_nofollow(part.as_os_str()) {
            Ok(below) => dir = below,
            Err(error) => return none_or(error),
        }
    }
    let name = file.file_name().unwrap_or_default();
    let (file, about) = match open_regular(&dir, name) {
        Ok(Some(opened)) => opened,
        Ok(None) => return none_or(io::Error::other("it is something else")),
        Err(error) => return none_or(error),
    };
    if about.len() > most {
        let message = format!("{shown} has more than {most} bytes");
        return Err(ToolError::new(Code::TooLarge, message));
    }
    let mut text = String::new();
    let read = file.take(most).read_to_string(&mut text);
    read.map_err(|error| told(&error, &shown))?;
    Ok(Some(text))
}

fn not_opened(path: &Path, error: &io::Error) -> ToolError {
    let told = told(error, &shown(&path.to_string_lossy()));
    ToolError::new(
        told.code,
        format!("the workspace cannot be opened: {}", told.message),
    )
}

fn open_root(path: &Path) -> Result<(Dir, PathBuf), ToolError> {
    let trouble = |error: io::Error| not_opened(path, &error);
    let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(trouble)?;
    let real = path_of(&dir)
        .map_or_else(|| path.canonicalize(), Ok)
        .map_err(trouble)?;
    check_root(&real).map_err(|rule| {
        let message =
            format!("the workspace cannot be in `{rule}`, which is kept from you: take the one you were given");
        ToolError::new(Code::DeniedByPolicy, message)
    })?;
    Ok((dir, real))
}

/// The path of a handle, where the system tells.
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
