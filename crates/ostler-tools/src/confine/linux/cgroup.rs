//! Cgroups that limit the number of processes and their memory together: the kernel's resource limits do not bind root, and count
//! the memory of each process by itself.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::Rlimits;
use super::capabilities::is_root;

/// How their names begin; the number of the process that made it follows.
const PREFIX: &str = "ostler-";

/// The way in: one door for each cgroup.
#[derive(Debug, Default)]
pub(super) struct Entry(Vec<OwnedFd>);

impl Entry {
    /// Async-signal-safe: one write each. `0` is whoever writes it.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|door| {
            rustix::io::write(door.as_fd(), b"0")
                .map(|_| ())
                .map_err(io::Error::from)
        })
    }
}

/// Cgroups that go when this does. They can only go once everything in them has ended.
#[derive(Debug, Default)]
pub(super) struct Kept {
    dirs: Vec<PathBuf>,
    counts_processes: bool,
    limits_memory: bool,
}

impl Kept {
    /// Kills everything that is still in them.
    pub(super) fn clear(&self) {
        for dir in &self.dirs {
            clear(dir);
        }
    }

    pub(super) fn counts_processes(&self) -> bool {
        self.counts_processes
    }

    pub(super) fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        let files = self
            .dirs
            .iter()
            .flat_map(|dir| ["memory.events", "memory.oom_control"].map(|file| dir.join(file)));
        files
            .filter_map(|file| fs::read_to_string(file).ok())
            .any(|text| {
                let killed = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("oom_kill "));
                killed.into_iter().any(|count| count.trim() != "0")
            })
    }
}

fn clear(dir: &Path) {
    let _ = fs::write(dir.join("cgroup.kill"), "1"); // since Linux 5.14, in the newer hierarchy
    for _ in 0..100 {
        let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        let mut left = listed
            .lines()
            .filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?))
            .peekable();
        if left.peek().is_none() {
            return;
        }
        for pid in left {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
        for dir in &self.dirs {
            // What ended a moment ago may still be counted.
            for _ in 0..50 {
                match fs::remove_dir(dir) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Makes the cgroups that hold `limits`: those that can be made. Only root makes any: a user's processes are counted by a resource
/// limit in their own user namespace.
pub(super) fn make(limits: &Rlimits) -> (Entry, Kept) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (mut entry, mut kept) = (Entry::default(), Kept::default());
    if !is_root() {
        return (entry, kept);
    }
    let name = format!(
        "{PREFIX}{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let wanted = [
        (
            "pids",
            limits.processes.map(|most| most.saturating_add(AROUND)),
        ),
        ("memory", limits.memory),
    ];
    for (controller, most) in wanted
        .into_iter()
        .filter_map(|(controller, most)| Some((controller, most?)))
    {
        let Some(parent) = parent(controller) else {
            continue;
        };
        let dir = parent.join(&name);
        if !kept.dirs.contains(&dir) {
            remove_stale(&parent);
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            kept.dirs.push(dir.clone());
            match File::options().write(true).open(dir.join("cgroup.procs")) {
                Ok(door) => entry.0.push(door.into()),
                Err(_) => continue,
            }
        }
        let set = limit(controller, &dir, most).is_ok();
        kept.counts_processes |= set && controller == "pids";
        kept.limits_memory |= set && controller == "memory";
    }
    (entry, kept)
}

/// The processes around a command that count as its own: the waiter and the first of its pid namespace.
const AROUND: u64 = 2;

fn limit(controller: &str, dir: &Path, most: u64) -> io::Result<()> {
    let newer = dir.join(format!("{controller}.max"));
    let file = if newer.exists() {
        newer
    } else {
        dir.join("memory.limit_in_bytes")
    };
    fs::write(file, most.to_string())?;
    if controller == "memory" {
        // Otherwise the excess is only moved to the disk.
        for (file, most) in [
            ("memory.swap.max", "0".to_owned()),
            ("memory.memsw.limit_in_bytes", most.to_string()),
        ] {
            let _ = fs::write(dir.join(file), most);
        }
    }
    Ok(())
}

/// Removes what those left behind that were killed. One in which something still runs cannot be removed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether processes could be counted.
pub(super) fn is_available() -> bool {
    parent("pids").is_some_and(|dir| rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK).is_ok())
}

/// The cgroup of this process, where it can have others below it with that controller.
fn parent(controller: &str) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let below = |mount: &Path, path: &str| mount.join(path.trim_start_matches('/'));
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = Path::new("/sys/fs/cgroup");
        if controllers.split(',').any(|name| name == controller) {
            return Some(below(&root.join(controller), path))
                .filter(|dir| dir.join("cgroup.procs").exists());
        }
        // The newer hierarchy, where its children have the controller.
        let dir = below(root, path);
        let control = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
        let counted =
            controllers.is_empty() && control.split_whitespace().any(|name| name == controller);
        counted.then_some(dir)
    })
}
