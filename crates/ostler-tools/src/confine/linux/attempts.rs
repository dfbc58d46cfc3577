//! Attempts to escape a confinement, made from inside it by `ostler sandbox check`.
//!
//! Each attempt is a function that does what a hostile command would do. `Ok` means that it
//! succeeded.
#![expect(
    unsafe_code,
    reason = "an attempt is a system call without a safe wrapper"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::checked;

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It succeeded, with its output.
    Done(String),
    /// The system refused, with this error.
    Refused(String),
    /// There is no such attempt.
    Unknown,
}

impl AttemptOutcome {
    /// Returns the exit code that reports the outcome to the parent.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Done(_) => 0,
            Self::Refused(_) => REFUSED,
            Self::Unknown => 64,
        }
    }
}

/// Exit code of a refused attempt.
pub const REFUSED: u8 = 11;

type Attempt = fn(&str) -> io::Result<String>;

/// Result of a system call: the returned number.
type SystemCall = io::Result<libc::c_long>;

/// All attempts. Each takes one argument: a path, a number, a name, or nothing.
const ALL: &[(&str, Attempt)] = &[
    ("write", |path| {
        done(File::create_new(path)?.write_all(b"x"))
    }),
    ("overwrite", |path| done(fs::write(path, "x"))),
    ("read", |path| fs::read_to_string(path)),
    ("remove", |path| done(fs::remove_file(path))),
    ("change_mode", |path| {
        done(fs::set_permissions(path, fs::Permissions::from_mode(0o777)))
    }),
    ("set_user_id", |path| {
        fs::write(path, "x")?;
        done(fs::set_permissions(
            path,
            fs::Permissions::from_mode(0o4755),
        ))
    }),
    ("read_through_link", |path| {
        let _ = fs::remove_file("link");
        symlink(path, "link")?;
        fs::read_to_string("link")
    }),
    ("hard_link", |path| {
        fs::hard_link(path, "hard")?;
        fs::read_to_string("hard")
    }),
    ("read_through_proc", |path| {
        fs::read_to_string(format!("/proc/self/root{path}"))
    }),
    ("read_environment_of", |pid| {
        fs::read_to_string(format!("/proc/{pid}/environ"))
    }),
    ("read_memory_of", |pid| {
        done(
            File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{pid}/mem")),
        )
    }),
    ("signal", |pid| signal(pid)),
    ("trace", |pid| done(trace(pid))),
    ("connect_tcp", |port| {
        let to = (Ipv4Addr::LOCALHOST, number(port)?).into();
        done(TcpStream::connect_timeout(&to, Duration::from_secs(2)))
    }),
    ("send_udp", |port| {
        done(UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", (Ipv4Addr::LOCALHOST, number(port)?)))
    }),
    ("connect_local", |path| done(UnixStream::connect(path))),
    ("connect_abstract", |name| {
        done(SocketAddr::from_abstract_name(name).and_then(|to| UnixStream::connect_addr(&to)))
    }),
    ("raw_socket", |_| {
        done(socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP))
    }),
    ("packet_socket", |_| {
        done(socket(libc::AF_PACKET, libc::SOCK_RAW, 0))
    }),
    ("mount", |_| {
        use rustix::mount::{MountFlags, mount};
        done(mount("none", ".", "tmpfs", MountFlags::empty(), None))
    }),
    ("new_namespace", |_| done(unshare())),
    ("other_user", |_| done(other_user())),
    ("set_clock", |_| done(set_clock())),
    ("io_uring", |_| done(io_uring())),
    ("kernel_log", |_| done(kernel_log())),
    ("read_variable", |name| {
        let environment = fs::read("/proc/self/environ")?;
        let start = format!("{name}=");
        let found = environment
            .split(|byte| *byte == 0)
            .find(|entry| entry.starts_with(start.as_bytes()));
        done(found.ok_or_else(|| io::Error::other("the variable is not set")))
    }),
    ("long_file", |length| long_file(number(length)?)),
    ("open_files", |count| {
        let open = (0..number::<u32>(count)?).map(|_| File::open("/dev/null"));
        done(open.collect::<io::Result<Vec<_>>>())
    }),
    ("processes", |count| crowd(number(count)?)),
    ("compute", |_| {
        loop {
            std::hint::spin_loop();
        }
    }),
    ("stay", |_| stay()),
    ("idle", |_| idle()),
    ("unnamed_set_user_id", |path| {
        done(unnamed_set_user_id(path))
    }),
    ("datagram_pair", |path| {
        done(through_pair(libc::SOCK_DGRAM, path))
    }),
    ("raw_pair", |path| done(through_pair(libc::SOCK_RAW, path))),
    ("set_priority", |pid| done(set_priority(number(pid)?))),
    ("set_scheduler", |pid| done(set_scheduler(number(pid)?))),
    ("set_affinity", |pid| done(set_affinity(number(pid)?))),
    ("set_io_priority", |pid| done(set_io_priority(number(pid)?))),
    ("plant_repository", |dir| plant_repository(Path::new(dir))),
    ("storm", |hook| storm(hook)),
    ("memory", |mega| memory(number(mega)?)),
];

