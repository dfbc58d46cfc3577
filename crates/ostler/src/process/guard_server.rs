//! The guard server as seen by Ostler: one process per guard program, started when it is first
//! needed and again if it has ended.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, WaitOptions};
use tracing::{debug, warn};

use super::guard::{self, DESCRIPTORS, Forked};
use crate::host::GuardProgram;

static SERVERS: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// Starts a server for this program, unless one is running.
pub(super) fn start(program: &GuardProgram) {
    let mut servers = servers();
    if !servers.iter().any(|server| server.program == *program)
        && let Ok(server) = Server::start(program)
    {
        servers.push(server);
    }
}

/// Forks a server for this program. Returns in the server too, with its exit code.
pub(super) fn fork(program: &GuardProgram) -> Option<i32> {
    let (ours, theirs) = sockets().ok()?;
    match guard::fork() {
        Ok(Forked::Child) => {
            drop(ours);
            Some(guard::serve_as_fork(theirs))
        }
        Ok(Forked::Parent(process)) => {
            servers().push(Server {
                program: program.clone(),
                process,
                socket: ours,
            });
            None
        }
        Err(_) => None, // the first agent starts one, or reports the error
    }
}

/// Returns the two ends of the socket between Ostler and a server.
fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Sends the descriptors of a session to the server, which forks a guard for it.
pub(super) fn send(
    program: &GuardProgram,
    descriptors: [BorrowedFd<'_>; DESCRIPTORS],
) -> io::Result<()> {
    let mut servers = servers();
    let running = servers.iter().position(|server| server.program == *program);
    let index = match running {
        Some(index) => index,
        None => {
            servers.push(Server::start(program)?);
            servers.len() - 1
        }
    };
    match servers[index].send(descriptors) {
        Err(Errno::PIPE | Errno::CONNRESET) => {}
        sent => return Ok(sent?),
    }
    servers.swap_remove(index).reap();
    drop(servers);
    match running {
        Some(_) => send(program, descriptors),
        None => Err(io::Error::other("the guard server exited")),
    }
}

fn servers() -> MutexGuard<'static, Vec<Server>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server. It exits when its socket is closed, which happens when this process exits.
struct Server {
    program: GuardProgram,
    process: Pid,
    socket: OwnedFd,
}

impl Server {
    fn start(program: &GuardProgram) -> io::Result<Self> {
        let (socket, theirs) = sockets()?;
        let process = Command::new(&program.program)
            .args(&program.args)
            .env_clear() // an agent gets its variables from its session
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        debug!(server = process.id(), "guard server started");
        let process = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        Ok(Self {
            program: program.clone(),
            process: process.ok_or(io::ErrorKind::Unsupported)?,
            socket,
        })
    }

    fn send(&self, descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(
            &self.socket,
            &[io::IoSlice::new(&[0])], // descriptors need at least one byte of data
            &mut ancillary,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        )?;
        // Wake the server, in case it was suspended.
        let _ = rustix::process::kill_process(self.process, Signal::CONT);
        Ok(())
    }

    /// Reaps a server that has closed its socket.
    fn reap(self) {
        // A program that is not a guard may still be running.
        let _ = rustix::process::kill_process(self.process, Signal::KILL);
        let status = rustix::process::waitpid(Some(self.process), WaitOptions::empty());
        warn!(server = ?self.process, ?status, "the guard server ended");
    }
}
