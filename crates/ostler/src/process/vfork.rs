//! Spawning without a copy of this process (Linux).
//!
//! A child needs its own session and a parent-death signal, which `posix_spawn` cannot set. With
//! `fork`, the kernel copies the page tables of a process that may have thousands of sessions, and
//! both sides then fault on every page they write. So the child borrows this process's memory until
//! it calls `exec`, as it does in `posix_spawn`, and the calling thread waits for that.

#![expect(
    unsafe_code,
    reason = "there is no safe way to run code between clone and exec"
)]

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::sync::{OnceLock, mpsc};
use std::task::{Context, Poll};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Size of the child's stack. The child only makes system calls.
const STACK_BYTES: usize = 64 * 1024;

/// Number of the last signal.
const LAST_SIGNAL: c_int = 64;

/// Returns true if this system can report the end of a child that is spawned here.
pub(super) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let own = rustix::process::getpid();
        rustix::process::pidfd_open(own, PidfdFlags::empty()).is_ok()
    })
}

/// A program with its arguments and variables, as the kernel takes them.
pub(super) struct Image {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    dir: Option<CString>,
}

impl Image {
    pub(super) fn new<'a>(
        program: &OsStr,
        args: &[OsString],
        env: impl IntoIterator<Item = (&'a OsString, &'a OsString)>,
        dir: Option<&OsStr>,
    ) -> io::Result<Self> {
        let text = |text: &OsStr| Ok::<_, io::Error>(CString::new(text.as_bytes())?);
        let args = std::iter::once(program)
            .chain(args.iter().map(OsString::as_os_str))
            .map(text);
        let env = env.into_iter().map(|(name, value)| {
            let parts = [name, OsStr::new("="), value];
            text(&parts.into_iter().collect::<OsString>())
        });
        Ok(Self {
            program: text(program)?,
            args: args.collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            dir: dir.map(text).transpose()?,
        })
    }
}

/// What a child becomes the leader of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    Session,
    /// A process group, in the session of its parent.
    Group,
}

/// A process that was spawned, and this end of its streams.
pub(super) struct Spawned {
    pub(super) process: Process,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Spawns a child in its own session, which dies with the calling thread.
pub(super) fn spawn(image: &Image) -> io::Result<Spawned> {
    let pipes = [pipe()?, pipe()?, pipe()?];
    let [(child_in, stdin), (stdout, child_out), (stderr, child_err)] = pipes;
    let streams = [&child_in, &child_out, &child_err].map(AsRawFd::as_raw_fd);
    let process = Process {
        pid: start(image, streams, Leads::Session)?,
        has_exited: false,
    };
    Ok(Spawned {
        process,
        stdin,
        stdout,
        stderr,
    })
}

/// Starts a child with these streams, which dies with the calling thread. None of the streams may
/// be one of the three standard streams of this process.
pub(super) fn start(image: &Image, streams: [RawFd; 3], leads: Leads) -> io::Result<Pid> {
    let list = |all: &[CString]| -> Vec<*const c_char> {
        let all = all.iter().map(|text| text.as_ptr());
        all.chain([ptr::null()]).collect()
    };
    let (args, env) = (list(&image.args), list(&image.env));
    let mut shared = Shared {
        program: image.program.as_ptr(),
        args: args.as_ptr(),
        env: env.as_ptr(),
        dir: image.dir.as_ref().map_or(ptr::null(), |dir| dir.as_ptr()),
        streams,
        leads,
        parent: rustix::process::getpid(),
        error: 0,
    };
    let pid = clone(&mut shared)?;
    if shared.error != 0 {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        return Err(io::Error::from_raw_os_error(shared.error));
    }
    Ok(pid)
}

/// Creates a pipe, whose ends are not among the three standard streams.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let above = |end: OwnedFd| match end.as_raw_fd() {
        0..=2 => rustix::io::fcntl_dupfd_cloexec(end, 3),
        _ => Ok(end),
    };
    Ok((above(read)?, above(write)?))
}

