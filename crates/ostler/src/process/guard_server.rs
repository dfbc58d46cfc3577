//! The guard server as seen by Ostler: one process per guard program, started when it is first
//! needed and again if it has ended.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::{Pid, Signal};
use tracing::{debug, warn};

use super::guard::DESCRIPTORS;
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
    process: Child,
    socket: OwnedFd,
}

impl Server {
    fn start(program: &GuardProgram) -> io::Result<Self> {
        let (socket, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let process = Command::new(&program.program)
            .args(&program.args)
            .env_clear() // an agent gets its variables from its session
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        debug!(server = process.id(), "guard server started");
        Ok(Self {
            program: program.clone(),
            process,
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
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
        Ok(())
    }

    /// Reaps a server that has closed its socket.
    fn reap(mut self) {
        let _ = self.process.kill(); // a program that is not a guard may still be running
        let status = self.process.wait();
        warn!(
            server = self.process.id(),
            ?status,
            "the guard server ended"
        );
    }
}
