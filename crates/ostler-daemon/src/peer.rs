//! Identity of a caller on the Unix socket, by what the kernel says and not by what it claims.
//!
//! A process of a session descends from the daemon: agents are started by it, and whatever they
//! leave behind is adopted by their guard or, if that is gone, by the daemon itself, which is a
//! subreaper. So a descendant of the daemon is an agent, even if it left its process group and
//! cleared its environment.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::net::UnixStream;

use crate::scope::Caller;

/// Maximum depth of the process tree that is examined.
const MAX_DEPTH: usize = 256;

/// Makes the daemon adopt the orphans of its sessions.
pub(crate) fn become_subreaper() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "orphaned processes of agents are not adopted");
    }
}

/// Number of open files that the daemon asks for.
const MAX_DESCRIPTORS: u64 = 65_536;

/// Allows more open files, if the system permits it: each session and each client needs some.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Agents inherit it, and some programs work through all possible descriptors.
    let wanted = limit
        .maximum
        .map_or(MAX_DESCRIPTORS, |most| most.min(MAX_DESCRIPTORS));
    let raised = Rlimit {
        current: limit.current.map(|current| current.max(wanted)),
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "limit on open files not raised");
    }
}

/// Returns who connected, or an error if that is another user or cannot be determined.
///
/// `session_of` returns the session whose agent is among these processes. The mark in a caller's
/// environment does not decide which session it belongs to: the caller could have changed it.
#[cfg(target_os = "linux")]
pub(crate) fn identify(
    stream: &UnixStream,
    session_of: impl Fn(&[i32]) -> Option<String>,
) -> io::Result<Caller> {
    let peer = stream.peer_cred()?;
    let own = rustix::process::getuid().as_raw();
    if peer.uid() != own && peer.uid() != 0 {
        return Err(io::Error::other("the caller is another user"));
    }
    let caller = PeerProcess::of(stream, peer.pid())?;
    let pid = caller.pid;
    let lineage = lineage(pid);
    // A caller that hides its environment is not trusted.
    let is_marked = environ(pid).is_none_or(|environ| has_mark(&environ))
        || lineage.iter().flatten().any(|pid| is_of_session(*pid));
    // The id may have been reused while the lineage was read.
    caller.check()?;
    let lineage =
        lineage.ok_or_else(|| io::Error::other("the caller's ancestors cannot be read"))?;
    let daemon = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    Ok(match lineage.iter().position(|pid| *pid == daemon) {
        Some(at) if at > 0 => Caller::Agent {
            session: session_of(&lineage[..at]),
        },
        // An agent of another Ostler, or one that escaped.
        None if is_marked => Caller::Agent { session: None },
        // Also the daemon itself, in tests that call it from within.
        _ => Caller::User {
            pid: u32::try_from(pid).ok(),
        },
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn identify(
    stream: &UnixStream,
    _: impl Fn(&[i32]) -> Option<String>,
) -> io::Result<Caller> {
    let peer = stream.peer_cred()?;
    if peer.uid() != rustix::process::getuid().as_raw() && peer.uid() != 0 {
        return Err(io::Error::other("the caller is another user"));
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    Ok(Caller::User { pid })
}

/// The process that connected. It must still exist after its properties were read.
#[cfg(target_os = "linux")]
struct PeerProcess {
    pid: i32,
    identity: Identity,
}

/// What distinguishes a process from a later one with the same id.
#[cfg(target_os = "linux")]
enum Identity {
    /// A handle from the kernel (Linux 6.5).
    Pidfd(OwnedFd),
    /// Its start time.
    Start(u64),
}

#[cfg(target_os = "linux")]
impl PeerProcess {
    fn of(stream: &UnixStream, pid: Option<i32>) -> io::Result<Self> {
        use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
        match getsockopt(stream, PeerPidfd) {
            Ok(pidfd) => Ok(Self {
                pid: pid_of(&pidfd).ok_or_else(has_exited)?,
                identity: Identity::Pidfd(pidfd),
            }),
            // An older kernel.
            Err(nix::errno::Errno::ENOPROTOOPT) => {
                let pid = pid.ok_or_else(has_exited)?;
                let (_, start) = stat(pid).ok_or_else(has_exited)?;
                Ok(Self {
                    pid,
                    identity: Identity::Start(start),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self) -> io::Result<()> {
        let is_same = match &self.identity {
            Identity::Pidfd(pidfd) => pid_of(pidfd) == Some(self.pid),
            Identity::Start(start) => stat(self.pid).is_some_and(|(_, now)| now == *start),
        };
        is_same.then_some(()).ok_or_else(has_exited)
    }
}

/// Returns the id of the process behind a handle; `None` if it has exited.
#[cfg(target_os = "linux")]
fn pid_of(pidfd: &OwnedFd) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(target_os = "linux")]
fn has_exited() -> io::Error {
    io::Error::other("the caller has exited")
}

/// Returns the process and its ancestors, nearest first; `None` if one of them cannot be read.
#[cfg(target_os = "linux")]
fn lineage(pid: i32) -> Option<Vec<i32>> {
    let mut lineage = vec![pid];
    let mut at = pid;
    while at > 1 {
        let (parent, _) = stat(at)?;
        if parent == 0 {
            break; // the process outside of this namespace
        }
        lineage.push(parent);
        if lineage.len() > MAX_DEPTH {
            return None;
        }
        at = parent;
    }
    Some(lineage)
}

/// Returns the parent and the start time of a process.
#[cfg(target_os = "linux")]
fn stat(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(17)?.parse().ok()?))
}

/// Returns true if a process belongs to a session of any Ostler: it has a mark, or it is a guard.
#[cfg(target_os = "linux")]
fn is_of_session(pid: i32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_guard = command
        .split(|byte| *byte == 0)
        .any(|word| word.starts_with(b"__guard"));
    is_guard || environ(pid).is_some_and(|environ| has_mark(&environ))
}

#[cfg(target_os = "linux")]
fn environ(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Returns true if an environment has the mark of a session.
#[cfg(target_os = "linux")]
fn has_mark(environ: &[u8]) -> bool {
    let prefix = format!("{}=", ostler::host::SESSION_VARIABLE);
    let mut entries = environ.split(|byte| *byte == 0);
    entries.any(|entry| entry.starts_with(prefix.as_bytes()))
}

/// How often orphans that have exited are reaped.
const REAP_INTERVAL: std::time::Duration = std::time::Duration::from_secs(5);

/// Reaps adopted processes that have exited (P11). A child that the daemon itself waits for is
/// reaped within moments, so only those that are left at the next look are taken.
pub(crate) async fn reap_orphans() {
    #[cfg(target_os = "linux")]
    {
        let mut before = Vec::new();
        loop {
            tokio::time::sleep(REAP_INTERVAL).await;
            let zombies = zombie_children();
            for pid in zombies.iter().filter(|pid| before.contains(*pid)) {
                let pid = rustix::process::Pid::from_raw(*pid);
                let _ = rustix::process::waitpid(pid, rustix::process::WaitOptions::NOHANG);
            }
            before = zombies;
        }
    }
}

/// Returns the children of this process that have exited.
#[cfg(target_os = "linux")]
fn zombie_children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| {
            let pids = list
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<i32>>()
        })
        .collect();
    let is_zombie = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
    };
    children.into_iter().filter(is_zombie).collect()
}
