//! A git directory of the workspace under another name: where a link or a file named `.git` leads.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::limits::PATH_BYTES;
use super::regular::open_regular;

/// The directory that `.git` leads to, as it is written there: relative to the workspace, or absolute. None if `.git` is
/// an ordinary directory or not there.
pub(super) fn written(dir: &Dir) -> io::Result<Option<PathBuf>> {
    let about = match dir.symlink_metadata(".git") {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if about.is_dir() {
        return Ok(None);
    }
    if about.is_symlink() {
        let target = dir.read_link_contents(".git")?;
        // A link may lead to a file that names the directory.
        return Ok(Some(
            match dir.open(&target).and_then(|file| file.metadata()) {
                Ok(about) if about.is_file() => named(&mut dir.open(&target)?)?.unwrap_or(target),
                _ => target,
            },
        ));
    }
    match open_regular(dir, ".git".as_ref())? {
        Some((mut file, _)) => named(&mut file),
        None => Ok(None),
    }
}

/// What a file names: `gitdir: PATH`.
fn named(file: &mut dyn Read) -> io::Result<Option<PathBuf>> {
    let mut bytes = Vec::new();
    file.take(2 * PATH_BYTES as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .strip_prefix("gitdir:")
        .map(|path| PathBuf::from(path.trim_start().trim_end_matches(['\n', '\r']))))
}

/// A path as the workspace's handle takes it: relative. None if it is outside.
pub(super) fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    if !path.has_root() {
        return Some(path.to_owned());
    }
    let real = path.canonicalize().ok()?;
    real.strip_prefix(root).ok().map(Path::to_owned)
}
