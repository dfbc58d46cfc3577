//! Capabilities: a confined process has none, whichever user runs it.

use std::io;

use super::checked;

const SYS_ADMIN: u32 = 21;

/// Version 3 of the kernel's structure: two 32-bit words.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Returns true if this process runs as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns true if this process may create namespaces without a user namespace.
pub(super) fn has_sys_admin() -> bool {
    current().is_ok_and(|words| words[0].effective & (1 << SYS_ADMIN) != 0)
}

fn current() -> io::Result<[CapabilityWords; 2]> {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut words = [CapabilityWords::default(); 2];
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: both structures have the kernel's layout and live until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw const header, &raw mut words) })?;
    Ok(words)
}

/// Drops all capabilities, and those that a program of root would regain at exec.
/// Async-signal-safe.
pub(super) fn drop_all() -> io::Result<()> {
    let words = current()?;
    if words.iter().all(|word| word.permitted == 0) {
        return Ok(());
    }
    for capability in 0..64_u32 {
        #[expect(
            unsafe_code,
            reason = "there is no safe wrapper that may be called between fork and exec"
        )]
        // SAFETY: the call takes only numbers.
        let dropped = unsafe {
            libc::prctl(
                libc::PR_CAPBSET_DROP,
                libc::c_ulong::from(capability),
                0,
                0,
                0,
            )
        };
        if dropped != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINVAL) => break, // the kernel has no further capabilities
                Some(libc::EPERM) => break,  // no_new_privs prevents exec from restoring them
                _ => return Err(error),
            }
        }
    }
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let words = [CapabilityWords::default(); 2];
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: both structures have the kernel's layout and live until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const words) })
        .map(|_| ())
}
