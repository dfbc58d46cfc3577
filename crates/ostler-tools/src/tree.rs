//! A walk over every directory of a tree: one open per directory, whatever its depth, and links are not followed.
//!
//! The walk holds one handle. It goes down by a name and up by `..`, and checks that it came back to where it was: the cost
//! is linear in the number of entries, and no path is too long for it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Dir;

/// A directory as the walk finds it.
pub(crate) struct Listed<'w> {
    /// Its handle.
    pub(crate) dir: &'w Dir,
    /// Its path, relative to the start.
    pub(crate) path: &'w Path,
    /// How many directories are above it, up to the start.
    pub(crate) depth: usize,
    /// Its entries, in no order.
    pub(crate) entries: &'w [Entry],
    /// The directories in it that the walk enters; the visitor may remove some.
    pub(crate) below: Vec<OsString>,
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    /// A link, a device, a pipe or a socket.
    Other,
}

/// What is done on a walk.
pub(crate) trait Visitor {
    /// Looks at a directory.
    fn visit(&mut self, listed: &mut Listed<'_>);

    /// Opens a directory in another one.
    fn open(&mut self, dir: &Dir, name: &OsStr) -> io::Result<Dir> {
        open_below(dir, name)
    }

    /// Takes note of a directory that cannot be opened or read.
    fn unopened(&mut self, path: &Path);
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walked {
    /// How many directories were opened, going up included.
    pub(crate) opened: usize,
    /// How many entries were seen.
    pub(crate) entries: usize,
    /// Whether everything was seen: false after the limit, and if the tree changed under the walk.
    pub(crate) is_whole: bool,
}

/// A directory with subdirectories that are still ahead.
struct Frame {
    ahead: Vec<OsString>,
    id: (u64, u64),
}

/// Visits a directory and everything below it, and stops after `most` entries.
pub(crate) fn walk(start: &Dir, most: usize, visitor: &mut dyn Visitor) -> io::Result<Walked> {
    let mut walked = Walked {
        opened: 0,
        entries: 0,
        is_whole: true,
    };
    let mut dir = open_below(start, OsStr::new("."))?;
    let mut path = PathBuf::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut is_new = true;
    loop {
        if is_new {
            walked.opened += 1;
            match list(&dir, most - walked.entries) {
                Ok((entries, is_all)) => {
                    walked.entries += entries.len();
                    walked.is_whole &= is_all;
                    let below = entries
                        .iter()
                        .filter(|entry| entry.kind == EntryKind::Directory)
                        .map(|entry| entry.name.clone());
                    let below = below.collect();
                    let mut listed = Listed {
                        dir: &dir,
                        path: &path,
                        depth: frames.len(),
                        entries: &entries,
                        below,
                    };
                    visitor.visit(&mut listed);
                    frames.push(Frame {
                        ahead: listed.below,
                        id: id(&dir)?,
                    });
                }
                Err(error) if frames.is_empty() => return Err(error),
                Err(_) => {
                    visitor.unopened(&path);
                    frames.push(Frame {
                        ahead: Vec::new(),
                        id: id(&dir)?,
                    });
                }
            }
        }
        if !walked.is_whole {
            return Ok(walked);
        }
        let Some(frame) = frames.last_mut() else {
            return Ok(walked);
        };
        match frame.ahead.pop() {
            Some(name) => {
                path.push(&name);
                match visitor.open(&dir, &name) {
                    Ok(below) => {
                        dir = below;
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
                let Some(above) = frames.last() else {
                    return Ok(walked);
                };
                path.pop();
                is_new = false;
                walked.opened += 1;
                dir = ascend(&dir, start, &path)?;
                if id(&dir)? != above.id {
                    walked.is_whole = false;
                }
            }
        }
    }
}

/// The entries of a directory, at most so many, and whether these are all.
#[cfg(target_os = "linux")]
fn list(dir: &Dir, most: usize) -> io::Result<(Vec<Entry>, bool)> {
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::{AtFlags, FileType, RawDir, statat};

    let mut buffer = [const { MaybeUninit::uninit() }; 16 * 1024];
    // The handle was opened just now, so it stands at the first entry.
    let mut listed = RawDir::new(dir, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = listed.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == most {
            return Ok((entries, false));
        }
        let kind = match entry.file_type() {
            // Not every file system tells.
            FileType::Unknown => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) => FileType::from_raw_mode(about.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        let kind = match kind {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        entries.push(Entry {
            name: OsStr::from_bytes(name.to_bytes()).to_owned(),
            kind,
        });
    }
    Ok((entries, true))
}

#[cfg(not(target_os = "linux"))]
fn list(dir: &Dir, most: usize) -> io::Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        if entries.len() == most {
            return Ok((entries, false));
        }
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => EntryKind::Directory,
            Ok(kind) if kind.is_file() => EntryKind::File,
            Ok(_) => EntryKind::Other,
            // An entry that went in the meantime is no entry.
            Err(_) => continue,
        };
        entries.push(Entry {
            name: entry.file_name(),
            kind,
        });
    }
    Ok((entries, true))
}

/// Opens a directory in another one, and no link.
#[cfg(unix)]
pub(crate) fn open_below(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(std::fs::File::from(openat(
        dir,
        name,
        flags,
        Mode::empty(),
    )?)))
}

#[cfg(not(unix))]
pub(crate) fn open_below(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    cap_fs_ext::DirExt::open_dir_nofollow(dir, name)
}

fn id(dir: &Dir) -> io::Result<(u64, u64)> {
    let about = dir.dir_metadata()?;
    Ok((about.dev(), about.ino()))
}

/// The directory above. A handle of it is not kept: there could be more levels than handles.
#[cfg(unix)]
fn ascend(dir: &Dir, _start: &Dir, _path: &Path) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat(dir, "..", flags, Mode::empty())?;
    Ok(Dir::from_std_file(std::fs::File::from(above)))
}

#[cfg(not(unix))]
fn ascend(_dir: &Dir, start: &Dir, path: &Path) -> io::Result<Dir> {
    start.open_dir(if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    })
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
        fn visit(&mut self, listed: &mut Listed<'_>) {
            assert_eq!(listed.depth, listed.path.components().count());
            let at = |entry: &Entry| listed.path.join(&entry.name).display().to_string();
            self.seen.extend(listed.entries.iter().map(at));
            listed.below.retain(|name| name != "skipped");
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
        let walked = walk(&open(temp.path()), 100, &mut names).unwrap();
        names.seen.sort();
        assert_eq!(
            names.seen,
            [
                "a", "a/b", "a/b/c", "a/b/file", "a/d", "e", "e/link", "skipped"
            ]
        );
        assert!(walked.is_whole && walked.entries == 8, "{walked:?}");
        let walked = walk(&open(temp.path()), 5, &mut Names::default()).unwrap();
        assert!(!walked.is_whole && walked.entries == 5, "{walked:?}");
    }

    // A chain of directories costs one open down and one up for each, not a path for each.
    #[test]
    fn depth_costs_no_more_than_breadth() {
        let opened = |depth: usize| {
            let temp = tempfile::tempdir().unwrap();
            let mut dir = open(temp.path());
            for _ in 0..depth {
                dir.create_dir("a-name-of-20-letters").unwrap();
                dir = dir.open_dir("a-name-of-20-letters").unwrap();
            }
            let walked = walk(&open(temp.path()), 10_000, &mut Names::default()).unwrap();
            assert_eq!((walked.entries, walked.is_whole), (depth, true));
            walked.opened
        };
        assert_eq!(opened(1_500), 2 * 1_500 + 1);
        assert_eq!(opened(300), 2 * 300 + 1);
    }
}
