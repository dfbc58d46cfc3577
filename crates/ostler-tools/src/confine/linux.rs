//! The layers of Linux: Landlock, seccomp, namespaces, capabilities, resource limits, a cgroup for the number of processes.

pub mod attempts;
mod capabilities;
mod cgroup;
mod files;
mod namespaces;
mod resources;
mod syscalls;

use std::io;

use super::{Confinement, Layer, Network, Report};

pub use cgroup::Kept;
use namespaces::Entered;

/// A confinement that a child can enter between fork and exec: everything that needs memory or opens files is done.
#[derive(Debug)]
pub struct Ready {
    files: files::Fence,
    syscalls: syscalls::Filters,
    namespaces: Option<namespaces::Plan>,
    resources: resources::Plan,
    cgroup: Option<cgroup::Entry>,
}

impl Ready {
    /// Confines the calling thread for good, and whatever it starts. Async-signal-safe: it only makes system calls.
    ///
    /// # Errors
    /// When a layer that is there refuses; the child must not go on then.
    pub fn enter(&self) -> io::Result<()> {
        close_on_exec();
        if let Some(cgroup) = &self.cgroup {
            cgroup.enter()?;
        }
        let entered = self.namespaces.as_ref().map_or(Ok(Entered::Same), namespaces::Plan::enter)?;
        self.resources.enter(entered)?;
        no_new_privileges()?;
        self.files.enter()?;
        capabilities::drop_most()?;
        self.syscalls.enter()
    }
}

/// Opens what a confinement needs and builds its filters.
///
/// The second value goes once everything that was confined has ended.
///
/// # Errors
/// When a layer that is there cannot be built. That one is not there is no error; [`report`] tells.
pub fn prepare(confinement: &Confinement) -> io::Result<(Ready, Option<Kept>)> {
    let (cgroup, kept) = match confinement.limits.processes {
        // Everybody but root is held by a resource limit.
        Some(most) if capabilities::is_root() => cgroup::make(most).unzip(),
        _ => (None, None),
    };
    let ready = Ready {
        files: files::Fence::build(confinement)?,
        syscalls: syscalls::Filters::build(confinement.network)?,
        namespaces: namespaces::plan(confinement),
        resources: resources::Plan::new(&confinement.limits),
        cgroup,
    };
    Ok((ready, kept))
}

/// What of a confinement is enforced on this machine.
#[must_use]
pub fn report(confinement: &Confinement) -> Report {
    let abi = files::abi();
    let filters = syscalls::is_available();
    let layer = |name, enforced, by: String| Layer { name, by, enforced };
    let lacks = |since: &str| format!("the kernel has no Landlock for it (since {since})");
    let files = match abi {
        0 => layer("files", false, lacks("5.13")),
        1..3 => layer("files", false, format!("Landlock {abi}: files outside can still be emptied (until Linux 6.2)")),
        _ => layer("files", true, format!("Landlock {abi}")),
    };
    let signals = match abi {
        0..6 => layer("signals", false, lacks("Linux 6.12")),
        _ => layer("signals", true, format!("Landlock {abi}")),
    };
    let system_calls = match filters {
        true => layer("system_calls", true, "seccomp".to_owned()),
        false => {
            layer("system_calls", false, "the kernel or this machine's architecture has no seccomp filter".to_owned())
        }
    };
    let dropped = if capabilities::is_root() { ", capabilities dropped" } else { "" };
    let privileges = layer("privileges", true, format!("no_new_privs{dropped}"));
    let attributes = match namespaces::are_available() {
        true => layer("attributes", true, "read-only mounts".to_owned()),
        false => layer(
            "attributes",
            false,
            "no mount namespace: owner, mode and times of files outside can change".to_owned(),
        ),
    };
    let network = network(confinement.network, filters, abi);
    let mut layers = vec![files, attributes, network, signals, system_calls, privileges];
    if confinement.limits.processes.is_some() {
        layers.push(layer("processes", true, processes().to_owned()));
    }
    if confinement.limits != super::Rlimits::default() {
        layers.push(layer("limits", true, "rlimit".to_owned()));
    }
    Report { layers }
}

fn network(network: Network, filters: bool, abi: i32) -> Layer {
    if network == Network::All {
        let by = if filters { "open; local sockets closed by seccomp" } else { "open, local sockets too: no seccomp" };
        return Layer { name: "network", by: by.to_owned(), enforced: filters };
    }
    let namespace = namespaces::are_available();
    let mut by = Vec::new();
    if filters {
        by.push("seccomp".to_owned());
    }
    if namespace {
        by.push("empty network namespace".to_owned());
    }
    if abi >= 4 {
        by.push(format!("Landlock {abi} (TCP)"));
    }
    let enforced = filters || namespace;
    Layer { name: "network", by: if by.is_empty() { "nothing".to_owned() } else { by.join(", ") }, enforced }
}

/// What holds the number of processes.
fn processes() -> &'static str {
    match (capabilities::is_root(), namespaces::are_available()) {
        (true, _) if cgroup::is_available() => "pids cgroup, and a watch",
        (true, _) => "a watch that ends all when there are too many",
        (false, true) => "rlimit in a user namespace, and a watch",
        (false, false) => "rlimit for the user, and a watch",
    }
}

/// Descriptors that were left open by whoever started us do not reach the command. Failing is no harm: ours close anyway.
fn close_on_exec() {
    const CLOEXEC: libc::c_uint = 4;
    #[expect(unsafe_code, reason = "there is no safe wrapper; it touches no memory")]
    // SAFETY: the call only marks descriptors, and takes numbers.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, CLOEXEC);
    }
}

fn no_new_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true).map_err(io::Error::from)
}

/// The result of a system call as a result.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
