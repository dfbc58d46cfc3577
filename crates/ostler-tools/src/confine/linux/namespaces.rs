//! Namespaces, where the system gives them: an empty network, and a view of the file system that is read-only outside.
//!
//! Landlock decides which files can be opened, but not who may change their owner, mode or times; a read-only mount does.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::{Confinement, Network};
use super::{capabilities, checked};

/// What to leave behind.
#[derive(Debug)]
pub(super) struct Plan {
    flags: libc::c_int,
    /// What to write where, so that the user stays who they are in a new user namespace.
    maps: Vec<(CString, Vec<u8>)>,
    /// What stays writable.
    write: Vec<CString>,
}

/// What a child found when it entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// A user namespace of its own: its processes are counted from nothing.
    Own,
    /// None, or the one there was.
    Same,
}

/// How this process could do it; none when the system does not let it.
pub(super) fn plan(confinement: &Confinement) -> Option<Plan> {
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    if confinement.network == Network::None {
        flags |= libc::CLONE_NEWNET;
    }
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
    let write = confinement.write.iter().filter_map(|path| path.canonicalize().ok());
    let write = write.map(|path| text(&path)).collect::<Option<_>>()?;
    if capabilities::may_administrate() {
        return Some(Plan { flags, maps: Vec::new(), write });
    }
    if !users_may() {
        return None;
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    let maps = maps.into_iter().map(|(file, map)| Some((text(Path::new(file))?, map.into_bytes())));
    Some(Plan { flags: flags | libc::CLONE_NEWUSER, maps: maps.collect::<Option<_>>()?, write })
}

/// Whether this process, or else any user, may make namespaces, as far as the system's settings tell.
pub(super) fn are_available() -> bool {
    capabilities::may_administrate() || users_may()
}

fn users_may() -> bool {
    let setting =
        |file: &str| std::fs::read_to_string(Path::new("/proc/sys").join(file)).ok()?.trim().parse::<u64>().ok();
    Path::new("/proc/self/ns/user").exists()
        && setting("user/max_user_namespaces").is_none_or(|most| most > 0)
        && setting("kernel/unprivileged_userns_clone").is_none_or(|on| on == 1)
        && setting("kernel/apparmor_restrict_unprivileged_userns").is_none_or(|on| on == 0)
}

impl Plan {
    /// Async-signal-safe. That the system refuses after all is no error: the other layers hold, and limits are the user's own.
    pub(super) fn enter(&self) -> io::Result<Entered> {
        #[expect(unsafe_code, reason = "there is no safe wrapper that may be called between fork and exec")]
        // SAFETY: the call takes a number only.
        if unsafe { libc::unshare(self.flags) } != 0 {
            return Ok(Entered::Same);
        }
        if !self.maps.iter().all(|(file, map)| write(file, map)) {
            return Err(io::Error::last_os_error());
        }
        self.mount()?;
        Ok(if self.maps.is_empty() { Entered::Same } else { Entered::Own })
    }

    /// Makes everything read-only but what stays writable. Only the child sees it.
    fn mount(&self) -> io::Result<()> {
        use rustix::mount::{
            MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
        };
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        // Room for a few; whoever names more in a policy gets what the file system gives them, read-only.
        let mut trees: [Option<OwnedFd>; MOST] = [const { None }; MOST];
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        for (tree, path) in trees.iter_mut().zip(&self.write) {
            *tree = Some(open_tree(rustix::fs::CWD, path.as_c_str(), flags)?);
        }
        match make_read_only() {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Ok(()), // before Linux 5.12
            result => result?,
        }
        for (tree, path) in trees.iter().flatten().zip(&self.write) {
            move_mount(tree.as_fd(), c"", rustix::fs::CWD, path.as_c_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        }
        // The directory that the child is in was that of the view it has left.
        match self.write.first() {
            Some(_) => enter_again(),
            None => Ok(()),
        }
    }
}

/// How many writable places there can be.
const MOST: usize = 32;

/// The directory of this process by its name, in the view of now.
fn enter_again() -> io::Result<()> {
    let mut buffer = [0_u8; 4097];
    #[expect(
        unsafe_code,
        reason = "the safe way to ask for a directory's name needs memory, which a child must not take"
    )]
    // SAFETY: the kernel writes at most the length of the buffer, ended by a zero.
    checked(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), 4096) })?;
    match std::ffi::CStr::from_bytes_until_nul(&buffer) {
        Ok(path) => rustix::process::chdir(path).map_err(io::Error::from),
        Err(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

fn make_read_only() -> io::Result<()> {
    const RECURSIVE: libc::c_int = 0x8000;
    const READ_ONLY: u64 = 1;
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = Attributes { set: READ_ONLY, clear: 0, propagation: 0, user_namespace: 0 };
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the structure is laid out as the kernel's, its size is given, and it lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            RECURSIVE,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    checked(result).map(|_| ())
}

fn write(file: &CString, text: &[u8]) -> bool {
    use rustix::fs::{Mode, OFlags};
    let opened = rustix::fs::open(file.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    opened.is_ok_and(|fd| rustix::io::write(&fd, text).is_ok())
}
