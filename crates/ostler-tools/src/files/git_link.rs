//! The target of `.git`, if it is a link or a file that names a git directory elsewhere.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::regular_file::open_regular;
use crate::repository::directory::parse_git_file;

/// Returns the directory that `.git` points to, as written there: relative to the workspace, or
/// absolute. Returns `None` if `.git` is an ordinary directory or does not exist.
pub(super) fn git_target(dir: &Dir) -> io::Result<Option<PathBuf>> {
    let metadata = match dir.symlink_metadata(".git") {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if metadata.is_dir() {
        return Ok(None);
    }
    if metadata.is_symlink() {
        let target = dir.read_link_contents(".git")?;
        // A link may lead to a file that names the directory.
        return Ok(Some(
            match dir.open(&target).and_then(|file| file.metadata()) {
                Ok(metadata) if metadata.is_file() => {
                    parse_git_file(&mut dir.open(&target)?).unwrap_or(target)
                }
                _ => target,
            },
        ));
    }
    let file = open_regular(dir, ".git".as_ref())?;
    Ok(file.and_then(|(mut file, _)| parse_git_file(&mut file)))
}

/// Returns the path relative to the workspace's handle, or `None` if it is outside.
pub(super) fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    if !path.has_root() {
        return Some(path.to_owned());
    }
    let real = path.canonicalize().ok()?;
    real.strip_prefix(root).ok().map(Path::to_owned)
}
