//! Erasing the arguments and variables that a forked process inherited: they are the user's, and
//! every program of that user can read them in `/proc`. A sweep would also find the mark of an
//! outer session there, and `pkill -f` the command line of Ostler.

#![expect(
    unsafe_code,
    reason = "there is no safe way to write to the memory that the kernel passed"
)]

use std::ops::Range;

/// Erases the arguments and variables of this process, which must have a single thread. Returns
/// `None` if the system does not say where they are.
pub(super) fn erase_arguments() -> Option<()> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let [arguments, variables] = ranges(&stat)?;
    // SAFETY: the kernel wrote both ranges to this process's stack when it started. Nothing else
    // is there, and no other thread reads them. The C library's pointers to variables are removed.
    unsafe {
        libc::clearenv();
        fill(variables, b"");
        fill(arguments, super::PROCESS_NAME.to_bytes()); // not found by `pkill -f ostler`
    }
    Some(())
}

/// Writes a text to memory, and zeros behind it: at least one, which makes it the whole title.
unsafe fn fill(range: Range<usize>, text: &[u8]) {
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(range.start);
    let text = &text[..text.len().min(range.len().saturating_sub(1))];
    // SAFETY: the caller says that the range is writable and used by nobody; the text fits.
    unsafe {
        start.write_bytes(0, range.len());
        start.copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
}

/// Returns where the arguments and the variables are, as `/proc/self/stat` says.
fn ranges(stat: &str) -> Option<[Range<usize>; 2]> {
    /// Field `arg_start`, counted from behind the name of the program.
    const FIRST: usize = 45;
    let (_, fields) = stat.rsplit_once(')')?; // a name may contain anything
    let mut fields = fields.split_ascii_whitespace().skip(FIRST);
    let mut range = || {
        let start = fields.next()?.parse().ok()?;
        let end = fields.next()?.parse().ok()?;
        (0 < start && start <= end).then_some(start..end)
    };
    Some([range()?, range()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, addresses: &str) -> String {
        format!("1 ({name}) S{} {addresses} 0\n", " 7".repeat(FIELDS_BEFORE))
    }

    /// Fields between the state and `arg_start`.
    const FIELDS_BEFORE: usize = 44;

    #[test]
    fn addresses_are_found_behind_any_name() {
        for name in ["ostler", "a) S 1 (b", ""] {
            let ranges = ranges(&stat(name, "100 120 120 190"));
            assert_eq!(ranges, Some([100..120, 120..190]), "{name}");
        }
    }

    #[test]
    fn hidden_or_missing_addresses_are_none() {
        for addresses in ["0 0 0 0", "100 90 90 95", "100 120 120", "x 1 2 3"] {
            assert_eq!(ranges(&stat("ostler", addresses)), None, "{addresses}");
        }
        assert_eq!(ranges(""), None);
    }

    #[test]
    fn this_process_has_them() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let [arguments, variables] = ranges(&stat).unwrap();
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(arguments.len(), shown.len());
        assert!(variables.start >= arguments.end);
    }

    #[test]
    fn a_text_is_cut_to_fit_and_ends_with_zeros() {
        for (length, shown) in [
            (8, &b"guard\0\0\0"[..]),
            (4, b"gua\0"),
            (1, b"\0"),
            (0, b""),
        ] {
            let mut memory = vec![b'x'; length];
            let start = memory.as_mut_ptr().expose_provenance();
            // SAFETY: the range is the vector's.
            unsafe { fill(start..start + length, b"guard") };
            assert_eq!(memory, shown);
        }
    }
}