/// What the child reads from the memory of its parent, and the error that it leaves there.
struct Shared {
    program: *const c_char,
    args: *const *const c_char,
    env: *const *const c_char,
    /// The working directory; null for that of the parent.
    dir: *const c_char,
    /// Descriptors of its stdin, stdout and stderr.
    streams: [RawFd; 3],
    leads: Leads,
    parent: Pid,
    error: c_int,
}

/// Starts a child that shares this memory, and waits until it has called `exec` or has failed.
fn clone(shared: &mut Shared) -> io::Result<Pid> {
    let mut stack = Box::<[MaybeUninit<u8>]>::new_uninit_slice(STACK_BYTES);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut previous = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the child runs on its own stack, which the stack pointer is aligned in, and the
    // parent does not continue before the child has left it and `shared`. Signals are blocked, so
    // that no handler runs in the child.
    let (pid, error) = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), previous.as_mut_ptr());
        let top = stack.as_mut_ptr_range().end;
        let top = top.map_addr(|address| address & !15).cast::<c_void>();
        let pid = libc::clone(run_child, top, flags, ptr::from_mut(shared).cast());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, previous.as_ptr(), ptr::null_mut());
        (pid, error)
    };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)
}

extern "C" fn run_child(shared: *mut c_void) -> c_int {
    // SAFETY: the parent passed a pointer to this, and waits.
    let shared = unsafe { &mut *shared.cast::<Shared>() };
    // SAFETY: this is the child, and the pointers in `shared` are valid while the parent waits.
    shared.error = unsafe { exec(shared) };
    127
}

