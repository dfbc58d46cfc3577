//! Identity of a caller on this machine, by what the kernel says and not by what it claims.
//!
//! A process of a session descends from the daemon: agents are started by it, and whatever they
//! leave behind is adopted by their guard or, if that is gone, by the daemon itself, which is a
//! subreaper. So a descendant of the daemon is an agent, even if it left its process group and
//! cleared its environment.

#[cfg(target_os = "linux")]
mod tcp;

#[cfg(target_os = "linux")]
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
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
        Some(at) if at > 0 => descendant(&lineage[..at], session_of),
        // An agent of another Ostler, or one that escaped.
        None if is_marked => Caller::Agent {
            session: None,
            claims: lineage
                .iter()
                .find_map(|pid| environ(*pid).and_then(|environ| mark(&environ))),
        },
        // Also the daemon itself, in tests that call it from within.
        _ => Caller::User {
            pid: u32::try_from(pid).ok(),
        },
    })
}

/// Returns the caller for a descendant of the daemon, given with its ancestors below the daemon.
#[cfg(target_os = "linux")]
fn descendant(lineage: &[i32], session_of: impl Fn(&[i32]) -> Option<String>) -> Caller {
    let session = session_of(lineage);
    // Nothing but its mark tells which session an orphan belongs to.
    let environ = lineage.first().and_then(|pid| environ(*pid));
    let claims = environ.filter(|_| session.is_none());
    Caller::Agent {
        session,
        claims: claims.and_then(|environ| mark(&environ)),
    }
}

/// Returns the agent at the other end of a TCP connection on this machine; `None` if no process of
/// a session holds it. Reads `/proc`, so it may block.
///
/// `client` and `server` are the addresses of the two ends. The process may have passed the
/// connection on or have exited, so this is no proof that the caller is not an agent.
#[cfg(target_os = "linux")]
pub(crate) fn agent_behind(
    client: SocketAddr,
    server: SocketAddr,
    session_of: impl Fn(&[i32]) -> Option<String>,
) -> Option<Caller> {
    let socket = format!("socket:[{}]", tcp::inode(client, server)?);
    let daemon = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let mut known = HashMap::new();
    let mut is_of_session = |pid| *known.entry(pid).or_insert_with(|| is_of_session(pid));
    let processes = all_processes().map(|pid| {
        let kin = Kin::of(lineage(pid), daemon, &mut is_of_session);
        let held = match kin {
            Kin::Descendant(_) | Kin::OtherAgent => tcp::held_by_threads(pid, &socket),
            _ => tcp::held(pid, &socket),
        };
        (kin, held)
    });
    match holder(processes)? {
        Holder::Descendant(lineage) => Some(descendant(&lineage, session_of)),
        Holder::Agent => Some(Caller::Agent {
            session: None,
            claims: None,
        }),
    }
}

/// How a process is related to the daemon.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, PartialEq)]
enum Kin {
    /// It is the daemon.
    Daemon,
    /// It descends from the daemon. It and its ancestors below the daemon, nearest first.
    Descendant(Vec<i32>),
    /// It belongs to a session of another Ostler.
    OtherAgent,
    /// It is none of these.
    Other,
    /// One of its ancestors, or it itself, has exited meanwhile.
    Unknown,
}

#[cfg(target_os = "linux")]
impl Kin {
    fn of(lineage: Option<Vec<i32>>, daemon: i32, is_of_session: impl FnMut(i32) -> bool) -> Self {
        let Some(mut lineage) = lineage else {
            return Self::Unknown;
        };
        match lineage.iter().position(|pid| *pid == daemon) {
            Some(0) => Self::Daemon,
            Some(at) => {
                lineage.truncate(at);
                Self::Descendant(lineage)
            }
            None if lineage.into_iter().any(is_of_session) => Self::OtherAgent,
            None => Self::Other,
        }
    }
}

/// An agent that holds a connection.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq)]
enum Holder {
    /// A descendant of the daemon, with its ancestors below the daemon.
    Descendant(Vec<i32>),
    /// An agent of which nothing else is known.
    Agent,
}

