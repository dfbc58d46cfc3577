//! The first process of a pid namespace, and the process outside that waits for it.
//!
//! One process becomes three. The *waiter* stays outside, has the pid that the parent knows, and
//! ends as the command ended. The *first* process of the namespace reaps. The *command* proceeds to
//! exec. When the first process dies, the kernel kills everything in the namespace, and its end is
//! not visible from outside before all of that is gone. It dies when the command ends, when it is
//! killed, and when the waiter dies (`PR_SET_PDEATHSIG`).
//!
//! The command has its own process group, so that a signal it sends to its group reaches neither of
//! the other two. SIGTERM is forwarded from one to the next.
//!
//! All of this runs between fork and exec: system calls only, no memory is allocated.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::{capabilities, checked};

/// First byte of the first process's pid in a report.
pub(super) const FIRST: u8 = b'F';

/// Forks the first process of the namespace that the caller has created, and reports its pid as
/// seen outside. Returns only in that process, with the pipe to report a status.
pub(super) fn fork_first(report: &OwnedFd) -> io::Result<OwnedFd> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork()? {
        0 => {
            drop(read);
            rustix::process::setpgid(None, None)?; // only the waiter forwards signals to its group
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // If the waiter died before the line above, its end of the pipe is closed.
            let mut end = [PollFd::new(&write, PollFlags::empty())];
            poll(
                &mut end,
                Some(&rustix::event::Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                }),
            )?;
            if end[0].revents().contains(PollFlags::ERR) {
                exit(1)
            } else {
                Ok(write)
            }
        }
        first => {
            let [a, b, c, d] = first.to_ne_bytes();
            let _ = rustix::io::write(report, &[FIRST, a, b, c, d]);
            hold_only(&read);
            wait_for(first)
        }
    }
}

/// Forks the command. Returns only in it; the first process stays to reap.
pub(super) fn fork_command(status: OwnedFd) -> io::Result<()> {
    match fork()? {
        0 => {
            drop(status);
            rustix::process::setpgid(None, None)?;
            Ok(())
        }
        command => {
            // Set by both processes, so that the group exists before a signal could be sent to it.
            let of = rustix::process::Pid::from_raw(command);
            let _ = rustix::process::setpgid(of, of);
            hold_only(&status);
            let _ = capabilities::drop_all();
            reap_until(command)
        }
    }
}

/// Makes `fd` descriptor 0 and closes all others: the streams belong to the command. Only SIGKILL
/// ends this process, and no other process can inspect its memory, which is a copy of its parent's.
fn hold_only(fd: &OwnedFd) {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: the calls take numbers, and a signal set that lives until they return. Nothing in
    // this process uses the closed descriptors any more.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::dup2(fd.as_raw_fd(), 0);
        if libc::syscall(
            libc::SYS_close_range,
            1 as libc::c_uint,
            libc::c_uint::MAX,
            0,
        ) != 0
        {
            for number in 1..1024 {
                libc::close(number);
            }
        }
    }
}

/// Runs the waiter: ends as the command ended, once everything in the namespace is gone.
fn wait_for(first: libc::pid_t) -> ! {
    wait_until_ended(first, first);
    let mut bytes = [0_u8; 4];
    let status = match rustix::io::read(retained(), &mut bytes) {
        Ok(4) => i32::from_ne_bytes(bytes),
        _ => libc::SIGKILL, // the first process was killed, and with it all others
    };
    if libc::WIFEXITED(status) {
        exit(libc::WEXITSTATUS(status));
    }
    die_of(libc::WTERMSIG(status))
}

/// Runs the first process: reaps children until the command has ended.
fn reap_until(command: libc::pid_t) -> ! {
    match wait_until_ended(command, -command) {
        Some(status) => {
            let _ = rustix::io::write(retained(), &status.to_ne_bytes());
            exit(0)
        }
        None => exit(1),
    }
}

/// Reaps children until `child` has ended, and forwards SIGTERM to `receiver`, a process or a
/// group. Returns the status of `child`.
fn wait_until_ended(child: libc::pid_t, receiver: libc::pid_t) -> Option<i32> {
    loop {
        match reap_one() {
            Reaped::Ended(pid, status) if pid == child => return Some(status),
            Reaped::Ended(..) => {}
            Reaped::NoChild => return None,
            Reaped::NoneYet => {
                if next_signal() == libc::SIGTERM {
                    kill(receiver, libc::SIGTERM);
                }
            }
        }
    }
}

enum Reaped {
    Ended(libc::pid_t, i32),
    NoneYet,
    NoChild,
}

fn reap_one() -> Reaped {
    let mut status = 0;
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that waits for every kind of child"
    )]
    // SAFETY: the kernel writes one number, which lives until the call returns.
    let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match ended {
        0 => Reaped::NoneYet,
        1.. => Reaped::Ended(ended, status),
        _ => Reaped::NoChild,
    }
}

/// Waits for the next relevant signal: the end of a child, or SIGTERM. Both are blocked, so none is
/// lost.
fn next_signal() -> libc::c_int {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: the signal set lives until the calls return.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigwaitinfo(set.as_ptr(), std::ptr::null_mut())
    }
}

fn kill(receiver: libc::pid_t, signal: libc::c_int) {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper for a process or a group by one number"
    )]
    // SAFETY: the call takes only numbers.
    unsafe {
        libc::kill(receiver, signal);
    }
}

/// Returns the descriptor that [`hold_only`] retained.
fn retained() -> BorrowedFd<'static> {
    #[expect(
        unsafe_code,
        reason = "a descriptor open for the life of the process is only known by its number"
    )]
    // SAFETY: descriptor 0 was opened by `hold_only` and is never closed.
    unsafe {
        BorrowedFd::borrow_raw(0)
    }
}

/// Forks without the C library's handlers, which are not safe here.
fn fork() -> io::Result<libc::pid_t> {
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: without further flags the call is a fork: it takes no pointer, and the child has a
    // copy of everything.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })?;
    libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::Other.into())
}

/// Ends this process by the signal that ended the command.
fn die_of(signal: i32) -> ! {
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: the calls take numbers, and structures that live until they return.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
    exit(128 + signal)
}

fn exit(code: i32) -> ! {
    #[expect(
        unsafe_code,
        reason = "the safe way to exit runs handlers of the process that was forked"
    )]
    // SAFETY: the call does not return and touches no memory.
    unsafe {
        libc::_exit(code)
    }
}
