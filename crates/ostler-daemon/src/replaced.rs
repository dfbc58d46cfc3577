//! Files that a requested change replaces as a whole: their text when the request was made.
//!
//! Only regular files below the session's directory are read, without following a symbolic link, up
//! to a size limit.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_core::event::Timestamp;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;

/// Maximum size of all files of a request together, in bytes.
const MAX_SIZE: u64 = 256 * 1024;

/// Maximum number of files of a request.
const MAX_FILES: usize = 16;

/// Number of requests in memory.
const MAX_REQUESTS: usize = 64;

/// What a change replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// The file does not exist.
    Nothing,
    /// The text of the file.
    Text(String),
}

/// The files of one request by the path that the agent wrote. Those that cannot be read are absent.
#[derive(Debug, Default)]
pub(crate) struct ReplacedFiles {
    /// When they were read.
    pub(crate) at: Timestamp,
    files: HashMap<String, Replaced>,
}

impl ReplacedFiles {
    /// Reads the files with these paths.
    pub(crate) fn read(dir: &Path, paths: &[String], at: Timestamp) -> Self {
        let mut left = MAX_SIZE;
        let mut files = HashMap::new();
        for path in paths.iter().take(MAX_FILES) {
            let Some(found) = read_below(dir, Path::new(path), left) else {
                continue;
            };
            if let Replaced::Text(text) = &found {
                left = left.saturating_sub(text.len() as u64);
            }
            files.insert(path.clone(), found);
        }
        Self { at, files }
    }

    /// Returns what the file with this path was.
    pub(crate) fn get(&self, path: &str) -> Option<&Replaced> {
        self.files.get(path)
    }

    /// Returns true if nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// The files of the latest requests, by the id of the approval.
#[derive(Debug, Default)]
pub(crate) struct RecentlyReplaced(Mutex<Requests>);

impl RecentlyReplaced {
    /// Returns the files of a request that were read before.
    pub(crate) fn get(&self, approval: &str) -> Option<Arc<ReplacedFiles>> {
        find(&self.lock(), approval)
    }

    /// Adds the files of a request, unless they were read before, and returns those that count.
    pub(crate) fn add(&self, approval: &str, files: ReplacedFiles) -> Arc<ReplacedFiles> {
        let mut all = self.lock();
        if let Some(earlier) = find(&all, approval) {
            return earlier;
        }
        let files = Arc::new(files);
        if all.len() == MAX_REQUESTS {
            all.pop_front();
        }
        all.push_back((approval.to_owned(), Arc::clone(&files)));
        files
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests by the id of their approval, the oldest first.
type Requests = VecDeque<(String, Arc<ReplacedFiles>)>;

fn find(all: &Requests, approval: &str) -> Option<Arc<ReplacedFiles>> {
    let found = all.iter().find(|(id, _)| id == approval);
    found.map(|(_, files)| Arc::clone(files))
}

/// Reads a file below a directory. Returns `None` if it is elsewhere, not a regular file, larger
/// than `most`, or not text.
fn read_below(dir: &Path, path: &Path, most: u64) -> Option<Replaced> {
    let resolved = dir.canonicalize().ok();
    let below = if path.is_absolute() {
        let roots = [Some(dir), resolved.as_deref()];
        let mut roots = roots.into_iter().flatten();
        roots.find_map(|root| path.strip_prefix(root).ok())?
    } else {
        path
    };
    let mut names = Vec::new();
    for component in below.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let (last, parents) = names.split_last()?;
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = open(dir, directory, Mode::empty()).ok()?;
    for name in parents {
        at = match openat(&at, *name, directory | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Some(Replaced::Nothing),
            Err(_) => return None,
        };
    }
    // A pipe without a writer must not block.
    let file = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(&at, *last, file, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Some(Replaced::Nothing),
        Err(_) => return None,
    };
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    if !is_file {
        return None;
    }
    let mut text = String::new();
    let mut limited = File::from(file).take(most.saturating_add(1));
    limited.read_to_string(&mut text).ok()?;
    (text.len() as u64 <= most).then_some(Replaced::Text(text))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_below_the_directory_are_read() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("w");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(root.join("src/a"), "text\n").unwrap();
        fs::write(root.join("binary"), [0xff, 0xfe]).unwrap();
        symlink(outside.path(), root.join("up")).unwrap();
        symlink(outside.path().join("secret"), root.join("link")).unwrap();
        let fifo = root.join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        let read = |path: &str| read_below(&root, Path::new(path), 100);
        let text = Some(Replaced::Text("text\n".to_owned()));
        assert_eq!(read("src/a"), text);
        assert_eq!(read("./src/./a"), text);
        assert_eq!(read(root.join("src/a").to_str().unwrap()), text);
        assert_eq!(read("src/new"), Some(Replaced::Nothing));
        assert_eq!(read("new/deep/a"), Some(Replaced::Nothing));
        let secret = outside.path().join("secret");
        for path in [
            "../secret",
            "src/../../secret",
            "up/secret",
            "link",
            "up",
            "fifo",
            "src",
            "",
            ".",
            "binary",
            "src/a/b",
            secret.to_str().unwrap(),
            "/etc/passwd",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(read_below(&root, Path::new("src/a"), 4), None, "too large");
        assert_eq!(read_below(&root, Path::new("src/a"), 5), text);
    }

    #[test]
    fn a_request_is_read_once_within_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        let half = "x".repeat(usize::try_from(MAX_SIZE).unwrap() / 2);
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), &half).unwrap();
        }
        let paths = ["a", "b", "c"].map(str::to_owned);
        let recent = RecentlyReplaced::default();
        let read = || ReplacedFiles::read(dir.path(), &paths, Timestamp(1));
        let files = recent.add("1", read());
        assert!(files.get("b").is_some() && files.get("c").is_none());
        fs::write(dir.path().join("a"), "later").unwrap();
        // The text at the request counts.
        assert!(Arc::ptr_eq(&recent.add("1", read()), &files));
        assert!(Arc::ptr_eq(&recent.get("1").unwrap(), &files));
        assert_eq!(files.get("a"), Some(&Replaced::Text(half)));
        for n in 0..MAX_REQUESTS {
            recent.add(&format!("other {n}"), ReplacedFiles::default());
        }
        assert!(recent.get("1").is_none());
    }
}
