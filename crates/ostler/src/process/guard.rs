//! Guard: a small process between Ostler and an agent that cleans up after the agent even if Ostler
//! is killed.
//!
//! Why a separate process: after SIGKILL, Ostler cannot do anything, and the parent-death signal
//! reaches the agent but not the shells that the agent started in other sessions. The guard makes
//! itself their reaper (`PR_SET_CHILD_SUBREAPER`). Every process the agent ever starts therefore
//! stays a descendant of the guard, whatever it does to its group, session or environment. The
//! guard also holds one end of a socket whose other end closes when Ostler exits. A confined child
//! gets a pid namespace where the system supports it, so that one signal ends all of it.
//!
//! The agent inherits stdin, stdout and stderr directly: no byte goes through the guard.
//!
//! Messages on the socket, one line each:
//!
//! - Guard to Ostler: `layers BITS` for a confined child, then `pid N` or `fail ERRNO`. Once
//!   nothing is left, `exit CODE` or `signal N`; before that `overran 0` if the process limit was
//!   exceeded, `memory 0` if the kernel killed a process for memory, `left 0` if the end of a
//!   process could not be confirmed.
//! - Ostler to guard: `T` (terminate the agent), `K` (kill everything).
//!
//! A program that embeds the library and wants the same guarantee chooses an argument for this,
//! calls [`run`] at the start of its `main` when that is its first argument, and names itself and
//! the argument in [`crate::host::GuardProgram`].
//!
//! ```no_run
//! let mut args = std::env::args_os().skip(1);
//! if args.next().is_some_and(|first| first == "guard") {
//!     std::process::exit(ostler::guard::run(args));
//! }
//! ```

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

use super::confined::{ProcessLimit, confine};
use super::{END_POLLS, PreparedCommand, sweep};

/// The guard's descriptor for its socket.
pub(super) const SOCKET: i32 = 3;

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

/// Message: the process limit was exceeded.
pub(super) const OVERRAN: &str = "overran";
/// Message: a process was killed for memory.
pub(super) const MEMORY: &str = "memory";
/// Message: the end of a process could not be confirmed.
pub(super) const LEFT: &str = "left";
/// Message: the sandbox layers that the child has entered.
pub(super) const LAYERS: &str = "layers";

/// Runs the guard: spawns the agent, and returns when it and everything it started have ended.
///
/// `args` are the arguments after the one that selects the guard; they are private to this library.
/// Returns the exit code for the guard's process: 0 if nothing is left. It must be called in a
/// process started by this library, before any thread is started.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let _ = rustix::thread::set_name(c"agent-guard"); // not killed by `killall -9 ostler`
    let Ok(mut socket) = socket() else { return 70 };
    let Some(GuardArgs {
        files,
        confinement,
        program,
        args,
    }) = parse(args)
    else {
        return 70;
    };
    handle_signals();
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        let _ = socket.write_all(b"fail 0\n");
        return 70;
    }
    let mut command = std::process::Command::new(program);
    command.args(args).process_group(0);
    super::direct::die_with_parent(&mut command);
    let confined = confinement
        .as_ref()
        .map(|confinement| confine(&mut command, confinement))
        .transpose();
    let (agent, held) = match confined {
        Ok(held) => (command.spawn(), held),
        Err(error) => (Err(error), None),
    };
    let reported = held
        .as_ref()
        .map(ConfinementHandle::read_report)
        .unwrap_or_default();
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
    drop(command); // releases what only the child needs
    let Some(agent) = i32::try_from(agent).ok().and_then(Pid::from_raw) else {
        return 70;
    };
    release_streams();
    let _ = writeln!(socket, "pid {}", agent.as_raw_nonzero());
    let limit = ProcessLimit::new(
        confinement.as_ref(),
        held.as_ref(),
        reported.layers.unwrap_or_default(),
    );
    let tree = Tree {
        agent,
        namespace: reported.tree,
    };
    let status = tree.watch(&mut socket, limit);
    let is_gone = tree.end(LEFTOVER_GRACE);
    if !is_gone {
        let _ = writeln!(socket, "{LEFT} 0");
    }
    if held
        .as_ref()
        .is_some_and(ConfinementHandle::ran_out_of_memory)
    {
        let _ = writeln!(socket, "{MEMORY} 0");
    }
    drop(held);
    for file in files {
        // Ostler removes them too, unless it was killed.
        let _ = std::fs::remove_file(&file)
            .or_else(|_| ostler_tools::command::remove_tree(file.as_ref()));
    }
    let (message, number) = match status.and_then(|s| s.terminating_signal()) {
        Some(signal) => ("signal", signal),
        None => ("exit", status.and_then(|s| s.exit_status()).unwrap_or(70)),
    };
    let _ = writeln!(socket, "{message} {number}");
    if is_gone { 0 } else { 71 }
}

