//! Landlock: which files can be read and changed, TCP, signals and abstract sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};

use super::super::{Confinement, Layers, Network};

/// The newest version whose rights are asked for; on an older kernel the crate leaves out what it lacks.
const NEWEST: ABI = ABI::V7;

/// Devices that do nothing to anybody.
const HARMLESS_DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What makes or controls a device.
const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});

/// A set of rules in the kernel.
#[derive(Debug)]
pub(super) struct Fence {
    /// None where there is no Landlock.
    rules: Option<OwnedFd>,
    /// Whether `/proc` may be read.
    reads_proc: bool,
    /// What may be done in a private `/dev/shm`, in the kernel's numbers.
    shared_memory: u64,
}

impl Fence {
    pub(super) fn build(confinement: &Confinement) -> io::Result<Self> {
        let proc = Path::new(PROC);
        let below = |paths: &[PathBuf]| paths.iter().any(|path| proc.starts_with(path));
        let reads_proc = below(&confinement.read) && !below(&confinement.hidden);
        let version = abi();
        let shared_memory =
            (AccessFs::from_all(ABI::from(i32::from(version)).min(NEWEST)) & !DEVICES).bits();
        if version == 0 {
            return Ok(Self {
                rules: None,
                reads_proc,
                shared_memory,
            });
        }
        let rules = rules(confinement).map_err(io::Error::other)?;
        Ok(Self {
            rules: rules.into(),
            reads_proc,
            shared_memory,
        })
    }

    /// Enters the rules, and returns whether that was possible. A `/proc` that was mounted since gets its own rule. Async-signal-safe:
    /// system calls only. (The crate's own `restrict_self` would do more than that.)
    pub(super) fn enter(&self, entered: Layers) -> Layers {
        let Some(rules) = &self.rules else {
            return Layers::default();
        };
        if self.reads_proc && entered.has(Layers::PROC) {
            allow_mounted(rules, c"/proc", EXECUTE_READ_LIST);
        }
        if entered.has(Layers::SHARED_MEMORY) {
            allow_mounted(rules, c"/dev/shm", self.shared_memory);
        }
        #[expect(
            unsafe_code,
            reason = "there is no safe wrapper that does nothing else"
        )]
        // SAFETY: the call takes a descriptor that is open and a number.
        let restricted =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
        if restricted == 0 {
            Layers::LANDLOCK
        } else {
            Layers::default()
        }
    }
}

const PROC: &str = "/proc";

/// What reading is, in the kernel's numbers.
const EXECUTE_READ_LIST: u64 = 1 | 1 << 2 | 1 << 3;

/// Allows what was mounted since the rules were made. Without the rule it cannot be used, which is no harm to others.
fn allow_mounted(rules: &OwnedFd, path: &std::ffi::CStr, access: u64) {
    use rustix::fs::{Mode, OFlags};
    const PATH_BENEATH: libc::c_int = 1;
    #[repr(C, packed)]
    struct Rule {
        access: u64,
        parent: libc::c_int,
    }
    let Ok(place) = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let rule = Rule {
        access,
        parent: place.as_raw_fd(),
    };
    #[expect(
        unsafe_code,
        reason = "the crate's wrapper cannot be called between fork and exec"
    )]
    // SAFETY: the structure is laid out as the kernel's and lives until the call returns; both descriptors are open.
    unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        );
    }
}

/// The kernel's version of Landlock; 0 for none.
pub(super) fn abi() -> u8 {
    const VERSION: libc::c_uint = 1;
    #[expect(
        unsafe_code,
        reason = "the crate does not tell the version; this call only asks for it"
    )]
    // SAFETY: with this flag the kernel takes no pointer.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0,
            VERSION,
        )
    };
    u8::try_from(version).unwrap_or(0)
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if confinement.network == Network::None {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut rules = ruleset.create()?;
    for device in HARMLESS_DEVICES {
        let access = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
        rules = allow(rules, Path::new(device), access)?;
    }
    for path in &confinement.write {
        rules = allow(rules, path, AccessFs::from_all(NEWEST) & !DEVICES)?;
    }
    // The crate's names and the kernel's: what a link leads to is decided by where it leads.
    let hidden: Vec<PathBuf> = confinement
        .hidden
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    for path in confinement
        .read
        .iter()
        .filter_map(|path| path.canonicalize().ok())
    {
        rules = allow_reading(rules, &path, &hidden)?;
    }
    Ok(rules)
}

/// Lets everything at or below `path` be read but what is hidden. A right once given cannot be taken back further down, so what
/// lies beside the hidden is named piece by piece.
fn allow_reading(
    mut rules: RulesetCreated,
    path: &Path,
    hidden: &[PathBuf],
) -> Result<RulesetCreated, landlock::RulesetError> {
    if hidden.iter().any(|secret| path.starts_with(secret)) {
        return Ok(rules);
    }
    if !hidden.iter().any(|secret| secret.starts_with(path)) {
        return allow(rules, path, AccessFs::from_read(NEWEST));
    }
    rules = allow(rules, path, AccessFs::ReadDir.into())?;
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        // A link is read where it leads, by the rules for that place.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            rules = allow_reading(rules, &entry.path(), hidden)?;
        }
    }
    Ok(rules)
}

/// What is not there needs no right.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(fd) = PathFd::new(path) else {
        return Ok(rules);
    };
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(NEWEST)
    };
    if access.is_empty() {
        Ok(rules)
    } else {
        rules.add_rule(PathBeneath::new(fd, access))
    }
}
