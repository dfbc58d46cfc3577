//! Allocator settings for a program that drives agents.

/// Size from which a freed buffer is returned to the system at once, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 256 * 1024;

/// Makes the allocator return large buffers to the system as soon as they are freed.
///
/// A line of several megabytes passes through a few buffers of its size. When the first is freed,
/// the allocator of the GNU C library raises its threshold for such buffers. It then retains what
/// later ones leave behind: tens of megabytes with lines of 4 MiB. This function fixes the
/// threshold at 256 KiB.
///
/// The setting applies to the whole process, so it is the program's choice: call this once, at the
/// beginning of `main`. It has no effect with another C library or another global allocator.
pub fn return_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "there is no safe wrapper")]
        // SAFETY: this sets one number in the allocator, under the allocator's own lock. Nothing is
        // passed by reference.
        let _accepted = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