/// Decides which agent holds a connection; `None` if none does.
///
/// A process can make its open files unreadable. So if no process is seen to hold the connection,
/// and an agent hides its files, that one is taken for the holder.
#[cfg(target_os = "linux")]
fn holder(processes: impl Iterator<Item = (Kin, tcp::Held)>) -> Option<Holder> {
    use tcp::Held;
    let (mut found, mut is_held, mut is_hidden) = (None, false, false);
    for (kin, held) in processes {
        is_held |= held == Held::Yes;
        match (kin, held) {
            (Kin::Descendant(lineage), Held::Yes) => return Some(Holder::Descendant(lineage)),
            (Kin::Descendant(_) | Kin::OtherAgent | Kin::Unknown, Held::Unreadable) => {
                is_hidden = true;
            }
            // An unknown one runs, so its ancestors were only just exiting.
            (Kin::OtherAgent | Kin::Unknown, Held::Yes) => found = Some(Holder::Agent),
            _ => {}
        }
    }
    found.or_else(|| (is_hidden && !is_held).then_some(Holder::Agent))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn agent_behind(
    _: SocketAddr,
    _: SocketAddr,
    _: impl Fn(&[i32]) -> Option<String>,
) -> Option<Caller> {
    None
}

/// Returns the ids of all processes.
#[cfg(target_os = "linux")]
fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
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
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_guard = name.strip_suffix(b"\n") == Some(ostler::guard::PROCESS_NAME.to_bytes());
    is_guard || environ(pid).is_some_and(|environ| has_mark(&environ))
}

#[cfg(target_os = "linux")]
fn environ(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Returns true if an environment has the mark of a session.
#[cfg(target_os = "linux")]
fn has_mark(environ: &[u8]) -> bool {
    mark(environ).is_some()
}

/// Returns the mark of a session in an environment: its id.
#[cfg(target_os = "linux")]
fn mark(environ: &[u8]) -> Option<String> {
    let prefix = format!("{}=", ostler::host::SESSION_VARIABLE);
    let mut entries = environ.split(|byte| *byte == 0);
    let id = entries.find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(id).into_owned())
}

/// Returns the parent of a process. That of a guarded agent is its guard, which adopts whatever the
/// agent leaves behind.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    #[cfg(target_os = "linux")]
    return stat(pid).map(|(parent, _)| parent);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    // P12: a caller whose id belongs to another process by now is not served.
    #[tokio::test]
    async fn a_reused_process_id_is_noticed() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let caller = PeerProcess::of(&stream, Some(own)).unwrap();
        assert_eq!(caller.pid, own);
        caller.check().unwrap();
        let (_, start) = stat(own).unwrap();
        for (start, is_same) in [(start, true), (start + 1, false)] {
            let caller = PeerProcess {
                pid: own,
                identity: Identity::Start(start),
            };
            assert_eq!(caller.check().is_ok(), is_same);
        }
        let exited = PeerProcess {
            pid: i32::MAX,
            identity: Identity::Start(start),
        };
        assert!(exited.check().is_err());
    }

    // A process that hides its files (`PR_SET_DUMPABLE`) is not admitted as a user for that.
    #[test]
    fn an_agent_that_hides_its_files_is_still_an_agent() {
        use tcp::Held::{No, Unreadable, Yes};
        let daemon = 10;
        let kin = |lineage: &[i32]| Kin::of(Some(lineage.to_vec()), daemon, |pid| pid == 99);
        let (own, agent) = (kin(&[10, 1]), kin(&[30, 20, 10, 1]));
        let (user, other) = (kin(&[40, 1]), kin(&[50, 99, 1]));
        assert_eq!(own, Kin::Daemon);
        assert_eq!(agent, Kin::Descendant(vec![30, 20]));
        assert_eq!((&user, &other), (&Kin::Other, &Kin::OtherAgent));
        let decide = |processes: &[(&Kin, tcp::Held)]| {
            let processes = processes.iter().map(|(kin, held)| ((*kin).clone(), *held));
            holder(processes)
        };
        let found = Some(Holder::Descendant(vec![30, 20]));
        assert_eq!(decide(&[(&own, No), (&agent, Yes), (&user, No)]), found);
        assert_eq!(decide(&[(&other, Yes), (&agent, Yes)]), found);
        assert_eq!(decide(&[(&agent, No), (&other, Yes)]), Some(Holder::Agent));
        assert_eq!(decide(&[(&Kin::Unknown, Yes)]), Some(Holder::Agent));
        let hidden = [(&own, No), (&agent, Unreadable), (&user, No)];
        assert_eq!(decide(&hidden), Some(Holder::Agent));
        for agent in [&agent, &other, &Kin::Unknown] {
            let hidden = [(&user, Unreadable), (agent, Unreadable)];
            assert_eq!(decide(&hidden), Some(Holder::Agent));
        }
        // The connection of a user, while an agent hides its files.
        assert_eq!(decide(&[(&agent, Unreadable), (&user, Yes)]), None);
        assert_eq!(decide(&[(&agent, Unreadable), (&own, Yes)]), None);
        // A process of another user, and no agent that hides anything.
        assert_eq!(decide(&[(&agent, No), (&user, Unreadable)]), None);
    }

    #[test]
    fn marks_are_read_from_an_environment() {
        let variable = ostler::host::SESSION_VARIABLE;
        let environ = format!("A=b\0{variable}=abc\0C=d\0");
        assert_eq!(mark(environ.as_bytes()).as_deref(), Some("abc"));
        assert_eq!(mark(b"A=b\0"), None);
    }
}
