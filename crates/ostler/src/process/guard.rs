//! The guard: a small process between Ostler and an agent that outlives Ostler by as long as it takes to clean up.
//!
//! Why a separate process: when Ostler is killed with SIGKILL it cannot do anything any more, and the kernel's "kill me
//! when my parent dies" reaches the agent but not the shells that the agent started in other sessions. The guard makes
//! itself their reaper (`PR_SET_CHILD_SUBREAPER`), so that every process the agent ever starts stays its descendant,
//! whatever it does to its group, session or environment; and it holds one end of a socket whose other end closes
//! when Ostler goes. A confined child has a pid namespace where the system gives one: then one signal ends all of it.
//!
//! The agent's stdin, stdout and stderr are passed on to it as they are: no byte goes through the guard.
//!
//! What is said over the socket, one line each. Guard to Ostler: `layers BITS` for a confined child, `pid N` or
//! `fail ERRNO`, then `exit CODE` or `signal N` once nothing is left; before that `overran 0` if there were more processes
//! than a confinement allows, `memory 0` if the kernel killed for memory, `left 0` if something could not be seen to end.
//! Ostler to guard: `T` (tell the agent to end), `K` (kill everything).
//!
//! A program that embeds the library and wants the same promise calls [`run`] at the start of its `main` when its first
//! argument is one that it chose, and names itself and that argument in [`crate::GuardProgram`].

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ostler_tools::confine::{Confinement, ConfinementHandle, ProcessTree};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open};

use super::confined::{Crowd, confine};
use super::{LAST_LOOKS, PreparedCommand, sweep};

/// The descriptor under which the guard finds its socket.
pub(super) const SOCKET: i32 = 3;

/// How long an agent may take to end by itself once Ostler is gone.
const LAST_GRACE: Duration = Duration::from_millis(1200);

/// How long what an agent left behind may take to end before it is killed.
const SWEEP_GRACE: Duration = Duration::from_millis(300);

/// The interval at which an end is looked for.
const STEP: Duration = Duration::from_millis(10);

/// How often orphans that ended are taken note of.
const REAP_EVERY: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// How often an agent is looked at where the kernel does not tell of its end.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// How often the processes of a confined agent are counted.
const COUNT_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The word for a limit of processes that was passed.
pub(super) const OVERRAN: &str = "overran";
/// The word for a process that was killed for memory.
pub(super) const MEMORY: &str = "memory";
/// The word for processes that could not be seen to end.
pub(super) const LEFT: &str = "left";
/// The word for the layers that the child has entered.
pub(super) const LAYERS: &str = "layers";

/// Runs the guard: starts the agent, and returns when it and all that it started are gone.
///
/// `args` is what follows the argument by which the embedding program knows that it is to be the guard; their meaning is
/// this library's own. The result is the exit code for the guard's process. It must be called in a process of its own,
/// started by this library, before any thread is started.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let _ = rustix::thread::set_name(c"agent-guard"); // `killall -9 ostler` is not meant for this process
    let Ok(mut socket) = socket() else { return 70 };
    let Some(Orders {
        files,
        confinement,
        program,
        args,
    }) = orders(args)
    else {
        return 70;
    };
    stay();
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        let _ = socket.write_all(b"fail 0\n");
        return 70;
    }
    let mut command = std::process::Command::new(program);
    command.args(args).process_group(0);
    super::direct::die_with_us(&mut command);
    let confined = confinement
        .as_ref()
        .map(|confinement| confine(&mut command, confinement))
        .transpose();
    let (agent, held) = match confined {
        Ok(held) => (command.spawn(), held),
        Err(error) => (Err(error), None),
    };
    let reported = held.as_ref().map(ConfinementHandle::read_report).unwrap_or_default();
    if let Some(layers) = reported.layers {
        let _ = writeln!(socket, "{LAYERS} {}", layers.bits());
    }
    let agent = match agent {
        Ok(agent) => agent.id(),
        Err(error) => {
            let _ = writeln!(socket, "fail {}", error.raw_os_error().unwrap_or(0));
            return 70;
        }
    };
    drop(command); // with it goes what only a child needs
    let Some(agent) = i32::try_from(agent).ok().and_then(Pid::from_raw) else {
        return 70;
    };
    let_go_of_streams();
    let _ = writeln!(socket, "pid {}", agent.as_raw_nonzero());
    let crowd = Crowd::of(
        confinement.as_ref(),
        held.as_ref(),
        reported.layers.unwrap_or_default(),
    );
    let tree = Tree {
        agent,
        namespace: reported.tree,
    };
    let status = tree.watch(&mut socket, crowd);
    if !tree.end(SWEEP_GRACE) {
        let _ = writeln!(socket, "{LEFT} 0");
    }
    if held.as_ref().is_some_and(ConfinementHandle::ran_out_of_memory) {
        let _ = writeln!(socket, "{MEMORY} 0");
    }
    drop(held);
    for file in files {
        // Ostler does it too, unless it was killed.
        let _ = std::fs::remove_file(&file)
            .or_else(|_| ostler_tools::command::remove_tree(file.as_ref()));
    }
    let (word, number) = match status.and_then(|s| s.terminating_signal()) {
        Some(signal) => ("signal", signal),
        None => ("exit", status.and_then(|s| s.exit_status()).unwrap_or(70)),
    };
    let _ = writeln!(socket, "{word} {number}");
    0
}

