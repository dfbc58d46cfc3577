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
//! Ostler starts one *guard server*, which forks a guard for each agent: a fork takes a fraction of
//! the time and memory of loading the program again. A guard does not need the server: if that is
//! killed, the guards stay, and Ostler starts another server for the next agent.
//!
//! The agent gets stdin, stdout and stderr directly: no byte goes through the guard.
//!
//! A program that embeds the library and wants the same guarantee chooses an argument for this,
//! calls [`run`] at the start of its `main` when that is its first argument, and names itself and
//! the argument in [`crate::host::GuardProgram`]. It may call [`fork_server`] or [`start`] to have
//! the server ready before the first agent.
//!
//! ```no_run
//! let mut args = std::env::args_os().skip(1);
//! if args.next().is_some_and(|first| first == "guard") {
//!     std::process::exit(ostler::guard::run(args));
//! }
//! ```

mod erase;
mod protocol;
mod tree;

use std::ffi::{CStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use ostler_tools::confine::{Confinement, ConfinementHandle};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};

pub(super) use protocol::{DESCRIPTORS, GuardRequest, KILL, Message, TERMINATE};

use self::erase::erase_arguments;
use self::tree::Tree;
use super::confined::{ProcessLimit, confine};
use super::vfork::{self, Image, Leads};
use crate::host::GuardProgram;

/// Name of each guard's process (`/proc/<pid>/comm`), by which another program recognises it.
///
/// It is the same however the guard was started, and an agent cannot change it: the kernel lets a
/// process change only its own name.
pub const PROCESS_NAME: &CStr = c"agent-guard";

/// Exit code of a guard that could not start its agent, and of a server without a socket.
const FAILED: i32 = 70;

/// Exit code of a guard that could not confirm the end of every process.
const LEFT: i32 = 71;

/// Starts the guard server in the background, so that it is ready when the first agent starts.
///
/// Without this call, it is started with the first agent. An error is reported there too.
pub fn start(program: &GuardProgram) {
    super::guard_server::start(program);
}

/// Forks the guard server off this process, which takes a fraction of the time of [`start`].
///
/// Returns `Some` in the server and in each guard, with the exit code for that process, so the
/// caller must exit with it. Call it at the start of `main`: it does nothing in a process that has
/// more than one thread. Neither this process's arguments nor its environment stay in the server.
///
/// ```no_run
/// let program = ostler::host::GuardProgram {
///     program: "/usr/bin/myprogram".into(),
///     args: vec!["guard".into()],
/// };
/// if let Some(code) = ostler::guard::fork_server(&program) {
///     std::process::exit(code);
/// }
/// ```
#[must_use]
pub fn fork_server(program: &GuardProgram) -> Option<i32> {
    (threads() == Some(1))
        .then(|| super::guard_server::fork(program))
        .flatten()
}

/// Returns the number of threads of this process.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Runs the server in a process that was forked off Ostler.
pub(super) fn serve_as_fork(socket: OwnedFd) -> i32 {
    let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return FAILED;
    };
    let streams = rustix::stdio::dup2_stdin(&socket)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null));
    if streams.is_err() || erase_arguments().is_none() {
        return FAILED;
    }
    drop((socket, null));
    prepare_server();
    fork_first_guard().unwrap_or_else(serve)
}

/// Runs the guard server, and in the processes that it forks, a guard.
///
/// `args` are the arguments after the one that selects the guard; they are private to this library.
/// Returns the exit code for this process, so the caller must exit with it: it returns once in the
/// server, when Ostler has exited, and once in each guard, when its agent and everything that the
/// agent started have ended. It must be called in a process started by this library, before any
/// thread is started.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    drop(args.into_iter());
    prepare_server();
    serve()
}

fn prepare_server() {
    let _ = rustix::thread::set_name(c"guard-server"); // not killed by `killall -9 ostler`
    let _ = rustix::process::setsid(); // no Ctrl-C meant for Ostler
    let _ = rustix::process::chdir(c"/"); // keeps no file system busy
    wake_with_parent();
    handle_signals();
}

