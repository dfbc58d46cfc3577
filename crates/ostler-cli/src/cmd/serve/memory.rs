//! Memory of an idle daemon: gives back the pages of the program that only its start needed.

use std::ops::Range;

/// Removes the pages of the program and its libraries from this process.
///
/// Most of them were used to parse arguments, read the configuration and open the store. Those that
/// are needed again are mapped again, usually from the page cache.
pub(super) fn release_program_pages() {
    let smaps = match std::fs::read_to_string("/proc/self/smaps") {
        Ok(smaps) => smaps,
        Err(error) => return tracing::debug!(%error, "pages of the program not released"),
    };
    for range in unmodified_files(&smaps) {
        #[expect(unsafe_code, reason = "there is no safe wrapper")]
        // SAFETY: the range is a private mapping of a file that is not writable and has no modified
        // page, so the kernel maps the same bytes again when they are needed.
        let result = unsafe {
            libc::madvise(
                std::ptr::without_provenance_mut(range.start),
                range.len(),
                libc::MADV_DONTNEED,
            )
        };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            tracing::debug!(%error, "pages of the program not released");
        }
    }
}

/// Returns the private mappings of files that are not writable and have no modified page, neither
/// in memory nor swapped out. Relocated data is modified.
fn unmodified_files(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut lines = smaps.lines().peekable();
    while let Some(head) = lines.next() {
        let (mut anonymous, mut swapped) = (None, None);
        while let Some(line) = lines.next_if(|line| !is_head(line)) {
            match line.split_once(':') {
                Some(("Anonymous", value)) => anonymous = kilobytes(value),
                Some(("Swap", value)) => swapped = kilobytes(value),
                _ => {}
            }
        }
        if (anonymous, swapped) == (Some(0), Some(0)) {
            found.extend(read_only_file(head));
        }
    }
    found
}

/// Returns true if a line of `smaps` begins a mapping: `5581c000-5581d000 r-xp …`.
fn is_head(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.contains('-') && !first.contains(':')
}

fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the addresses of a mapping if it is private, of a file, and not writable.
fn read_only_file(head: &str) -> Option<Range<usize>> {
    let mut fields = head.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_read_only = matches!(fields.next()?, "r-xp" | "r--p");
    let inode = fields.nth(2)?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_read_only && inode != "0").then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmodified_read_only_files_are_found() {
        let mapping = |head: &str, anonymous: &str, swap: &str| {
            let head = format!("{head}\nSize: 8 kB\nAnonymous:   {anonymous} kB\n");
            format!("{head}Swap:        {swap} kB\nVmFlags: rd ex mr mw me\n")
        };
        let smaps = [
            mapping("1000-3000 r-xp 00001000 fe:00 42  /bin/a", "0", "0"),
            mapping("3000-5000 r--p 00003000 fe:00 42  /bin/a", "4", "0"),
            mapping("5000-7000 r--p 00003000 fe:00 42  /bin/a", "0", "4"),
            mapping("7000-9000 rw-p 00005000 fe:00 42  /bin/a", "0", "0"),
            mapping("9000-b000 r--s 00000000 fe:00 43  /tmp/db-shm", "0", "0"),
            mapping("b000-d000 r-xp 00000000 00:00 0  [vdso]", "0", "0"),
            mapping("d000-f000 r--p 00000000 fe:00 42  /a b (deleted)", "0", "0"),
        ];
        let found = unmodified_files(&smaps.concat());
        assert_eq!(found, [0x1000..0x3000, 0xd000..0xf000]);
        let unknown = unmodified_files("1000-3000 r-xp 0 fe:00 42 /bin/a\n");
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn the_program_runs_on_without_its_pages() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!unmodified_files(&smaps).is_empty(), "{smaps}");
        release_program_pages();
        assert_eq!(format!("{:?}", [1.5, 2.0]), "[1.5, 2.0]");
    }
}