/// What the guard is to do.
struct Orders {
    /// Files and directories that are the agent's alone and go with it.
    files: Vec<OsString>,
    confinement: Option<Confinement>,
    program: OsString,
    args: Vec<OsString>,
}

/// The arguments for [`run`]: how many files, the files, the confinement or nothing, the program, its arguments.
pub(super) fn arguments(prepared: &PreparedCommand) -> std::io::Result<Vec<OsString>> {
    let files = prepared.files.iter().map(tempfile::NamedTempFile::path);
    let directories = prepared
        .temp
        .iter()
        .map(super::PrivateDirectory::path)
        .chain(prepared.beside.as_deref());
    let files: Vec<_> = files.chain(directories).collect();
    let confinement = prepared
        .confinement
        .as_ref()
        .map(serde_json::to_string)
        .transpose()?;
    let mut all = vec![OsString::from(files.len().to_string())];
    all.extend(files.into_iter().map(OsString::from));
    all.push(confinement.unwrap_or_default().into());
    all.push(prepared.program.clone().into());
    all.extend(prepared.args.iter().cloned());
    Ok(all)
}

fn orders(args: impl IntoIterator<Item = OsString>) -> Option<Orders> {
    let mut args = args.into_iter();
    let count: usize = args.next()?.to_str()?.parse().ok()?;
    let files = args.by_ref().take(count).collect();
    let confinement = match args.next()?.to_str()? {
        "" => None,
        text => Some(serde_json::from_str(text).ok()?),
    };
    Some(Orders {
        files,
        confinement,
        program: args.next()?,
        args: args.collect(),
    })
}

/// A guard that can be told to go is none: whoever ends everything at once (a service manager, a closing terminal) must not
/// end it before the agent. Handlers, not "ignore": the agent would inherit that. And whoever started us with SIGCHLD ignored
/// had the kernel throw the agent's exit status away.
fn stay() {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGCHLD, SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

fn socket() -> std::io::Result<UnixStream> {
    #[expect(
        unsafe_code,
        reason = "a descriptor handed over by the parent can only be named by its number"
    )]
    // SAFETY: Ostler started this process with its socket as this descriptor, and nothing else has taken it.
    let fd = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?; // the agent does not get it
    Ok(UnixStream::from(fd))
}

