//! What is at a path: read before a command runs, and compared after it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::{Extent, mode};

/// How much of one path is remembered at most.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
const MOST_ENTRIES: usize = 2000;
const DEEPEST: usize = 16;

pub(super) type Entries = BTreeMap<PathBuf, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    Link(PathBuf),
    /// A pipe, a socket, a device: never there before, and gone after.
    Other,
}

impl Entry {
    /// How much memory it takes, about.
    pub(super) fn size(&self) -> usize {
        if let Self::File { bytes, .. } = self {
            bytes.len() + 64
        } else {
            64
        }
    }
}

pub(super) enum Trouble {
    Io(io::Error),
    TooMuch,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is at `path`, and below it if that is protected.
pub(super) fn collect(root: &Dir, path: &Path, extent: Extent) -> Result<Entries, Trouble> {
    let mut found = Entries::new();
    let mut room = MOST_BYTES;
    let mut waiting = vec![(path.to_owned(), 0)];
    while let Some((at, depth)) = waiting.pop() {
        let meta = match root.symlink_metadata(&at) {
            Ok(meta) => meta,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        if found.len() >= MOST_ENTRIES || depth > DEEPEST {
            return Err(Trouble::TooMuch);
        }
        let entry = if meta.is_dir() {
            if extent == Extent::Tree {
                for child in root.read_dir(&at)? {
                    waiting.push((at.join(child?.file_name()), depth + 1));
                    if waiting.len() > MOST_ENTRIES {
                        return Err(Trouble::TooMuch);
                    }
                }
            }
            Entry::Directory { mode: mode(&meta) }
        } else if meta.is_symlink() {
            Entry::Link(root.read_link_contents(&at)?)
        } else if meta.is_file() {
            let bytes = read(root, &at, room)?;
            room = room
                .checked_sub(bytes.len() as u64)
                .ok_or(Trouble::TooMuch)?;
            Entry::File {
                bytes,
                mode: mode(&meta),
            }
        } else {
            Entry::Other
        };
        found.insert(at, entry);
    }
    Ok(found)
}

/// Not there; or below something that is no directory, such as a `.git` that is a file.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// A file's content; one byte more than there is room for shows that it is too much.
fn read(root: &Dir, at: &Path, room: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    root.open(at)?.take(room + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
