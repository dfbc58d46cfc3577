//! Cgroups that limit the number of processes and their total memory: the kernel's resource limits
//! do not bind root, and count the memory of each process separately.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::Rlimits;
use super::capabilities::is_root;

/// Prefix of cgroup names; the pid of the creating process follows.
const PREFIX: &str = "ostler-";

/// Open `cgroup.procs` files, one per cgroup, through which a process enters them.
#[derive(Debug, Default)]
pub(super) struct CgroupEntry(Vec<OwnedFd>);

impl CgroupEntry {
    /// Enters the cgroups. Async-signal-safe: one write each. `0` stands for the writer.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|procs| {
            rustix::io::write(procs.as_fd(), b"0")
                .map(|_| ())
                .map_err(io::Error::from)
        })
    }
}

/// Cgroups that are removed on drop. They can only be removed once everything in them has ended.
#[derive(Debug, Default)]
pub(super) struct CgroupGuard {
    dirs: Vec<PathBuf>,
    counts_processes: bool,
    limits_memory: bool,
}

impl CgroupGuard {
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
    let _ = fs::write(dir.join("cgroup.kill"), "1"); // since Linux 5.14, cgroup v2 only
    for _ in 0..100 {
        let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        let mut remaining = listed
            .lines()
            .filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?))
            .peekable();
        if remaining.peek().is_none() {
            return;
        }
        for pid in remaining {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

impl Drop for CgroupGuard {
    fn drop(&mut self) {
        self.clear();
        for dir in &self.dirs {
            // A process that just ended may still be counted.
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

/// Creates the cgroups that enforce `limits`, as far as possible. Only root creates any: a user's
/// processes are counted by a resource limit in their own user namespace.
pub(super) fn create(limits: &Rlimits) -> (CgroupEntry, CgroupGuard) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (mut entry, mut guard) = (CgroupEntry::default(), CgroupGuard::default());
    if !is_root() {
        return (entry, guard);
    }
    let name = format!(
        "{PREFIX}{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let wanted = [
        (
            "pids",
            limits
                .processes
                .map(|max| max.saturating_add(EXTRA_PROCESSES)),
        ),
        ("memory", limits.memory),
    ];
    for (controller, max) in wanted
        .into_iter()
        .filter_map(|(controller, max)| Some((controller, max?)))
    {
        let Some(parent) = parent(controller) else {
            continue;
        };
        let dir = parent.join(&name);
        if !guard.dirs.contains(&dir) {
            remove_stale(&parent);
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            guard.dirs.push(dir.clone());
            match File::options().write(true).open(dir.join("cgroup.procs")) {
                Ok(procs) => entry.0.push(procs.into()),
                Err(_) => continue,
            }
        }
        let set = limit(controller, &dir, max).is_ok();
        guard.counts_processes |= set && controller == "pids";
        guard.limits_memory |= set && controller == "memory";
    }
    (entry, guard)
}

/// Processes counted with a command: the waiter and the first process of its pid namespace.
const EXTRA_PROCESSES: u64 = 2;

fn limit(controller: &str, dir: &Path, max: u64) -> io::Result<()> {
    let v2_file = dir.join(format!("{controller}.max"));
    let file = if v2_file.exists() {
        v2_file
    } else {
        dir.join("memory.limit_in_bytes")
    };
    fs::write(file, max.to_string())?;
    if controller == "memory" {
        // Otherwise the excess is only swapped out.
        for (file, max) in [
            ("memory.swap.max", "0".to_owned()),
            ("memory.memsw.limit_in_bytes", max.to_string()),
        ] {
            let _ = fs::write(dir.join(file), max);
        }
    }
    Ok(())
}

/// Removes cgroups left behind by killed processes. One in which something still runs cannot be
/// removed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let creator = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if creator.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns true if processes can be counted.
pub(super) fn is_available() -> bool {
    parent("pids").is_some_and(|dir| rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Returns the cgroup of this process, if it can have children with that controller.
fn parent(controller: &str) -> Option<PathBuf> {
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let below = |mount: &Path, path: &str| mount.join(path.trim_start_matches('/'));
    own_cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = Path::new("/sys/fs/cgroup");
        if controllers.split(',').any(|name| name == controller) {
            return Some(below(&root.join(controller), path))
                .filter(|dir| dir.join("cgroup.procs").exists());
        }
        // Cgroup v2, where children have the controller.
        let dir = below(root, path);
        let control = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
        let has_controller =
            controllers.is_empty() && control.split_whitespace().any(|name| name == controller);
        has_controller.then_some(dir)
    })
}