/// The guard must not keep the agent's pipes open: Ostler waits for their end.
fn let_go_of_streams() {
    if let Ok(null) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// The agent and what it started.
#[derive(Debug)]
struct Tree {
    agent: Pid,
    /// The pid namespace that all of it is in; without one it may be anywhere among the descendants of this process.
    namespace: Option<ProcessTree>,
}

impl Tree {
    /// Waits until the agent is gone, and does what Ostler says meanwhile. None when its status cannot be had.
    fn watch(&self, socket: &mut UnixStream, mut crowd: Option<Crowd>) -> Option<WaitStatus> {
        let agent = self.agent;
        // Without a pidfd (an old kernel, a strict sandbox) its end is seen by looking often.
        let pidfd = pidfd_open(agent, PidfdFlags::empty()).ok();
        let patience = match (&crowd, &pidfd) {
            (Some(_), _) => COUNT_EVERY,
            (None, Some(_)) => REAP_EVERY,
            (None, None) => LOOK_EVERY,
        };
        let mut ostler_lives = true;
        loop {
            let mut fds = Vec::with_capacity(2);
            if ostler_lives {
                fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
            }
            fds.extend(pidfd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let _ = poll(&mut fds, Some(&patience));
            let spoke = ostler_lives && !fds[0].revents().is_empty();
            match reap(agent) {
                Reaped::Running => {}
                Reaped::Gone(status) => return status,
            }
            if crowd
                .as_mut()
                .is_some_and(|crowd| crowd.is_too_large(|| sweep::descendants(own()).len()))
            {
                let _ = writeln!(socket, "{OVERRAN} 0");
                self.kill();
                crowd = None;
            }
            if spoke {
                let mut order = [0u8; 1];
                match socket.read(&mut order) {
                    Ok(1) if order == *b"T" => signal_group(agent, Signal::TERM),
                    Ok(1) => self.kill(),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => {
                        ostler_lives = false;
                        signal_group(agent, Signal::TERM);
                        if let Some(status) = self.wait_for(LAST_GRACE) {
                            return status;
                        }
                        self.kill();
                    }
                }
            }
        }
    }

    /// Kills all of it. The agent's status stays to be reaped by [`Tree::watch`].
    fn kill(&self) {
        match &self.namespace {
            Some(namespace) => {
                namespace.kill();
                let _ = rustix::process::kill_process(self.agent, Signal::CONT); // it waits, should somebody have stopped it
            }
            None => _ = sweep_all(Duration::ZERO),
        }
    }

    /// Waits for the agent's end, but not for long.
    fn wait_for(&self, grace: Duration) -> Option<Option<WaitStatus>> {
        let mut waited = Duration::ZERO;
        while waited < grace {
            if let Reaped::Gone(status) = reap(self.agent) {
                return Some(status);
            }
            std::thread::sleep(STEP);
            waited += STEP;
        }
        None
    }

    /// Ends what is left once the agent is gone. Returns whether all of it was seen to end.
    fn end(&self, grace: Duration) -> bool {
        let ended = match &self.namespace {
            // It is gone already, unless the process that waits for it was killed.
            Some(namespace) => {
                namespace.kill();
                let mut looks = 0;
                while !namespace.is_gone() && looks < LAST_LOOKS {
                    std::thread::sleep(STEP);
                    looks += 1;
                }
                namespace.is_gone()
            }
            None => sweep_all(grace),
        };
        let _ = reap(self.agent); // what is not counted any more does not hold its cgroup either
        ended
    }
}

enum Reaped {
    Running,
    Gone(Option<WaitStatus>),
}

/// Takes note of every child that ended; the agent's own status is the answer.
fn reap(agent: Pid) -> Reaped {
    let mut found = Reaped::Running;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == agent => found = Reaped::Gone(Some(status)),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            // No child at all: somebody else took the status.
            Err(rustix::io::Errno::CHILD) if matches!(found, Reaped::Running) => {
                return Reaped::Gone(None);
            }
            Ok(None) | Err(_) => return found,
        }
    }
}

fn signal_group(agent: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(agent, signal);
}

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Ends every descendant: tells it first if there is time, then kills until nothing is left. Returns whether nothing is. The
/// agent's status stays to be reaped by [`Tree::watch`].
fn sweep_all(grace: Duration) -> bool {
    let own = own();
    if !grace.is_zero() {
        let left = sweep::descendants(own);
        sweep::signal(&left, Signal::TERM);
        let mut waited = Duration::ZERO;
        while waited < grace && !sweep::descendants(own).is_empty() {
            std::thread::sleep(STEP);
            waited += STEP;
        }
    }
    // A process that forks faster than we look is caught by looking again.
    for _ in 0..LAST_LOOKS {
        let left = sweep::descendants(own);
        if left.is_empty() {
            return true;
        }
        sweep::signal(&left, Signal::KILL);
        std::thread::sleep(STEP);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    // What was made for an agent goes with it, also when Ostler was killed: the guard is told of all of it.
    #[test]
    fn the_guard_knows_what_goes_with_the_agent() {
        let place = tempfile::tempdir().unwrap();
        let mut prepared = PreparedCommand::query(
            &Host::default(),
            std::path::Path::new("/bin/sh"),
            &["-c"],
            "s",
        )
        .unwrap();
        prepared.beside = Some(place.path().to_owned());
        let orders = orders(arguments(&prepared).unwrap()).unwrap();
        assert_eq!(orders.files, [place.path().as_os_str()]);
        assert_eq!(
            (orders.program.to_str(), orders.args),
            (Some("/bin/sh"), vec![OsString::from("-c")])
        );
    }
}
