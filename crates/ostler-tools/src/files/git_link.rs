//! The target of `.git`, if it is a link or a file that names a git directory elsewhere.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::limits::PATH_BYTES;
use super::regular_file::open_regular;

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
                    parse_gitdir(&mut dir.open(&target)?)?.unwrap_or(target)
                }
                _ => target,
            },
        ));
    }
    match open_regular(dir, ".git".as_ref())? {
        Some((mut file, _)) => parse_gitdir(&mut file),
        None => Ok(None),
    }
}

/// Parses a `gitdir: PATH` file.
fn parse_gitdir(file: &mut dyn Read) -> io::Result<Option<PathBuf>> {
    let mut bytes = Vec::new();
    file.take(2 * PATH_BYTES as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .strip_prefix("gitdir:")
        .map(|path| PathBuf::from(path.trim_start().trim_end_matches(['\n', '\r']))))
}

/// Returns the path relative to the workspace's handle, or `None` if it is outside.
pub(super) fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    if !path.has_root() {
        return Some(path.to_owned());
    }
    let real = path.canonicalize().ok()?;
    real.strip_prefix(root).ok().map(Path::to_owned)
}
