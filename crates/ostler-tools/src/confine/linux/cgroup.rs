//! A cgroup that holds the number of processes: the kernel's own limit does not bind root.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How their names begin; the number of the process that made it follows.
const PREFIX: &str = "ostler-";

/// The way in.
#[derive(Debug)]
pub(super) struct Entry(OwnedFd);

impl Entry {
    /// Async-signal-safe: one write. `0` is whoever writes it.
    pub(super) fn enter(&self) -> io::Result<()> {
        rustix::io::write(self.0.as_fd(), b"0").map(|_| ()).map_err(io::Error::from)
    }
}

/// A cgroup that goes when this does. It can only go once everything in it has ended.
#[derive(Debug)]
pub struct Kept(PathBuf);

impl Kept {
    /// Ends everything that is still in it, whatever it did to its group, session and environment.
    pub fn clear(&self) {
        for _ in 0..100 {
            let listed = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            let mut left =
                listed.lines().filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?)).peekable();
            if left.peek().is_none() {
                return;
            }
            for pid in left {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
        // What ended a moment ago may still be counted.
        for _ in 0..50 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// Makes a cgroup of at most so many processes; none where that cannot be done.
pub(super) fn make(most: u64) -> Option<(Entry, Kept)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let parent = parent()?;
    remove_stale(&parent);
    let dir = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
    fs::create_dir(&dir).ok()?;
    let kept = Kept(dir);
    fs::write(kept.0.join("pids.max"), most.to_string()).ok()?;
    let door = File::options().write(true).open(kept.0.join("cgroup.procs")).ok()?;
    Some((Entry(door.into()), kept))
}

/// Removes what those left behind that were killed. One in which something still runs cannot be removed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether one could be made.
pub(super) fn is_available() -> bool {
    parent().is_some_and(|dir| rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK).is_ok())
}

/// The cgroup of this process, where it can have others below it that count processes.
fn parent() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let below = |mount: &str, path: &str| Path::new(mount).join(path.trim_start_matches('/'));
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if controllers.split(',').any(|name| name == "pids") {
            return Some(below("/sys/fs/cgroup/pids", path)).filter(|dir| dir.join("cgroup.procs").exists());
        }
        // The newer kind, where its children are counted.
        let dir = below("/sys/fs/cgroup", path);
        let control = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
        let counted = controllers.is_empty() && control.split_whitespace().any(|name| name == "pids");
        counted.then_some(dir)
    })
}
