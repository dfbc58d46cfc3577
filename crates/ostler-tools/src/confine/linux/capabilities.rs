//! Capabilities: a confined process has none, whoever runs it.

use std::io;

use super::checked;

const SYS_ADMIN: u32 = 21;

/// The third version of the kernel's structure: two words of 32 bits.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Whether this process belongs to root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may make namespaces without asking.
pub(super) fn may_administrate() -> bool {
    current().is_ok_and(|words| words[0].effective & (1 << SYS_ADMIN) != 0)
}

fn current() -> io::Result<[Words; 2]> {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut words = [Words::default(); 2];
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: both structures are laid out as the kernel's and live until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw const header, &raw mut words) })?;
    Ok(words)
}

/// Drops all capabilities, and those that a program of root would get anew at exec. Async-signal-safe.
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
        // SAFETY: the call takes numbers only.
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
                Some(libc::EINVAL) => break, // the kernel has no more of them
                Some(libc::EPERM) => break, // no_new_privs keeps exec from giving what is dropped below
                _ => return Err(error),
            }
        }
    }
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let words = [Words::default(); 2];
    #[expect(
        unsafe_code,
        reason = "there is no safe wrapper that may be called between fork and exec"
    )]
    // SAFETY: both structures are laid out as the kernel's and live until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const words) })
        .map(|_| ())
}
