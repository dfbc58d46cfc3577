//! Namespaces, where the system provides them: an empty network, a process tree that ends as one,
//! and a file system that is read-only outside the writable paths.
//!
//! Landlock decides which files can be opened, but not who may change their owner, mode or times; a
//! read-only mount does.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::{Confinement, Layers, Namespaces, Network};
use super::{capabilities, checked, new_root, pid_namespace};

/// Namespaces to enter, with everything needed for it.
#[derive(Debug)]
pub(super) struct Plan {
    flags: libc::c_int,
    /// Files and their new content, so that the user remains the same in a new user namespace.
    maps: Vec<(CString, Vec<u8>)>,
    /// Writable paths.
    write: Vec<CString>,
    /// Read-only paths below the writable ones.
    protected: Vec<CString>,
    /// A root of its own, entered once everything else is mounted.
    root: Option<new_root::RootPlan>,
}

/// Plans the namespaces, or returns `None` if the system's settings do not allow them.
pub(super) fn plan(confinement: &Confinement) -> Option<Plan> {
    if confinement.namespaces == Namespaces::Skip {
        return None;
    }
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    if confinement.network == Network::None {
        flags |= libc::CLONE_NEWNET;
    }
    let write = real(&confinement.write)?;
    let protected = real(&confinement.protected)?;
    let root = match &confinement.root {
        Some(root) => Some(new_root::RootPlan::new(root)?),
        None => None,
    };
    if capabilities::has_sys_admin() {
        return Some(Plan {
            flags,
            maps: Vec::new(),
            write,
            protected,
            root,
        });
    }
    if !unprivileged_namespaces_allowed() {
        return None;
    }
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let maps = maps
        .into_iter()
        .map(|(file, map)| Some((c_path(Path::new(file))?, map.into_bytes())));
    Some(Plan {
        flags: flags | libc::CLONE_NEWUSER,
        maps: maps.collect::<Option<_>>()?,
        write,
        protected,
        root,
    })
}

/// Returns the real paths; missing ones are left out.
fn real(paths: &[PathBuf]) -> Option<Vec<CString>> {
    paths
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .map(|path| c_path(&path))
        .collect()
}

pub(super) fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Returns true if any user may create namespaces, as far as the system's settings show.
fn unprivileged_namespaces_allowed() -> bool {
    let setting = |file: &str| {
        std::fs::read_to_string(Path::new("/proc/sys").join(file))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    Path::new("/proc/self/ns/user").exists()
        && setting("user/max_user_namespaces").is_none_or(|max| max > 0)
        && setting("kernel/unprivileged_userns_clone").is_none_or(|on| on == 1)
        && setting("kernel/apparmor_restrict_unprivileged_userns").is_none_or(|on| on == 0)
}

impl Plan {
    /// Enters the namespaces that the system provides, and returns their layers, in the process
    /// that proceeds to exec. Async-signal-safe.
    ///
    /// # Errors
    /// The system provided namespaces and then refused what makes them usable. The child must not
    /// exec then.
    pub(super) fn enter(&self, report: &OwnedFd) -> io::Result<Layers> {
        let Some(flags) = self.unshare() else {
            return self.without(Layers::default());
        };
        if !self.maps.iter().all(|(file, map)| write(file, map)) {
            return Err(io::Error::last_os_error());
        }
        let entered = |flag: libc::c_int, layer| {
            if flags & flag == flag {
                layer
            } else {
                Layers::default()
            }
        };
        let layers = entered(libc::CLONE_NEWUSER, Layers::USERS)
            .with(entered(libc::CLONE_NEWNET, Layers::NETWORK))
            .with(entered(libc::CLONE_NEWPID, Layers::PIDS));
        if !layers.has(Layers::PIDS) {
            return Ok(layers.with(self.mount(Layers::default())?));
        }
        let status = pid_namespace::fork_first(report)?;
        let mounted = self.mount(mount_proc())?;
        pid_namespace::fork_command(status)?;
        Ok(layers.with(mounted))
    }

    /// Unshares as much as possible: a pid namespace may be refused where the others are not.
    fn unshare(&self) -> Option<libc::c_int> {
        [self.flags | libc::CLONE_NEWPID, self.flags]
            .into_iter()
            .find(|flags| {
                #[expect(
                    unsafe_code,
                    reason = "there is no safe wrapper that may be called between fork and exec"
                )]
                // SAFETY: the call takes only a number.
                unsafe {
                    libc::unshare(*flags) == 0
                }
            })
    }

    /// Makes everything read-only except the writable paths. Only the child sees this.
    ///
    /// # Errors
    /// The mounts are read-only and cannot be completed: without its writable paths no command
    /// could work.
    fn mount(&self, mounted: Layers) -> io::Result<Layers> {
        use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
        if make_private().is_err() {
            return self.without(mounted);
        }
        // Space for a limited number; further paths of a policy stay read-only.
        let mut trees: [Option<OwnedFd>; MAX_WRITABLE] = [const { None }; MAX_WRITABLE];
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        for (tree, path) in trees.iter_mut().zip(&self.write) {
            match open_tree(rustix::fs::CWD, path.as_c_str(), flags) {
                Ok(opened) => *tree = Some(opened),
                Err(_) => return self.without(mounted), // before Linux 5.2, or refused
            }
        }
        if make_read_only(rustix::fs::CWD, c"/").is_err() {
            return self.without(mounted); // before Linux 5.12, or refused
        }
        let attach = |tree: &OwnedFd, path: &CString| {
            move_mount(
                tree.as_fd(),
                c"",
                rustix::fs::CWD,
                path.as_c_str(),
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
            )
        };
        for (tree, path) in trees.iter().flatten().zip(&self.write) {
            attach(tree, path)?;
        }
        for path in &self.protected {
            match open_tree(rustix::fs::CWD, path.as_c_str(), flags) {
                Ok(tree) => {
                    make_read_only(tree.as_fd(), c"")?;
                    attach(&tree, path)?;
                }
                Err(rustix::io::Errno::NOENT) => {} // removed since
                Err(error) => return Err(error.into()),
            }
        }
        let entered = mounted.with(Layers::MOUNTS).with(mount_shared_memory());
        match &self.root {
            Some(root) => root.enter()?,
            None => reenter_current_dir()?, // it still belongs to the old mounts
        }
        Ok(entered)
    }

    /// Returns the layers of a process without mounts.
    ///
    /// # Errors
    /// The process needs a private root, and must not exec then.
    fn without(&self, entered: Layers) -> io::Result<Layers> {
        match self.root {
            Some(_) => Err(io::Error::from_raw_os_error(libc::ENOTSUP)),
            None => Ok(entered),
        }
    }
}

