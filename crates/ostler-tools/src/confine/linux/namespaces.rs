//! An empty network of its own, where the system gives one.

use std::ffi::CString;
use std::path::Path;

use super::capabilities;

/// How to leave the network behind.
#[derive(Debug)]
pub(super) struct Plan {
    flags: libc::c_int,
    /// What to write where, so that the user stays who they are in a new user namespace.
    maps: Vec<(CString, Vec<u8>)>,
}

/// How this process could do it; none when the system does not let it.
pub(super) fn plan() -> Option<Plan> {
    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
    if capabilities::may_administrate() {
        return Some(Plan { flags, maps: Vec::new() });
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
    let maps = maps.into_iter().map(|(file, text)| Some((CString::new(file).ok()?, text.into_bytes())));
    Some(Plan { flags: flags | libc::CLONE_NEWUSER, maps: maps.collect::<Option<_>>()? })
}

/// Whether the system lets users make namespaces, as far as its settings tell.
fn users_may() -> bool {
    let setting =
        |file: &str| std::fs::read_to_string(Path::new("/proc/sys").join(file)).ok()?.trim().parse::<u64>().ok();
    Path::new("/proc/self/ns/user").exists()
        && setting("user/max_user_namespaces").is_none_or(|most| most > 0)
        && setting("kernel/unprivileged_userns_clone").is_none_or(|on| on == 1)
        && setting("kernel/apparmor_restrict_unprivileged_userns").is_none_or(|on| on == 0)
}

impl Plan {
    /// What it is called in a report.
    pub(super) fn word(&self) -> &'static str {
        if self.maps.is_empty() { "empty network namespace" } else { "empty network namespace (as user)" }
    }

    /// Async-signal-safe. False when the system refused after all: then the other layers hold the network, and limits are the
    /// user's own.
    pub(super) fn enter(&self) -> bool {
        #[expect(unsafe_code, reason = "there is no safe wrapper that may be called between fork and exec")]
        // SAFETY: the call takes a number only.
        let left = unsafe { libc::unshare(self.flags) } == 0;
        left && self.maps.iter().all(|(file, text)| write(file, text)) && !self.maps.is_empty()
    }
}

fn write(file: &CString, text: &[u8]) -> bool {
    use rustix::fs::{Mode, OFlags};
    let opened = rustix::fs::open(file.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    opened.is_ok_and(|fd| rustix::io::write(&fd, text).is_ok())
}
