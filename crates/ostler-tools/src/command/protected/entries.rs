//! Content of a path, saved before a command runs and compared after it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::{Extent, mode};

/// Limits of what is saved for one path.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MAX_ENTRIES: usize = 2000;
const MAX_DEPTH: usize = 16;

pub(super) type SavedEntries = BTreeMap<PathBuf, SavedEntry>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SavedEntry {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    Link(PathBuf),
    /// A pipe, a socket or a device: never saved, and removed afterwards.
    Other,
}

impl SavedEntry {
    /// Returns its approximate size in memory.
    pub(super) fn size(&self) -> usize {
        if let Self::File { bytes, .. } = self {
            bytes.len() + 64
        } else {
            64
        }
    }
}

pub(super) enum CollectError {
    Io(io::Error),
    TooLarge,
}

impl From<io::Error> for CollectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Collects the entry at `path`, and everything below it if that is protected.
pub(super) fn collect(
    root: &Dir,
    path: &Path,
    extent: Extent,
) -> Result<SavedEntries, CollectError> {
    let mut found = SavedEntries::new();
    let mut room = MAX_BYTES;
    let mut pending = vec![(path.to_owned(), 0)];
    while let Some((path, depth)) = pending.pop() {
        let meta = match root.symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        if found.len() >= MAX_ENTRIES || depth > MAX_DEPTH {
            return Err(CollectError::TooLarge);
        }
        let entry = if meta.is_dir() {
            if extent == Extent::Tree {
                for child in root.read_dir(&path)? {
                    pending.push((path.join(child?.file_name()), depth + 1));
                    if pending.len() > MAX_ENTRIES {
                        return Err(CollectError::TooLarge);
                    }
                }
            }
            SavedEntry::Directory { mode: mode(&meta) }
        } else if meta.is_symlink() {
            SavedEntry::Link(root.read_link_contents(&path)?)
        } else if meta.is_file() {
            let bytes = read(root, &path, room)?;
            room = room
                .checked_sub(bytes.len() as u64)
                .ok_or(CollectError::TooLarge)?;
            SavedEntry::File {
                bytes,
                mode: mode(&meta),
            }
        } else {
            SavedEntry::Other
        };
        found.insert(path, entry);
    }
    Ok(found)
}

/// Returns true if the path does not exist, or is below something that is not a directory, such as
/// a `.git` file.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Reads a file's content, up to one byte more than there is room for.
fn read(root: &Dir, path: &Path, room: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    root.open(path)?.take(room + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
