//! Directory tree walk: opens each directory once, at any depth, without following links.
//!
//! The walk holds one handle. It descends by name, ascends by `..`, and checks that it returned to
//! the same directory. Its cost is linear in the number of entries, and no path is too long for it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Dir;

/// A directory visited by the walk.
pub(crate) struct VisitedDir<'w> {
    /// Handle of the directory.
    pub(crate) dir: &'w Dir,
    /// Path relative to the start.
    pub(crate) path: &'w Path,
    /// Number of directories between this one and the start.
    pub(crate) depth: usize,
    /// Entries, in no particular order.
    pub(crate) entries: &'w [TreeEntry],
    /// Subdirectories the walk will enter; the visitor may remove some.
    pub(crate) subdirs: Vec<OsString>,
}

/// A directory entry.
#[derive(Debug)]
pub(crate) struct TreeEntry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

/// Type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    /// A link, a device, a pipe or a socket.
    Other,
}

/// Callbacks of a walk.
pub(crate) trait Visitor {
    /// Visits a directory.
    fn visit(&mut self, visited: &mut VisitedDir<'_>);

    /// Opens a subdirectory.
    fn open(&mut self, dir: &Dir, name: &OsStr) -> io::Result<Dir> {
        open_below(dir, name)
    }

    /// Called for a directory that cannot be opened or read.
    fn unopened(&mut self, path: &Path);
}

/// Result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkSummary {
    /// Number of directories opened, including those reopened on ascent.
    pub(crate) opened: usize,
    /// Number of entries seen.
    pub(crate) entries: usize,
    /// Whether the whole tree was seen. False if the limit was reached or the tree changed during
    /// the walk.
    pub(crate) is_complete: bool,
}

/// A directory with subdirectories still to visit.
struct Frame {
    pending: Vec<OsString>,
    id: (u64, u64),
}

/// Visits a directory and everything below it, stopping after `max_entries` entries.
pub(crate) fn walk(
    start: &Dir,
    max_entries: usize,
    visitor: &mut dyn Visitor,
) -> io::Result<WalkSummary> {
    let mut summary = WalkSummary {
        opened: 0,
        entries: 0,
        is_complete: true,
    };
    let mut dir = open_below(start, OsStr::new("."))?;
    let mut path = PathBuf::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut is_new = true;
    loop {
        if is_new {
            summary.opened += 1;
            match list(&dir, max_entries - summary.entries) {
                Ok((entries, is_complete)) => {
                    summary.entries += entries.len();
                    summary.is_complete &= is_complete;
                    let subdirs = entries
                        .iter()
                        .filter(|entry| entry.kind == EntryKind::Directory)
                        .map(|entry| entry.name.clone())
                        .collect();
                    let mut visited = VisitedDir {
                        dir: &dir,
                        path: &path,
                        depth: frames.len(),
                        entries: &entries,
                        subdirs,
                    };
                    visitor.visit(&mut visited);
                    frames.push(Frame {
                        pending: visited.subdirs,
                        id: id(&dir)?,
                    });
                }
                Err(error) if frames.is_empty() => return Err(error),
                Err(_) => {
                    visitor.unopened(&path);
                    frames.push(Frame {
                        pending: Vec::new(),
                        id: id(&dir)?,
                    });
                }
            }
        }
        if !summary.is_complete {
            return Ok(summary);
        }
        let Some(frame) = frames.last_mut() else {
            return Ok(summary);
        };
        match frame.pending.pop() {
            Some(name) => {
                path.push(&name);
                match visitor.open(&dir, &name) {
                    Ok(subdir) => {
                        dir = subdir;
                        is_new = true;
                    }
                    Err(_) => {
                        visitor.unopened(&path);
                        path.pop();
                        is_new = false;
                    }
                }
            }
            None => {
                frames.pop();
                let Some(parent) = frames.last() else {
                    return Ok(summary);
                };
                path.pop();
                is_new = false;
                summary.opened += 1;
                dir = ascend(&dir, start, &path)?;
                if id(&dir)? != parent.id {
                    summary.is_complete = false;
                }
            }
        }
    }
}

