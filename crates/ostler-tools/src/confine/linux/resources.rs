//! Kernel resource limits of a confined process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::{Layers, Rlimits};

/// Limits to set, and the user's current usage of what is counted per user.
#[derive(Debug)]
pub(super) struct Plan {
    limits: Vec<(Resource, u64)>,
    processes: Option<u64>,
    other_tasks: u64,
}

/// Processes counted with a command: the waiter and the first process of its pid namespace.
const EXTRA_PROCESSES: u64 = 2;

impl Plan {
    pub(super) fn new(limits: &Rlimits, memory_is_limited: bool) -> Self {
        let wanted = [
            (Resource::Core, Some(0)),
            (Resource::Cpu, limits.cpu_seconds),
            (Resource::Fsize, limits.file_size),
            (Resource::Nofile, limits.open_files),
            (Resource::Data, limits.memory.filter(|_| !memory_is_limited)),
        ];
        let wanted = wanted
            .into_iter()
            .filter_map(|(resource, max)| Some((resource, max?)))
            .collect();
        // Root is not bound by this limit, and counting takes a while.
        let is_counted = limits.processes.is_some() && !super::capabilities::is_root();
        let other_tasks = if is_counted { tasks_of_user() } else { 0 };
        Self {
            limits: wanted,
            processes: limits.processes,
            other_tasks,
        }
    }

    /// Sets the limits. Async-signal-safe. In its own user namespace the command's processes are
    /// counted from zero; otherwise the user's other processes count too.
    pub(super) fn enter(&self, entered: Layers) -> io::Result<()> {
        for (resource, max) in &self.limits {
            lower(*resource, *max)?;
        }
        match self.processes {
            Some(max) if entered.has(Layers::USERS) => {
                lower(Resource::Nproc, max.saturating_add(EXTRA_PROCESSES))
            }
            Some(max) => lower(Resource::Nproc, max.saturating_add(self.other_tasks)),
            None => Ok(()),
        }
    }
}

/// Lowers a limit; it is never raised. A process that exceeds its CPU time gets a signal before it
/// is killed.
fn lower(resource: Resource, max: u64) -> io::Result<()> {
    let current_max = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = if resource == Resource::Cpu {
        max.saturating_add(2)
    } else {
        max
    };
    let limit = |max: u64| Some(max.min(current_max)).filter(|max| *max != u64::MAX);
    setrlimit(
        resource,
        Rlimit {
            current: limit(max),
            maximum: limit(hard),
        },
    )
    .map_err(io::Error::from)
}

/// Returns the number of threads this user runs on the machine, which is what the kernel counts.
fn tasks_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let user_entries =
        entries.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == user));
    let is_process = |name: &std::ffi::OsStr| {
        name.to_str()
            .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    let threads = user_entries
        .filter(|entry| is_process(&entry.file_name()))
        .map(|entry| {
            let tasks = std::fs::read_dir(entry.path().join("task"));
            tasks.map_or(0, |tasks| tasks.flatten().count() as u64)
        });
    threads.sum()
}
