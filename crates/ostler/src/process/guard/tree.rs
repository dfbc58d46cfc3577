//! The processes that a guard watches over: waiting for the agent, and ending everything it
//! started.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ostler_tools::confine::ProcessTree;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open};

use super::protocol::{Message, TERMINATE};
use crate::process::confined::ProcessLimit;
use crate::process::{END_POLLS, sweep};

/// How long the agent may take to exit after Ostler has exited.
const AGENT_GRACE: Duration = Duration::from_millis(1200);

/// How long leftover processes may take to exit before they are killed.
const LEFTOVER_GRACE: Duration = Duration::from_millis(300);

/// Interval at which the end of processes is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval at which orphans are reaped.
const REAP_INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Interval at which the agent is polled if there is no pidfd.
const WAIT_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Interval at which the processes of a confined agent are counted.
const COUNT_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The agent and everything it started.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) agent: Pid,
    /// The pid namespace of all its processes. Without one, they are descendants of this process.
    pub(super) namespace: Option<ProcessTree>,
}

impl Tree {
    /// Waits for the agent to exit while following Ostler's commands. Returns `None` if its exit
    /// status is unavailable.
    pub(super) fn watch(
        &self,
        mut socket: &UnixStream,
        mut limit: Option<ProcessLimit>,
    ) -> Option<WaitStatus> {
        let agent = self.agent;
        // Without a pidfd (an old kernel, a strict sandbox) its exit is polled.
        let pidfd = pidfd_open(agent, PidfdFlags::empty()).ok();
        let interval = match (&limit, &pidfd) {
            (Some(_), _) => COUNT_INTERVAL,
            (None, Some(_)) => REAP_INTERVAL,
            (None, None) => WAIT_INTERVAL,
        };
        let mut is_connected = true;
        loop {
            let mut fds = Vec::with_capacity(2);
            if is_connected {
                fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
            }
            fds.extend(pidfd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let _ = poll(&mut fds, Some(&interval));
            let has_command = is_connected && !fds[0].revents().is_empty();
            match reap(agent) {
                Reaped::Running => {}
                Reaped::Gone(status) => return status,
            }
            if limit
                .as_mut()
                .is_some_and(|limit| limit.is_exceeded(|| sweep::descendants(own_pid()).len()))
            {
                Message::send(&[Message::Overran], socket);
                self.kill();
                limit = None;
            }
            if has_command {
                let mut command = [0u8; 1];
                match socket.read(&mut command) {
                    Ok(1) if command == [TERMINATE] => signal_group(agent, Signal::TERM),
                    Ok(1) => self.kill(),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => {
                        is_connected = false;
                        signal_group(agent, Signal::TERM);
                        if let Some(status) = self.wait_for(AGENT_GRACE) {
                            return status;
                        }
                        self.kill();
                    }
                }
            }
        }
    }

    /// Kills everything. The agent's status is left for [`Tree::watch`] to reap.
    fn kill(&self) {
        match &self.namespace {
            Some(namespace) => {
                namespace.kill();
                // The process that waits for the namespace may have been suspended.
                let _ = rustix::process::kill_process(self.agent, Signal::CONT);
            }
            None => kill_descendants(),
        }
    }

    /// Waits for the agent to exit, for at most `grace`.
    fn wait_for(&self, grace: Duration) -> Option<Option<WaitStatus>> {
        let mut waited = Duration::ZERO;
        while waited < grace {
            if let Reaped::Gone(status) = reap(self.agent) {
                return Some(status);
            }
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        None
    }

    /// Ends what is left after the agent has exited. Returns true if all of it is known to have
    /// ended.
    pub(super) fn end(&self) -> bool {
        let ended = match &self.namespace {
            // It has ended already, unless the process that waits for it was killed.
            Some(namespace) => {
                namespace.kill();
                let mut polls = 0;
                while !namespace.is_gone() && polls < END_POLLS {
                    std::thread::sleep(POLL_INTERVAL);
                    polls += 1;
                }
                namespace.is_gone()
            }
            None => end_descendants(LEFTOVER_GRACE),
        };
        let _ = reap(self.agent); // zombies would keep the cgroup busy
        ended
    }
}

enum Reaped {
    Running,
    Gone(Option<WaitStatus>),
}

/// Reaps every child that has exited, and returns the agent's status if it is among them.
fn reap(agent: Pid) -> Reaped {
    let mut reaped = Reaped::Running;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == agent => reaped = Reaped::Gone(Some(status)),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            // No child at all: its status was discarded.
            Err(rustix::io::Errno::CHILD) if matches!(reaped, Reaped::Running) => {
                return Reaped::Gone(None);
            }
            Ok(None) | Err(_) => return reaped,
        }
    }
}

fn signal_group(agent: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(agent, signal);
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Kills every descendant. The agent's status is left for [`Tree::watch`] to reap.
fn kill_descendants() {
    // Repeat, to catch processes that fork faster than they are found.
    for _ in 0..END_POLLS {
        let left = sweep::descendants(own_pid());
        if left.is_empty() {
            return;
        }
        sweep::signal(&left, Signal::KILL);
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Ends what is left once the agent has been reaped: first with SIGTERM and `grace`, then with
/// SIGKILL. Returns true if nothing is left.
fn end_descendants(grace: Duration) -> bool {
    if !has_children() {
        return true;
    }
    sweep::signal(&sweep::descendants(own_pid()), Signal::TERM);
    let mut waited = Duration::ZERO;
    while waited < grace && has_children() {
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
    for _ in 0..END_POLLS {
        if !has_children() {
            return true;
        }
        sweep::signal(&sweep::descendants(own_pid()), Signal::KILL);
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Reaps every child that has exited, and returns true if any is left. Orphans are adopted by this
/// process, so without children it has no descendants either.
fn has_children() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false, // ECHILD
        }
    }
}
