//! Seccomp: filters for system calls that no command needs and that could escape the confinement or
//! disrupt the machine.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::super::{Layers, Network};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Error = seccompiler::BackendError;

/// Calls that are refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Another view of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Another view of everything.
    libc::SYS_setns,
    libc::SYS_unshare,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Keys that outlive the command.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Bypass every filter of calls.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
];

/// Namespaces that `clone` could create.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Requests that insert input into a terminal, as if a user had typed it.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C]; // TIOCSTI, TIOCLINUX

/// Socket families that reach others over IP, on this machine too; the last one queries the kernel
/// about addresses.
const IP_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls that set the mode of a file, and the index of the mode argument. It is checked whatever
/// the flags: `O_CREAT` is not the only one that creates. A program that grants its owner's or
/// group's rights to any user who runs it would outlive the confinement.
const MODES: &[(libc::c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
];

/// Call numbers that are the same on every architecture, but not defined everywhere in the C
/// library.
const OPEN_TREE_ATTR: libc::c_long = 467;
const FCHMODAT2: libc::c_long = 452;

/// Calls that fail as if the kernel did not have them, so that programs use an older one: their
/// arguments are in memory, where a filter cannot look.
const EMULATED_MISSING: [libc::c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// Calls that change how other processes are scheduled. The first argument selects the process:
/// 0 is the caller itself.
const SCHEDULING: [libc::c_long; 4] = [
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// As `SCHEDULING`, for calls whose first argument gives the kind of the second: a process, a
/// group, a user.
const SCHEDULING_BY_KIND: [(libc::c_long, libc::c_int); 2] = [
    (libc::SYS_setpriority, libc::PRIO_PROCESS as libc::c_int),
    (libc::SYS_ioprio_set, 1),
];

/// Types of local socket pairs that reach no other process: a datagram socket can send to any path,
/// and a raw one is a datagram socket under another name.
const ALLOWED_PAIRS: [libc::c_int; 2] = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];

/// Bits of a socket's type; the others are flags.
const SOCKET_TYPE: u64 = 0xf;

/// BPF programs, each with its own result; empty where there is no seccomp.
#[derive(Debug)]
pub(super) struct Filters {
    always: Vec<BpfProgram>,
    /// Only where no pid namespace puts other processes out of reach.
    without_pid_namespace: Vec<BpfProgram>,
}

impl Filters {
    pub(super) fn build(network: Network) -> io::Result<Self> {
        let Some(arch) = architecture().filter(|_| is_available()) else {
            return Ok(Self {
                always: Vec::new(),
                without_pid_namespace: Vec::new(),
            });
        };
        let build = || -> Result<Self, Error> {
            let refused = program(refused(network)?, libc::EPERM, arch)?;
            let unknown = program(
                EMULATED_MISSING
                    .into_iter()
                    .map(|call| (call, Vec::new()))
                    .collect(),
                libc::ENOSYS,
                arch,
            )?;
            let scheduling = program(scheduling()?, libc::EPERM, arch)?;
            Ok(Self {
                always: vec![refused, unknown],
                without_pid_namespace: vec![scheduling],
            })
        };
        build().map_err(io::Error::other)
    }

    /// Installs the filters, and returns the layer if that succeeded. Async-signal-safe: two system
    /// calls per program.
    pub(super) fn enter(&self, entered: Layers) -> Layers {
        let more: &[BpfProgram] = if entered.has(Layers::PIDS) {
            &[]
        } else {
            &self.without_pid_namespace
        };
        let applied = more
            .iter()
            .chain(&self.always)
            .all(|program| seccompiler::apply_filter(program).is_ok());
        if applied && !self.always.is_empty() {
            Layers::SECCOMP
        } else {
            Layers::default()
        }
    }
}

/// Returns true if the kernel supports filters, and there is one for this architecture.
pub(super) fn is_available() -> bool {
    let action: libc::c_uint = libc::SECCOMP_RET_ERRNO;
    #[expect(unsafe_code, reason = "there is no safe wrapper; it only queries")]
    // SAFETY: the kernel reads the number behind the pointer, which lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    result == 0 && architecture().is_some()
}

fn architecture() -> Option<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH).ok()
}

/// Returns a rule for calls with an argument that compares like this.
fn when(
    argument: u8,
    length: SeccompCmpArgLen,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, Error> {
    let condition = SeccompCondition::new(argument, length, comparison, value)?;
    SeccompRule::new(vec![condition])
}

fn number(value: libc::c_int) -> u64 {
    u64::from(value.unsigned_abs())
}

fn refused(network: Network) -> Result<Rules, Error> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let clones = NAMESPACES.into_iter().map(|flag| {
        let flag = number(flag);
        when(0, Qword, MaskedEq(flag), flag)
    });
    rules.insert(libc::SYS_clone, clones.collect::<Result<_, _>>()?);
    let requests = TERMINAL_INPUT
        .into_iter()
        .map(|request| when(1, Dword, Eq, request));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    // Limits of other processes, such as ours.
    rules.insert(libc::SYS_prlimit64, vec![when(0, Dword, Ne, 0)?]);
    for (call, mode) in MODES {
        let with = |bit: libc::mode_t| when(*mode, Dword, MaskedEq(bit.into()), bit.into());
        rules.insert(*call, vec![with(libc::S_ISUID)?, with(libc::S_ISGID)?]);
    }
    let others =
        (0..=SOCKET_TYPE).filter(|kind| !ALLOWED_PAIRS.iter().any(|pair| number(*pair) == *kind));
    let pairs = others.map(|kind| when(1, Dword, MaskedEq(SOCKET_TYPE), kind));
    rules.insert(libc::SYS_socketpair, pairs.collect::<Result<_, _>>()?);
    let sockets = match network {
        Network::None => Vec::new(),
        Network::All => {
            let others =
                IP_FAMILIES.map(|family| SeccompCondition::new(0, Dword, Ne, number(family)));
            let others = others.into_iter().collect::<Result<_, _>>()?;
            vec![SeccompRule::new(others)?]
        }
    };
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

fn scheduling() -> Result<Rules, Error> {
    use SeccompCmpArgLen::Dword;
    use SeccompCmpOp::Ne;
    let mut rules = Rules::new();
    for call in SCHEDULING {
        rules.insert(call, vec![when(0, Dword, Ne, 0)?]);
    }
    for (call, process) in SCHEDULING_BY_KIND {
        let another_kind = when(0, Dword, Ne, number(process))?;
        rules.insert(call, vec![another_kind, when(1, Dword, Ne, 0)?]);
    }
    Ok(rules)
}

fn program(rules: Rules, errno: libc::c_int, arch: TargetArch) -> Result<BpfProgram, Error> {
    let result = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, result, arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(kill_x32_calls().into_iter().chain(program).collect())
}

/// Kills any process that uses the x32 call numbers, a second set that the same kernel accepts and
/// the rules do not name. (The crate's own first instructions kill users of the 32-bit ones.)
#[cfg(target_arch = "x86_64")]
fn kill_x32_calls() -> Vec<sock_filter> {
    const X32: u32 = 0x4000_0000;
    let load = sock_filter {
        code: 0x20,
        jt: 0,
        jf: 0,
        k: 0,
    }; // load the call number
    let jump = sock_filter {
        code: 0x35,
        jt: 0,
        jf: 1,
        k: X32,
    }; // continue unless it is below
    let kill = sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_KILL_PROCESS,
    };
    vec![load, jump, kill]
}

#[cfg(not(target_arch = "x86_64"))]
fn kill_x32_calls() -> Vec<sock_filter> {
    Vec::new()
}