/// Becomes the program. Returns the error if that fails.
///
/// # Safety
/// The pointers in `shared` must be valid. It must run in a child that shares no descriptors and no
/// signal handlers with another process.
unsafe fn exec(shared: &Shared) -> c_int {
    let check = |result: c_int| match result {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
        _ => Ok(()),
    };
    let attempt = || -> Result<(), c_int> {
        // SAFETY: these are async-signal-safe calls with valid pointers.
        unsafe {
            reset_signals();
            check(match shared.leads {
                Leads::Session => libc::setsid(),
                Leads::Group => libc::setpgid(0, 0),
            })?;
            let signal = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
            check(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
            // If the parent ended before the call above, the signal will never be sent.
            if libc::getppid() != shared.parent.as_raw_nonzero().get() {
                return Err(libc::ESRCH);
            }
            for (stream, target) in shared.streams.into_iter().zip(0..) {
                check(libc::dup2(stream, target))?;
            }
            if !shared.dir.is_null() {
                check(libc::chdir(shared.dir))?;
            }
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
            check(libc::execve(shared.program, shared.args, shared.env))
        }
    };
    attempt().err().unwrap_or(0)
}

/// Restores the default of every signal that has a handler, and of `SIGPIPE`, which Rust programs
/// ignore. Other ignored signals stay ignored.
///
/// # Safety
/// It must run in a child that shares no signal handlers with another process.
unsafe fn reset_signals() {
    for signal in 1..=LAST_SIGNAL {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: `action` is zeroed, which is a valid value, and then only read and written here.
        unsafe {
            if libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) != 0 {
                continue; // reserved by the C library
            }
            let mut action = action.assume_init();
            let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
            if has_handler || signal == libc::SIGPIPE {
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }
}

/// A child that is not waited for yet. Dropping it kills and reaps it.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    has_exited: bool,
}

impl Process {
    /// Returns the child's exit status if it has exited.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG)?;
        self.has_exited = ended.is_some();
        Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_exited || matches!(self.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        static THREAD: OnceLock<mpsc::Sender<Pid>> = OnceLock::new();
        let _ = THREAD.get_or_init(start_reaper).send(self.pid);
    }
}

/// Starts the thread that waits for killed children, so that none stays a zombie.
fn start_reaper() -> mpsc::Sender<Pid> {
    let (killed, inbox) = mpsc::channel::<Pid>();
    let work = move || {
        for pid in inbox {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    };
    // If the thread cannot be created, they stay zombies until this process ends.
    let _ = std::thread::Builder::new()
        .name("ostler-reaper".into())
        .spawn(work);
    killed
}

/// A child that a task can wait for.
#[derive(Debug)]
pub(super) struct VforkChild {
    process: Process,
    /// Readable once it has exited.
    exit: AsyncFd<OwnedFd>,
    status: Option<ExitStatus>,
}

impl VforkChild {
    /// Registers a child with the runtime.
    pub(super) fn new(process: Process) -> io::Result<Self> {
        let exit = rustix::process::pidfd_open(process.pid, PidfdFlags::NONBLOCK)?;
        // SAFETY: an `OwnedFd` always refers to the same open descriptor.
        let exit = unsafe { AsyncFd::register_with_interest(exit, Interest::READABLE) }?;
        Ok(Self {
            process,
            exit,
            status: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Polls whether [`Self::wait`] has something to do.
    pub(super) fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.status.is_some() {
            return Poll::Ready(());
        }
        self.exit.poll_read_ready(cx).map(|_| ())
    }

    /// Waits until it has exited. Cancel safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.status {
                return Ok(status);
            }
            let mut ready = self.exit.readable().await?;
            self.status = self.process.try_wait()?;
            if self.status.is_none() {
                ready.clear_ready();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(script: &str) -> Image {
        let text = |text: &str| CString::new(text).unwrap();
        Image {
            program: text("/bin/sh"),
            args: ["sh", "-c", script].map(text).to_vec(),
            env: vec![text("A=1")],
            dir: Some(text("/proc")),
        }
    }

    fn output(script: &str) -> String {
        let spawned = spawn(&image(script)).unwrap();
        io::read_to_string(std::fs::File::from(spawned.stdout)).unwrap()
    }

    #[test]
    fn child_has_its_own_session_and_dies_with_its_parent() {
        let pid = "read -r pid comm state ppid pgrp session rest < /proc/$$/stat";
        assert_eq!(
            output(&format!(
                "{pid}; test $session = $$ && pwd && echo $A && env | wc -l"
            )),
            "/proc\n1\n2\n" // and PWD
        );
        // A child of a thread that ends dies with it.
        let spawned = std::thread::spawn(|| spawn(&image("read -r line")).unwrap());
        let spawned = spawned.join().unwrap();
        let (_, status) = rustix::process::waitpid(Some(spawned.process.pid), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn child_blocks_no_signals_and_does_not_ignore_sigpipe() {
        // Rust programs ignore SIGPIPE.
        let script = r#"while read -r name value; do
            case $name in
            SigBlk:) echo $((0x$value)) ;;
            SigIgn:) echo $((0x$value & 0x1000)) ;;
            esac
        done < self/status"#;
        assert_eq!(output(script), "0\n0\n");
    }

    #[test]
    fn failed_exec_is_an_error_and_leaves_no_child() {
        let missing = Image {
            program: c"/nonexistent".to_owned(),
            ..image("")
        };
        let error = spawn(&missing).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let no_dir = Image {
            dir: Some(c"/nonexistent".to_owned()),
            ..image("")
        };
        assert_eq!(
            spawn(&no_dir).err().unwrap().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[tokio::test]
    async fn exit_status_is_reported_and_stays() {
        let spawned = spawn(&image("exit 3")).unwrap();
        let mut child = VforkChild::new(spawned.process).unwrap();
        for _ in 0..2 {
            assert_eq!(child.wait().await.unwrap().code(), Some(3));
        }
    }

    #[tokio::test]
    async fn dropped_child_is_killed_and_reaped() {
        let spawned = spawn(&image("read -r line")).unwrap();
        let child = VforkChild::new(spawned.process).unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        drop(child);
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