fn make_private() -> io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_change};
    mount_change(
        c"/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(io::Error::from)
}

/// Mounts a private `/dev/shm`: memory that the processes of a command share by name, such as the
/// locks of Python's `multiprocessing`.
fn mount_shared_memory() -> Layers {
    use rustix::mount::{MountFlags, mount};
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount(
        c"tmpfs",
        c"/dev/shm",
        c"tmpfs",
        flags,
        c"size=256m,mode=1777",
    ) {
        Ok(()) => Layers::SHARED_MEMORY,
        Err(_) => Layers::default(),
    }
}

/// Mounts a `/proc` that shows only the processes of the namespace. Refused where parts of the old
/// `/proc` are covered, as in containers.
fn mount_proc() -> Layers {
    use rustix::mount::{MountFlags, mount};
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Mounts must be private first, so that this one does not propagate.
    let mounted = make_private()
        .and_then(|()| mount(c"proc", c"/proc", c"proc", flags, None).map_err(io::Error::from));
    if mounted.is_ok() {
        Layers::PROC
    } else {
        Layers::default()
    }
}

/// Maximum number of writable paths.
const MAX_WRITABLE: usize = 32;

/// Re-enters the current directory by its path, in the new mounts.
fn reenter_current_dir() -> io::Result<()> {
    let mut buffer = [0_u8; 4097];
    #[expect(
        unsafe_code,
        reason = "the safe wrapper allocates memory, which a child must not do"
    )]
    // SAFETY: the kernel writes at most the length of the buffer, terminated by a zero.
    checked(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), 4096) })?;
    match std::ffi::CStr::from_bytes_until_nul(&buffer) {
        Ok(path) => rustix::process::chdir(path).map_err(io::Error::from),
        Err(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Makes a mount and everything below it read-only: the one at `path`, or the one of `dir` itself
/// for an empty path.
fn make_read_only(dir: impl AsFd, path: &std::ffi::CStr) -> io::Result<()> {
    const RECURSIVE: libc::c_int = 0x8000;
    const READ_ONLY: u64 = 1;
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = Attributes {
        set: READ_ONLY,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the structure has the kernel's layout, its size is passed, and it lives until the
    // call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_fd().as_raw_fd(),
            path.as_ptr(),
            RECURSIVE | libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    checked(result).map(|_| ())
}

fn write(file: &CString, c_path: &[u8]) -> bool {
    use rustix::fs::{Mode, OFlags};
    let opened = rustix::fs::open(
        file.as_c_str(),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    opened.is_ok_and(|fd| rustix::io::write(&fd, c_path).is_ok())
}
