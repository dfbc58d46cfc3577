//! Git directories by their content: git takes a directory for one by the names in it, whatever it is called itself.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// Names that make a directory a git directory when all of a group are in it.
pub(crate) const GROUPS: [&[&str]; 2] = [&["HEAD", "objects", "refs"], &["HEAD", "commondir"]];

/// The longest `.git` or `commondir` file that is read, in bytes.
const LONGEST: u64 = 8 * 1024;

/// Returns true if git would take the directory for a git directory. What cannot be looked at counts as present.
pub(crate) fn is_git_directory(dir: &Dir, path: &Path) -> bool {
    GROUPS
        .iter()
        .any(|group| group.iter().all(|name| exists(dir, &path.join(name))))
}

/// Returns true unless there is certainly nothing of that name.
pub(crate) fn exists(dir: &Dir, path: &Path) -> bool {
    let absent = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    !matches!(dir.symlink_metadata(path), Err(error) if absent(error.kind()))
}

/// The path that a `.git` file names: `gitdir: PATH`.
pub(crate) fn named_by(file: &mut dyn Read) -> Option<PathBuf> {
    let text = short(file)?;
    Some(PathBuf::from(
        text.strip_prefix("gitdir:")?
            .trim_start()
            .trim_end_matches(['\n', '\r']),
    ))
}

/// The path that a `commondir` or `gitdir` file holds.
pub(crate) fn held_by(file: &mut dyn Read) -> Option<PathBuf> {
    let text = short(file)?;
    let path = text.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| PathBuf::from(path))
}

fn short(file: &mut dyn Read) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
