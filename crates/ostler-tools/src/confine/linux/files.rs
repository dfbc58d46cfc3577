//! Landlock: which files can be read and changed, TCP, signals and abstract sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};

use super::super::{Confinement, HARMLESS_DEVICES, Network};
use super::checked;

/// The newest version whose rights are asked for; on an older kernel the crate leaves out what it lacks.
const NEWEST: ABI = ABI::V7;

/// A set of rules in the kernel; none where there is no Landlock.
#[derive(Debug)]
pub(super) struct Fence(Option<OwnedFd>);

impl Fence {
    pub(super) fn build(confinement: &Confinement) -> io::Result<Self> {
        if abi() == 0 {
            return Ok(Self(None));
        }
        let rules = rules(confinement).map_err(io::Error::other)?;
        Ok(Self(rules.into()))
    }

    /// Async-signal-safe: one system call. (The crate's own `restrict_self` would do more than that.)
    pub(super) fn enter(&self) -> io::Result<()> {
        let Some(rules) = &self.0 else { return Ok(()) };
        #[expect(unsafe_code, reason = "there is no safe wrapper that does nothing else")]
        // SAFETY: the call takes a descriptor that is open and a number.
        checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(|_| ())
    }
}

/// The kernel's version of Landlock; 0 for none.
pub(super) fn abi() -> i32 {
    const VERSION: libc::c_uint = 1;
    #[expect(unsafe_code, reason = "the crate does not tell the version; this call only asks for it")]
    // SAFETY: with this flag the kernel takes no pointer.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
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
    let devices = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
    for path in &confinement.write {
        rules = allow(rules, path, AccessFs::from_all(NEWEST) & !devices)?;
    }
    // The crate's names and the kernel's: what a link leads to is decided by where it leads.
    let hidden: Vec<PathBuf> = confinement.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    for path in confinement.read.iter().filter_map(|path| path.canonicalize().ok()) {
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
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    if access.is_empty() { Ok(rules) } else { rules.add_rule(PathBeneath::new(fd, access)) }
}