/// Forks the guard of the first agent, while Ostler prepares that agent, and waits until the guard
/// has received its descriptors. Returns the exit code in the guard, and `None` in the server.
fn fork_first_guard() -> Option<i32> {
    let (received, waiting) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
    let guard_process = match fork().ok()? {
        Forked::Parent(process) => process,
        Forked::Child => {
            drop(received);
            let descriptors = loop {
                match receive() {
                    Err(Errno::INTR) => {}
                    other => break other,
                }
            };
            drop(waiting);
            return Some(match descriptors {
                Ok(Some(descriptors)) => guard(descriptors),
                Ok(None) => 0,
                Err(_) => FAILED,
            });
        }
    };
    drop(waiting);
    // Ostler only knows the server, and resumes it in case it was suspended.
    handle_signal(libc::SIGCONT);
    let mut is_received = [PollFd::new(&received, PollFlags::IN)];
    while poll(&mut is_received, None) == Err(Errno::INTR) {
        let _ = rustix::process::kill_process(guard_process, Signal::CONT);
    }
    set_disposition(libc::SIGCONT, libc::SIG_DFL);
    None
}

fn serve() -> i32 {
    loop {
        match receive() {
            Ok(Some(descriptors)) => match fork() {
                Ok(Forked::Child) => return guard(descriptors),
                Ok(Forked::Parent(_)) => {}
                Err(error) => {
                    Message::send(
                        &[Message::Failed(error_number(&error))],
                        &descriptors.socket,
                    );
                }
            },
            Ok(None) => return 0,
            Err(Errno::INTR) => {}
            Err(_) => return FAILED,
        }
    }
}

/// The descriptors of a session.
struct Descriptors {
    socket: UnixStream,
    /// Stdin, stdout and stderr of the agent.
    streams: [OwnedFd; 3],
}

/// Receives the descriptors of the next session. Returns `None` once Ostler has exited.
///
/// Nothing is allocated here: memory that the server writes to is copied for each guard.
fn receive() -> rustix::io::Result<Option<Descriptors>> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(
            rustix::stdio::stdin(),
            &mut [io::IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        if received.bytes == 0 {
            return Ok(None);
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message
                && let (Some(socket), Some(stdin), Some(stdout), Some(stderr)) =
                    (fds.next(), fds.next(), fds.next(), fds.next())
            {
                return Ok(Some(Descriptors {
                    socket: socket.into(),
                    streams: [stdin, stdout, stderr],
                }));
            }
        }
        // Too many open files: Ostler notices that its socket is closed.
    }
}

pub(super) enum Forked {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have a single thread.
pub(super) fn fork() -> io::Result<Forked> {
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: this process has a single thread, so the child may do whatever its parent may.
    let forked = unsafe { libc::fork() };
    match forked {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child).map_or(Forked::Child, Forked::Parent)),
    }
}

/// Runs the guard of one agent. Returns the exit code for this process once the agent and
/// everything that it started have ended.
fn guard(descriptors: Descriptors) -> i32 {
    let _ = rustix::thread::set_name(PROCESS_NAME);
    // Only the server holds its socket, so that Ostler notices its end. Stdout is `/dev/null`.
    let _ = rustix::stdio::dup2_stdin(rustix::stdio::stdout());
    // Its own session: no terminal where a tool could prompt for a password.
    let _ = rustix::process::setsid();
    wake_with_parent();
    handle_signal(libc::SIGCHLD);
    let Descriptors { socket, streams } = descriptors;
    let Ok(request) = GuardRequest::read(&socket) else {
        return FAILED; // Ostler has exited
    };
    let Some((tree, limit, held)) = start_agent(&socket, streams, &request) else {
        return FAILED;
    };
    let files = request.files;
    let status = tree.watch(&socket, limit);
    let is_gone = tree.end();
    let mut messages = Vec::new();
    if !is_gone {
        messages.push(Message::LeftOver);
    }
    if held
        .as_ref()
        .is_some_and(ConfinementHandle::ran_out_of_memory)
    {
        messages.push(Message::OutOfMemory);
    }
    drop(held);
    for file in files {
        // Ostler removes them too, unless it was killed.
        let _ = std::fs::remove_file(&file)
            .or_else(|_| ostler_tools::command::remove_tree(file.as_ref()));
    }
    messages.push(match status.and_then(|s| s.terminating_signal()) {
        Some(signal) => Message::Signalled(signal),
        None => Message::Exited(status.and_then(|s| s.exit_status()).unwrap_or(FAILED)),
    });
    Message::send(&messages, &socket);
    if is_gone { 0 } else { LEFT }
}