/// Makes one attempt, given its name and argument.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> AttemptOutcome {
    let mut args = args
        .into_iter()
        .map(|arg| arg.to_string_lossy().into_owned());
    let name = args.next().unwrap_or_default();
    let argument = args.next().unwrap_or_default();
    match ALL.iter().find(|(known, _)| *known == name) {
        None => AttemptOutcome::Unknown,
        Some((_, attempt)) => match attempt(&argument) {
            Ok(text) => AttemptOutcome::Done(text),
            Err(error) => AttemptOutcome::Refused(error.to_string()),
        },
    }
}

fn done<T, E: Into<io::Error>>(result: Result<T, E>) -> io::Result<String> {
    result.map(|_| String::new()).map_err(Into::into)
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn signal(pid: &str) -> io::Result<String> {
    let pid = rustix::process::Pid::from_raw(number(pid)?).ok_or(io::ErrorKind::InvalidInput)?;
    done(rustix::process::test_kill_process(pid))
}

fn long_file(length: u64) -> io::Result<String> {
    let path = Path::new("long");
    let grown = File::create(path)?.set_len(length);
    let _ = fs::remove_file(path); // if still alive: exceeding the limit raises a fatal signal
    done(grown)
}

fn trace(pid: &str) -> SystemCall {
    let pid: libc::pid_t = number(pid)?;
    // SAFETY: attaching takes only numbers. If it succeeds, the process is detached when this one
    // ends.
    unsafe { checked(libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0)) }
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> SystemCall {
    // SAFETY: the call takes only numbers.
    checked(unsafe { libc::socket(family, kind, protocol) })
}

fn unshare() -> SystemCall {
    // SAFETY: the call takes only a number.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })
}

/// Root tries to become another user, and every other user to become root.
fn other_user() -> SystemCall {
    let target = if rustix::process::geteuid().is_root() {
        65534
    } else {
        0
    };
    // SAFETY: the call takes only a number, and this process has one thread.
    checked(unsafe { libc::syscall(libc::SYS_setuid, target) })
}

fn set_clock() -> SystemCall {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both calls get a structure that lives until they return. The time is set to its
    // current value.
    unsafe {
        checked(libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now))?;
        checked(libc::clock_settime(libc::CLOCK_REALTIME, &raw const now))
    }
}

fn io_uring() -> SystemCall {
    let mut parameters = [0_u8; 256];
    // SAFETY: the kernel reads and writes a structure of 120 bytes at the pointer.
    checked(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })
}

fn kernel_log() -> SystemCall {
    let mut buffer = [0_u8; 64];
    // SAFETY: the kernel writes at most the given length.
    checked(unsafe { libc::syscall(libc::SYS_syslog, 3, buffer.as_mut_ptr(), buffer.len()) })
}

/// Starts `count` processes at once; they end soon, or with this one.
fn crowd(count: u32) -> io::Result<String> {
    let started = (0..count)
        .map(|_| fork(Duration::from_secs(2)))
        .collect::<io::Result<Vec<_>>>()?;
    // Where the kernel sets no limit, this gives the watchdog time to notice.
    std::thread::sleep(Duration::from_millis(600));
    Ok(started.len().to_string())
}

/// Leaves a process behind in its own session.
fn stay() -> io::Result<String> {
    fork(Duration::from_secs(120)).map(|pid| pid.to_string())
}

