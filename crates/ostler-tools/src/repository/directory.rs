//! Recognition of git directories by their content: git goes by the names in a directory, whatever
//! its own name.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// Groups of names; a directory that contains all names of a group is a git directory.
pub(crate) const GROUPS: [&[&str]; 2] = [&["HEAD", "objects", "refs"], &["HEAD", "commondir"]];

/// Maximum length of a `.git` or `commondir` file, in bytes.
const MAX_BYTES: u64 = 8 * 1024;

/// Returns true if git would treat the directory as a git directory. Entries that cannot be
/// examined count as present.
pub(crate) fn is_git_directory(dir: &Dir, path: &Path) -> bool {
    GROUPS
        .iter()
        .any(|group| group.iter().all(|name| exists(dir, &path.join(name))))
}

/// Returns true unless the path certainly does not exist.
pub(crate) fn exists(dir: &Dir, path: &Path) -> bool {
    let absent = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    !matches!(dir.symlink_metadata(path), Err(error) if absent(error.kind()))
}

/// Parses a `.git` file: `gitdir: PATH`.
pub(crate) fn parse_git_file(file: &mut dyn Read) -> Option<PathBuf> {
    let text = read_start(file, MAX_BYTES)?;
    Some(PathBuf::from(
        text.strip_prefix("gitdir:")?
            .trim_start()
            .trim_end_matches(['\n', '\r']),
    ))
}

/// Parses a `commondir` or `gitdir` file: a single path.
pub(crate) fn parse_path_file(file: &mut dyn Read) -> Option<PathBuf> {
    let text = read_start(file, MAX_BYTES)?;
    let path = text.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// Returns the beginning of a file as text.
pub(crate) fn read_start(file: impl Read, max_bytes: u64) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
