//! The layers of Linux: Landlock, seccomp, namespaces, capabilities, resource limits, cgroups.

#[cfg(any(test, not(feature = "sandbox")))]
mod absent;
pub mod attempts;
mod capabilities;
mod cgroup;
#[cfg(feature = "sandbox")]
mod files;
mod namespaces;
mod pid_namespace;
mod resources;
#[cfg(feature = "sandbox")]
mod syscalls;

use std::io;
use std::os::fd::OwnedFd;

use super::{Confinement, Layers, Machine, Network, Required};
#[cfg(not(feature = "sandbox"))]
use absent::{files, syscalls};

/// A confinement that a child can enter between fork and exec: everything that allocates memory or opens files is done.
#[derive(Debug)]
pub struct Ready {
    files: files::Fence,
    syscalls: syscalls::Filters,
    namespaces: Option<namespaces::Plan>,
    resources: resources::Plan,
    cgroup: cgroup::Entry,
    report: OwnedFd,
    required: Required,
    network: Network,
    landlock: u8,
}

impl Ready {
    /// Confines the calling thread and whatever it starts, and reports the layers that it entered. With a pid namespace two more
    /// processes come of it; this returns in the one that goes on to exec. Async-signal-safe: it only makes system calls.
    ///
    /// # Errors
    /// When a layer that is required is missing, or one could not be entered as a whole; the child must not go on then.
    pub fn enter(&self) -> io::Result<()> {
        close_on_exec();
        be_killed_first();
        self.cgroup.enter()?;
        let mut layers = match &self.namespaces {
            Some(plan) => plan.enter(&self.report)?,
            None => Layers::default(),
        };
        yield_priority();
        self.resources.enter(layers)?;
        rustix::thread::set_no_new_privs(true)?;
        layers = layers.with(self.files.enter(layers));
        capabilities::drop_all()?;
        layers = layers.with(self.syscalls.enter(layers));
        rustix::io::write(&self.report, &[ENTERED, layers.bits()])?;
        match self.required.is_met(layers, self.landlock, self.network) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ENOTSUP)),
        }
    }
}

/// What the layers begin with in a report.
const ENTERED: u8 = b'L';

/// What the parent holds of a confinement: the report of the child, and what goes once everything confined has ended.
#[derive(Debug)]
pub struct Held {
    report: OwnedFd,
    cgroup: cgroup::Kept,
}

/// What a child has reported.
#[derive(Debug, Default)]
pub struct Reported {
    /// The layers that it has entered; none if it failed before it could say.
    pub layers: Option<Layers>,
    /// Its process tree, if it has a pid namespace.
    pub tree: Option<ProcessTree>,
}

impl Held {
    /// Reads what the child has reported, once it was spawned or has failed.
    #[must_use]
    pub fn read_report(&self) -> Reported {
        let mut bytes = [0; 16];
        let length = rustix::io::read(&self.report, &mut bytes).unwrap_or(0);
        let (mut rest, mut reported) = (&bytes[..length], Reported::default());
        loop {
            match rest {
                [ENTERED, bits, more @ ..] => {
                    reported.layers = Some(Layers::from_bits(*bits));
                    rest = more;
                }
                [pid_namespace::FIRST, a, b, c, d, more @ ..] => {
                    reported.tree = ProcessTree::of(i32::from_ne_bytes([*a, *b, *c, *d]));
                    rest = more;
                }
                _ => return reported,
            }
        }
    }

    /// Kills everything that is still in its cgroup, whatever it did to its group, session and environment.
    pub fn clear(&self) {
        self.cgroup.clear();
    }

    /// Whether the kernel counts processes, in a cgroup.
    #[must_use]
    pub fn counts_processes(&self) -> bool {
        self.cgroup.counts_processes()
    }

    /// Whether the kernel killed a process for the memory that all of them had together.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        self.cgroup.ran_out_of_memory()
    }
}

/// A pid namespace, held by its first process: with it everything in it ends.
#[derive(Debug)]
pub struct ProcessTree(OwnedFd);

impl ProcessTree {
    /// None where the kernel has no descriptors for processes (before Linux 5.3), or it is gone already.
    fn of(first: i32) -> Option<Self> {
        let first = rustix::process::Pid::from_raw(first)?;
        rustix::process::pidfd_open(first, rustix::process::PidfdFlags::empty())
            .ok()
            .map(Self)
    }

    /// Kills all of it.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.0, rustix::process::Signal::KILL);
    }

    /// Whether all of it has ended: the kernel tells of the end of the first process only after that of all others.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut end = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut end, Some(&now)).is_ok() && end[0].revents().contains(PollFlags::IN)
    }
}

/// Opens what a confinement needs and builds its filters.
///
/// # Errors
/// When a layer that exists cannot be built. A missing layer is not an error; the child reports it.
pub fn prepare(confinement: &Confinement) -> io::Result<(Ready, Held)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (cgroup, kept) = cgroup::make(&confinement.limits);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let ready = Ready {
        files: files::Fence::build(confinement)?,
        syscalls: syscalls::Filters::build(confinement.network)?,
        namespaces: namespaces::plan(confinement),
        resources: resources::Plan::new(&confinement.limits, kept.limits_memory()),
        cgroup,
        report: write,
        required: confinement.required,
        network: confinement.network,
        landlock: files::abi(),
    };
    Ok((
        ready,
        Held {
            report: read,
            cgroup: kept,
        },
    ))
}

/// What decides about confinements on this machine besides the layers that a process enters.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        landlock: files::abi(),
        root: capabilities::is_root(),
        cgroup: cgroup::is_available(),
    }
}

/// Gives way to whoever guards this process: a machine that is busy with it must still be able to end it.
fn yield_priority() {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: the call takes a number only.
    unsafe {
        libc::nice(LESS);
    }
}

/// Has the kernel kill this process before others when memory runs out.
fn be_killed_first() {
    use rustix::fs::{Mode, OFlags, open};
    if let Ok(file) = open(
        c"/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        let _ = rustix::io::write(&file, b"500");
    }
}

/// How much less a confined process gets than its guard.
const LESS: libc::c_int = 5;

/// Descriptors that were left open by whoever started us do not reach the command. Failing is no harm: ours close anyway.
fn close_on_exec() {
    const CLOEXEC: libc::c_uint = 4;
    #[expect(unsafe_code, reason = "there is no safe wrapper; it touches no memory")]
    // SAFETY: the call only marks descriptors, and takes numbers.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            CLOEXEC,
        );
    }
}

/// The result of a system call as a result.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
