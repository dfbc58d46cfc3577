//! Confinement layers on Linux: Landlock, seccomp, namespaces, capabilities, resource limits,
//! cgroups.

#[cfg(any(test, not(feature = "sandbox")))]
mod not_built;
pub mod attempts;
mod capabilities;
mod cgroup;
#[cfg(feature = "sandbox")]
mod landlock_rules;
mod namespaces;
mod new_root;
mod pid_namespace;
mod resources;
#[cfg(feature = "sandbox")]
mod syscalls;

use std::io;
use std::os::fd::OwnedFd;

use super::{Confinement, Layers, Machine, Network, Required};
#[cfg(not(feature = "sandbox"))]
use not_built::{landlock_rules, syscalls};

/// A confinement that a child can enter between fork and exec: all allocation and opening of files
/// is done.
#[derive(Debug)]
pub struct PreparedConfinement {
    files: landlock_rules::LandlockRuleset,
    syscalls: syscalls::Filters,
    namespaces: Option<namespaces::Plan>,
    resources: resources::Plan,
    cgroup: cgroup::CgroupEntry,
    report: OwnedFd,
    required: Required,
    network: Network,
    landlock: u8,
}

impl PreparedConfinement {
    /// Confines the calling thread and its descendants, and reports the entered layers. With a pid
    /// namespace this forks two more processes, and returns in the one that proceeds to exec.
    /// Async-signal-safe: it only makes system calls.
    ///
    /// # Errors
    /// A required layer is missing, or one could not be entered completely. The child must not exec
    /// then.
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

/// First byte of the entered layers in a report.
const ENTERED: u8 = b'L';

/// The parent's side of a confinement: the report of the child, and resources released once
/// everything confined has ended.
#[derive(Debug)]
pub struct ConfinementHandle {
    report: OwnedFd,
    cgroup: cgroup::CgroupGuard,
}

/// Report of a child.
#[derive(Debug, Default)]
pub struct ChildReport {
    /// Layers it entered; `None` if it failed before it could report.
    pub layers: Option<Layers>,
    /// Its process tree, if it has a pid namespace.
    pub tree: Option<ProcessTree>,
}

impl ConfinementHandle {
    /// Reads the child's report, once it was spawned or has failed.
    #[must_use]
    pub fn read_report(&self) -> ChildReport {
        let mut bytes = [0; 16];
        let length = rustix::io::read(&self.report, &mut bytes).unwrap_or(0);
        let (mut rest, mut reported) = (&bytes[..length], ChildReport::default());
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

    /// Kills everything that is still in its cgroup, whatever its process group, session and
    /// environment.
    pub fn clear(&self) {
        self.cgroup.clear();
    }

    /// Returns true if the kernel counts processes, in a cgroup.
    #[must_use]
    pub fn counts_processes(&self) -> bool {
        self.cgroup.counts_processes()
    }

    /// Returns true if the kernel killed a process because of the memory of all of them together.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        self.cgroup.ran_out_of_memory()
    }
}

/// A pid namespace, identified by its first process: when that ends, everything in it ends.
#[derive(Debug)]
pub struct ProcessTree(OwnedFd);

impl ProcessTree {
    /// Returns `None` where the kernel has no pidfds (before Linux 5.3), or if the process has
    /// already ended.
    fn of(first: i32) -> Option<Self> {
        let first = rustix::process::Pid::from_raw(first)?;
        rustix::process::pidfd_open(first, rustix::process::PidfdFlags::empty())
            .ok()
            .map(Self)
    }

    /// Kills the whole tree.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.0, rustix::process::Signal::KILL);
    }

    /// Returns true if the whole tree has ended: the kernel reports the end of the first process
    /// only after that of all others.
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

/// Opens the files that a confinement needs and builds its filters.
///
/// # Errors
/// An available layer cannot be built. A missing layer is not an error; the child reports it.
pub fn prepare(confinement: &Confinement) -> io::Result<(PreparedConfinement, ConfinementHandle)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let namespaces = namespaces::plan(confinement);
    if confinement.root.is_some() && namespaces.is_none() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (cgroup, guard) = cgroup::create(&confinement.limits);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let ready = PreparedConfinement {
        files: landlock_rules::LandlockRuleset::build(confinement)?,
        syscalls: syscalls::Filters::build(confinement.network)?,
        namespaces,
        resources: resources::Plan::new(&confinement.limits, guard.limits_memory()),
        cgroup,
        report: write,
        required: confinement.required,
        network: confinement.network,
        landlock: landlock_rules::abi(),
    };
    Ok((
        ready,
        ConfinementHandle {
            report: read,
            cgroup: guard,
        },
    ))
}

/// Returns the properties of this machine that affect confinements, besides the layers a process
/// enters.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        landlock: landlock_rules::abi(),
        root: capabilities::is_root(),
        cgroup: cgroup::is_available(),
    }
}

/// Lowers the priority of this process, so that the supervisor can still kill it on a busy machine.
fn yield_priority() {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: the call takes only a number.
    unsafe {
        libc::nice(NICENESS);
    }
}

/// Makes the kernel kill this process before others when memory runs out.
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

/// How much lower the priority of a confined process is.
const NICENESS: libc::c_int = 5;

/// Prevents descriptors inherited from our parent from reaching the command. Failure is harmless:
/// our own are close-on-exec anyway.
fn close_on_exec() {
    const CLOEXEC: libc::c_uint = 4;
    #[expect(unsafe_code, reason = "there is no safe wrapper; it touches no memory")]
    // SAFETY: the call only marks descriptors, and takes only numbers.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            CLOEXEC,
        );
    }
}

/// Converts the return value of a system call into a result.
fn checked(result: impl Into<libc::c_long>) -> io::Result<libc::c_long> {
    let result = result.into();
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
