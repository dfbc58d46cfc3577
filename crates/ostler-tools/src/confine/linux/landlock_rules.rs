//! Landlock: file access, TCP, signals and abstract sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};

use super::super::{Confinement, Layers, Network};

/// Newest version whose rights are requested; on an older kernel the crate omits those it lacks.
const NEWEST: ABI = ABI::V7;

/// Devices without side effects.
const HARMLESS_DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Rights that create or control a device.
const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});

/// A Landlock ruleset in the kernel.
#[derive(Debug)]
pub(super) struct LandlockRuleset {
    /// Ruleset; `None` where there is no Landlock.
    rules: Option<OwnedFd>,
    /// Whether `/proc` may be read.
    reads_proc: bool,
    /// Rights in a private `/dev/shm`, as kernel bits.
    shared_memory: u64,
}

impl LandlockRuleset {
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

    /// Enforces the ruleset, and returns the layer if that succeeded. A `/proc` mounted since gets
    /// its own rule. Async-signal-safe: system calls only. (The crate's own `restrict_self` does
    /// more than that.)
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
        // SAFETY: the call takes an open descriptor and a number.
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

/// Read rights, as kernel bits.
const EXECUTE_READ_LIST: u64 = 1 | 1 << 2 | 1 << 3;

/// Allows access to something mounted since the ruleset was created. Without the rule it cannot be
/// used, which does no harm.
fn allow_mounted(rules: &OwnedFd, path: &std::ffi::CStr, access: u64) {
    use rustix::fs::{Mode, OFlags};
    const PATH_BENEATH: libc::c_int = 1;
    #[repr(C, packed)]
    struct Rule {
        access: u64,
        parent: libc::c_int,
    }
    let Ok(directory) = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let rule = Rule {
        access,
        parent: directory.as_raw_fd(),
    };
    #[expect(
        unsafe_code,
        reason = "the crate's wrapper cannot be called between fork and exec"
    )]
    // SAFETY: the structure has the kernel's layout and lives until the call returns; both
    // descriptors are open.
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

/// Returns the kernel's version of Landlock; 0 for none.
pub(super) fn abi() -> u8 {
    const VERSION: libc::c_uint = 1;
    #[expect(
        unsafe_code,
        reason = "the crate does not expose the version; this call only queries it"
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
    if let Some(root) = &confinement.root {
        rules = allow(rules, &root.stage, AccessFs::ReadDir.into())?;
    }
    // Access through a link is decided by its target, so paths are resolved.
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

/// Allows reading everything at or below `path` except hidden paths. A right cannot be revoked
/// further down, so the siblings of hidden paths are allowed one by one.
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
        // A link is subject to the rules for its target.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            rules = allow_reading(rules, &entry.path(), hidden)?;
        }
    }
    Ok(rules)
}

/// Adds a rule for a path; a path that does not exist needs none.
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
