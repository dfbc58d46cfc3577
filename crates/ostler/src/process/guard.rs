//! The guard: a small process between Ostler and an agent that outlives Ostler by as long as it takes to clean up.
//!
//! Why a process of its own: when Ostler is killed with SIGKILL it cannot do anything any more, and the kernel's "kill me
//! when my parent dies" reaches the agent but not the shells that the agent started in sessions of their own. The guard
//! makes itself their reaper (`PR_SET_CHILD_SUBREAPER`), so that every process the agent ever starts stays its descendant,
//! whatever it does to its group, session or environment; and it holds one end of a socket whose other end closes
//! when Ostler goes. A pid namespace would do as well but needs privileges that many machines do not give; a cgroup
//! needs a delegated one.
//!
//! The agent's stdin, stdout and stderr are passed on to it as they are: no byte goes through the guard.
//!
//! What is said over the socket, one line each. Guard to Ostler: `pid N`, `fail ERRNO`, then `exit CODE` or
//! `signal N` once nothing is left, with `overran 0` before it if there were more processes than a confinement allows. Ostler to guard: `T` (tell the agent to end), `K` (kill everything).
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

use ostler_tools::confine::Confinement;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open};

use super::confined::{Crowd, confine};
use super::{Prepared, sweep};

/// The descriptor under which the guard finds its socket.
pub(super) const SOCKET: i32 = 3;

/// How long an agent may take to end by itself once Ostler is gone.
const LAST_GRACE: Duration = Duration::from_millis(1200);

/// How long what an agent left behind may take to end before it is killed.
const SWEEP_GRACE: Duration = Duration::from_millis(300);

/// How often orphans that ended are taken note of.
const REAP_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How often an agent is looked at where the kernel does not tell of its end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How often the processes of a confined agent are counted.
const COUNT_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The word for a limit of processes that was passed.
pub(super) const OVERRAN: &str = "overran";

/// Runs the guard: starts the agent, and returns when it and all that it started are gone.
///
/// `args` is what follows the argument by which the embedding program knows that it is to be the guard; their meaning is
/// this library's own. The result is the exit code for the guard's process. It must be called in a process of its own,
/// started by this library, before any thread is started.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let _ = rustix::thread::set_name(c"agent-guard"); // `killall -9 ostler` is not meant for this process
    let Ok(mut socket) = socket() else { return 70 };
    let Some(Orders { files, confinement, program, args }) = orders(args) else { return 70 };
    stay();
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        let _ = socket.write_all(b"fail 0\n");
        return 70;
    }
    let mut command = std::process::Command::new(program);
    command.args(args).process_group(0);
    super::direct::die_with_us(&mut command);
    let confined = confinement.as_ref().map(|confinement| confine(&mut command, confinement)).transpose();
    let (agent, _kept) = match confined.and_then(|kept| Ok((command.spawn()?.id(), kept))) {
        Ok(started) => started,
        Err(error) => {
            let _ = writeln!(socket, "fail {}", error.raw_os_error().unwrap_or(0));
            return 70;
        }
    };
    drop(command); // with it goes what only a child needs
    let Some(agent) = i32::try_from(agent).ok().and_then(Pid::from_raw) else { return 70 };
    let_go_of_streams();
    let _ = writeln!(socket, "pid {}", agent.as_raw_nonzero());
    let status = watch(agent, &mut socket, Crowd::of(confinement.as_ref()));
    sweep_all(SWEEP_GRACE);
    let _ = reap(agent); // what is not counted any more does not hold its cgroup either
    for file in files {
        // Ostler does it too, unless it was killed.
        let _ = std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir_all(&file));
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
pub(super) fn arguments(prepared: &Prepared) -> std::io::Result<Vec<OsString>> {
    let files = prepared.files.iter().map(tempfile::NamedTempFile::path);
    let directories = prepared.temp.iter().map(tempfile::TempDir::path).chain(prepared.beside.as_deref());
    let files: Vec<_> = files.chain(directories).collect();
    let confinement = prepared.confinement.as_ref().map(serde_json::to_string).transpose()?;
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
    Some(Orders { files, confinement, program: args.next()?, args: args.collect() })
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
    #[expect(unsafe_code, reason = "a descriptor handed over by the parent can only be named by its number")]
    // SAFETY: Ostler started this process with its socket as this descriptor, and nothing else has taken it.
    let fd = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?; // the agent does not get it
    Ok(UnixStream::from(fd))
}

/// The guard must not keep the agent's pipes open: Ostler waits for their end.
fn let_go_of_streams() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Waits until the agent is gone, and does what Ostler says meanwhile. None when its status cannot be had.
fn watch(agent: Pid, socket: &mut UnixStream, mut crowd: Option<Crowd>) -> Option<WaitStatus> {
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
        if crowd.as_mut().is_some_and(|crowd| crowd.is_too_large(|| sweep::descendants(own()).len())) {
            let _ = writeln!(socket, "{OVERRAN} 0");
            sweep_all(Duration::ZERO);
            crowd = None;
        }
        if spoke {
            let mut order = [0u8; 1];
            match socket.read(&mut order) {
                Ok(1) if order == *b"T" => signal_group(agent, Signal::TERM),
                Ok(1) => sweep_all(Duration::ZERO),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => {
                    ostler_lives = false;
                    signal_group(agent, Signal::TERM);
                    sweep_all(LAST_GRACE);
                }
            }
        }
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
            Err(rustix::io::Errno::CHILD) if matches!(found, Reaped::Running) => return Reaped::Gone(None),
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

/// Ends every descendant: tells it first if there is time, then kills until nothing is left. The agent's status stays
/// to be reaped by [`watch`].
fn sweep_all(grace: Duration) {
    let own = own();
    let step = Duration::from_millis(10);
    if !grace.is_zero() {
        let left = sweep::descendants(own);
        sweep::signal(&left, Signal::TERM);
        let mut waited = Duration::ZERO;
        while waited < grace && !sweep::descendants(own).is_empty() {
            std::thread::sleep(step);
            waited += step;
        }
    }
    // A process that forks faster than we look is caught by looking again; ten seconds are the end of patience.
    for _ in 0..1000 {
        let left = sweep::descendants(own);
        if left.is_empty() {
            return;
        }
        sweep::signal(&left, Signal::KILL);
        std::thread::sleep(step);
    }
}