/// Waits until its stdin is closed: a process to attack. It drops its capabilities, because root's
/// would protect it.
fn idle() -> io::Result<String> {
    super::capabilities::drop_all()?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(|_| String::new())
}

/// Creates a repository whose settings and hooks make git run a program.
fn plant_repository(dir: &Path) -> io::Result<String> {
    let git = dir.join(".git");
    for part in ["objects", "refs", "hooks"] {
        fs::create_dir_all(git.join(part))?;
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n")?;
    fs::write(
        git.join("config"),
        "[core]\n\tbare = false\n\tfsmonitor = ./program\n",
    )?;
    done(fs::write(git.join("hooks/post-checkout"), "#!/bin/sh\n"))
}

/// Allocates and uses this much memory.
fn memory(mega: usize) -> io::Result<String> {
    let mut taken = Vec::new();
    taken
        .try_reserve_exact(mega << 20)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    taken.resize(mega << 20, 1_u8);
    Ok(taken
        .iter()
        .step_by(4096)
        .map(|byte| u64::from(*byte))
        .sum::<u64>()
        .to_string())
}

/// Creates a set-user-ID file of root that has its mode before it has a name.
fn unnamed_set_user_id(path: &str) -> SystemCall {
    let named = std::ffi::CString::new(path)?;
    // SAFETY: the calls take numbers, and strings that live until they return.
    unsafe {
        let file = checked(libc::open(
            c".".as_ptr(),
            libc::O_TMPFILE | libc::O_WRONLY,
            0o4755,
        ))?;
        let source = std::ffi::CString::new(format!("/proc/self/fd/{file}"))?;
        let (here, flag) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        checked(libc::linkat(
            here,
            source.as_ptr(),
            here,
            named.as_ptr(),
            flag,
        ))
    }
}

/// Sends to a server through one end of a local socket pair.
fn through_pair(kind: libc::c_int, path: &str) -> SystemCall {
    let mut pair = [0; 2];
    let mut address = libc::sockaddr_un {
        sun_family: 1,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from.cast_signed();
    }
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>()).unwrap_or(0);
    // SAFETY: the kernel writes two numbers, and reads an address of the given length; all live
    // until the calls return.
    unsafe {
        checked(libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()))?;
        let sent = libc::sendto(
            pair[0],
            c"x".as_ptr().cast(),
            1,
            0,
            (&raw const address).cast(),
            length,
        );
        checked(libc::c_long::try_from(sent).unwrap_or(-1))
    }
}

fn set_priority(pid: libc::id_t) -> SystemCall {
    // SAFETY: the call takes only numbers.
    checked(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, pid, 19) })
}

fn set_scheduler(pid: libc::pid_t) -> SystemCall {
    let lowest = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one structure, which lives until the call returns.
    checked(unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            pid,
            libc::SCHED_IDLE,
            &raw const lowest,
        )
    })
}

fn set_affinity(pid: libc::pid_t) -> SystemCall {
    let first = 1_u64;
    // SAFETY: the kernel reads the given number of bytes, which live until the call returns.
    checked(unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            pid,
            size_of::<u64>(),
            &raw const first,
        )
    })
}

fn set_io_priority(pid: libc::pid_t) -> SystemCall {
    const PROCESS: libc::c_int = 1;
    const IDLE: libc::c_int = 3 << 13;
    // SAFETY: the call takes only numbers.
    checked(unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, pid, IDLE) })
}

/// Leaves many processes behind that compute endlessly and write a file again and again.
fn storm(hook: &str) -> io::Result<String> {
    for _ in 0..STORM {
        if fork(Duration::ZERO)? == 0 {
            loop {
                let _ = fs::write(hook, "x");
                (0..100_000).for_each(|_| std::hint::spin_loop());
            }
        }
    }
    Ok(String::new())
}

/// Number of processes in a storm.
const STORM: u32 = 100;

/// Forks a process that sleeps for `time`; with zero, it returns in the child too.
fn fork(time: Duration) -> SystemCall {
    // SAFETY: this process has one thread, and the child only makes system calls.
    unsafe {
        let pid = checked(libc::fork())?;
        if pid == 0 {
            libc::setsid();
            if !time.is_zero() {
                libc::sleep(u32::try_from(time.as_secs()).unwrap_or(1));
                libc::_exit(0);
            }
        }
        Ok(pid)
    }
}