/// The guard's parsed arguments.
struct GuardArgs {
    /// Files and directories to remove after the agent.
    files: Vec<OsString>,
    confinement: Option<Confinement>,
    program: OsString,
    args: Vec<OsString>,
}

/// Returns the arguments for [`run`]: the number of files, the files, the confinement as JSON or an
/// empty string, the program, and its arguments.
pub(super) fn arguments(prepared: &PreparedCommand) -> std::io::Result<Vec<OsString>> {
    let files = prepared.files.iter().map(tempfile::NamedTempFile::path);
    let directories = prepared
        .temp
        .iter()
        .map(super::PrivateDirectory::path)
        .chain(prepared.bridge_dir.as_deref());
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

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<GuardArgs> {
    let mut args = args.into_iter();
    let count: usize = args.next()?.to_str()?.parse().ok()?;
    let files = args.by_ref().take(count).collect();
    let confinement = match args.next()?.to_str()? {
        "" => None,
        text => Some(serde_json::from_str(text).ok()?),
    };
    Some(GuardArgs {
        files,
        confinement,
        program: args.next()?,
        args: args.collect(),
    })
}

/// Installs handlers so that signals to the whole group (a service manager, a closing terminal) do
/// not end the guard before the agent.
///
/// Handlers rather than "ignore", which the agent would inherit. If SIGCHLD was ignored by our
/// parent, the kernel would discard the agent's exit status.
fn handle_signals() {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGCHLD, SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

fn socket() -> std::io::Result<UnixStream> {
    #[expect(
        unsafe_code,
        reason = "an inherited descriptor is only known by its number"
    )]
    // SAFETY: Ostler starts this process with its socket as this descriptor, and nothing else owns
    // it.
    let fd = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?; // not inherited by the agent
    Ok(UnixStream::from(fd))
}

/// Closes the guard's copies of the agent's pipes, because Ostler waits for their end.
fn release_streams() {
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

/// The agent and everything it started.
#[derive(Debug)]
struct Tree {
    agent: Pid,
    /// The pid namespace of all its processes. Without one, they are descendants of this process.
    namespace: Option<ProcessTree>,
}

impl Tree {
    /// Waits for the agent to exit while following Ostler's commands. Returns `None` if its exit
    /// status is unavailable.
    fn watch(
        &self,
        socket: &mut UnixStream,
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
                let _ = writeln!(socket, "{OVERRAN} 0");
                self.kill();
                limit = None;
            }
            if has_command {
                let mut command = [0u8; 1];
                match socket.read(&mut command) {
                    Ok(1) if command == *b"T" => signal_group(agent, Signal::TERM),
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
    fn end(&self, grace: Duration) -> bool {
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
            None => end_descendants(grace),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    // What was created for an agent is removed with it even if Ostler was killed, so the guard must
    // know all of it.
    #[test]
    fn guard_arguments_include_the_bridge_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut prepared = PreparedCommand::query(
            &Host::default(),
            std::path::Path::new("/bin/sh"),
            &["-c"],
            "s",
        )
        .unwrap();
        prepared.bridge_dir = Some(dir.path().to_owned());
        let args = parse(arguments(&prepared).unwrap()).unwrap();
        assert_eq!(args.files, [dir.path().as_os_str()]);
        assert_eq!(
            (args.program.to_str(), args.args),
            (Some("/bin/sh"), vec![OsString::from("-c")])
        );
    }
}