/// Lists at most `max_entries` entries of a directory. The flag is true if these are all of them.
#[cfg(target_os = "linux")]
fn list(dir: &Dir, max_entries: usize) -> io::Result<(Vec<TreeEntry>, bool)> {
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::{AtFlags, FileType, RawDir, statat};

    let mut buffer = [const { MaybeUninit::uninit() }; 16 * 1024];
    // The handle was just opened, so it is positioned at the first entry.
    let mut visited = RawDir::new(dir, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = visited.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == max_entries {
            return Ok((entries, false));
        }
        let kind = match entry.file_type() {
            // Not every file system reports the type.
            FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(metadata) => FileType::from_raw_mode(metadata.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        let kind = match kind {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        entries.push(TreeEntry {
            name: OsStr::from_bytes(name.to_bytes()).to_owned(),
            kind,
        });
    }
    Ok((entries, true))
}

#[cfg(not(target_os = "linux"))]
fn list(dir: &Dir, max_entries: usize) -> io::Result<(Vec<TreeEntry>, bool)> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        if entries.len() == max_entries {
            return Ok((entries, false));
        }
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => EntryKind::Directory,
            Ok(kind) if kind.is_file() => EntryKind::File,
            Ok(_) => EntryKind::Other,
            // The entry was removed in the meantime.
            Err(_) => continue,
        };
        entries.push(TreeEntry {
            name: entry.file_name(),
            kind,
        });
    }
    Ok((entries, true))
}

/// Opens a subdirectory, refusing links.
#[cfg(unix)]
pub(crate) fn open_below(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    open_at(dir, name, rustix::fs::OFlags::NOFOLLOW)
}

#[cfg(not(unix))]
pub(crate) fn open_below(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    cap_fs_ext::DirExt::open_dir_nofollow(dir, name)
}

/// Returns the path, or `.` for an empty one.
pub(crate) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

fn id(dir: &Dir) -> io::Result<(u64, u64)> {
    let metadata = dir.dir_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Opens the parent directory. Its handle is not retained: there could be more levels than file
/// descriptors.
#[cfg(unix)]
fn ascend(dir: &Dir, _start: &Dir, _path: &Path) -> io::Result<Dir> {
    open_at(dir, OsStr::new(".."), rustix::fs::OFlags::empty())
}

#[cfg(unix)]
fn open_at(dir: &Dir, name: &OsStr, flags: rustix::fs::OFlags) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(dir, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(opened.into()))
}

#[cfg(not(unix))]
fn ascend(_dir: &Dir, start: &Dir, path: &Path) -> io::Result<Dir> {
    start.open_dir(or_dot(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[derive(Default)]
    struct Names {
        seen: Vec<String>,
        unopened: Vec<PathBuf>,
    }

    impl Visitor for Names {
        fn visit(&mut self, visited: &mut VisitedDir<'_>) {
            assert_eq!(visited.depth, visited.path.components().count());
            let at = |entry: &TreeEntry| visited.path.join(&entry.name).display().to_string();
            self.seen.extend(visited.entries.iter().map(at));
            visited.subdirs.retain(|name| name != "skipped");
        }

        fn unopened(&mut self, path: &Path) {
            self.unopened.push(path.to_owned());
        }
    }

    fn open(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, cap_std::ambient_authority()).unwrap()
    }

    #[test]
    fn every_entry_is_seen_once_and_links_are_not_entered() {
        let temp = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "a/d", "e", "skipped/in"] {
            fs::create_dir_all(temp.path().join(path)).unwrap();
        }
        fs::write(temp.path().join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(temp.path(), temp.path().join("e/link")).unwrap();
        let mut names = Names::default();
        let summary = walk(&open(temp.path()), 100, &mut names).unwrap();
        names.seen.sort();
        assert_eq!(
            names.seen,
            [
                "a", "a/b", "a/b/c", "a/b/file", "a/d", "e", "e/link", "skipped"
            ]
        );
        assert!(summary.is_complete && summary.entries == 8, "{summary:?}");
        let summary = walk(&open(temp.path()), 5, &mut Names::default()).unwrap();
        assert!(!summary.is_complete && summary.entries == 5, "{summary:?}");
    }

    // A chain of directories costs one open down and one up per level, not a path lookup per level.
    #[test]
    fn depth_costs_no_more_than_breadth() {
        let opened = |depth: usize| {
            let temp = tempfile::tempdir().unwrap();
            let mut dir = open(temp.path());
            for _ in 0..depth {
                dir.create_dir("a-name-of-20-letters").unwrap();
                dir = dir.open_dir("a-name-of-20-letters").unwrap();
            }
            let summary = walk(&open(temp.path()), 10_000, &mut Names::default()).unwrap();
            assert_eq!((summary.entries, summary.is_complete), (depth, true));
            summary.opened
        };
        assert_eq!(opened(1_500), 2 * 1_500 + 1);
        assert_eq!(opened(300), 2 * 300 + 1);
    }
}