/// Starts the agent and reports that, or the error. Returns its processes, a process limit to
/// check, and what must be held until all of them have ended.
fn start_agent(
    socket: &UnixStream,
    streams: [OwnedFd; 3],
    request: &GuardRequest,
) -> Option<(Tree, Option<ProcessLimit>, Option<ConfinementHandle>)> {
    let own = rustix::process::getpid();
    let mut messages = vec![Message::Guard(own.as_raw_pid())];
    let confinement = request.confinement.as_ref();
    let started = rustix::process::set_child_subreaper(Some(own)).map_err(io::Error::from);
    // Both close the agent's streams here: Ostler waits for their end.
    let (agent, held) = match (started, confinement) {
        (Err(error), _) => (Err(error), None),
        (Ok(()), None) => (spawn_unconfined(&streams, request), None),
        (Ok(()), Some(confinement)) => spawn_confined(streams, request, confinement),
    };
    let reported = held
        .as_ref()
        .map(ConfinementHandle::read_report)
        .unwrap_or_default();
    if let Some(layers) = reported.layers {
        messages.push(Message::Layers(layers.bits()));
    }
    messages.push(match &agent {
        Ok(agent) => Message::Started(agent.as_raw_pid()),
        Err(error) => Message::Failed(error_number(error)),
    });
    Message::send(&messages, socket);
    let limit = ProcessLimit::new(
        confinement,
        held.as_ref(),
        reported.layers.unwrap_or_default(),
    );
    let tree = Tree {
        agent: agent.ok()?,
        namespace: reported.tree,
    };
    Some((tree, limit, held))
}

/// Spawns the agent without a copy of this process.
fn spawn_unconfined(streams: &[OwnedFd; 3], request: &GuardRequest) -> io::Result<Pid> {
    let env = request.env.iter().map(|(name, value)| (name, value));
    let image = Image::new(&request.program, &request.args, env, Some(&request.dir))?;
    vfork::start(
        &image,
        streams.each_ref().map(AsRawFd::as_raw_fd),
        Leads::Group,
    )
}

/// Spawns the agent in its confinement, which takes several processes.
fn spawn_confined(
    [stdin, stdout, stderr]: [OwnedFd; 3],
    request: &GuardRequest,
    confinement: &Confinement,
) -> (io::Result<Pid>, Option<ConfinementHandle>) {
    let mut command = Command::new(&request.program);
    command
        .args(&request.args)
        .env_clear()
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&request.dir)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    super::direct::die_with_parent(&mut command);
    let held = match confine(&mut command, confinement) {
        Ok(held) => held,
        Err(error) => return (Err(error), None),
    };
    let agent = command.spawn().and_then(|agent| {
        let pid = i32::try_from(agent.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::ErrorKind::Unsupported.into())
    });
    (agent, Some(held))
}

fn error_number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Makes the kernel resume this process when its parent exits, in case it was stopped: it ends only
/// if it runs.
fn wake_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
}

/// Handles the signals that a service manager or a closing terminal sends to every process, so that
/// neither the server nor a guard ends before the agents. Guards are reaped by the kernel.
fn handle_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        handle_signal(signal);
    }
    set_disposition(libc::SIGCHLD, libc::SIG_IGN);
}

/// Handles a signal by doing nothing. If it were ignored, the agent would ignore it too.
fn handle_signal(signal: libc::c_int) {
    extern "C" fn nothing(_: libc::c_int) {}
    set_disposition(signal, nothing as *const () as libc::sighandler_t);
}

fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the disposition is `SIG_IGN` or a handler that does nothing.
    unsafe {
        libc::signal(signal, disposition);
    }
}
