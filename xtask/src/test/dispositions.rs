//! Signal dispositions: a background job of a shell ignores Ctrl-C, and so do its children.
//!
//! The tests send such signals and expect a reaction. If one is ignored, the test command therefore
//! starts itself again with the default dispositions.

use std::process::{Command, ExitCode};

/// SIGHUP, SIGINT, SIGQUIT and SIGTERM, as bits of a signal mask. Every Rust program ignores
/// SIGPIPE.
const SENT_BY_TESTS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;

/// Set for the second start, so that there is no third.
const MARK: &str = "XTASK_USUAL_SIGNALS";

/// Runs this command again with default dispositions if a signal is ignored, and returns its exit
/// code. Returns `None` if there is nothing to reset.
pub(super) fn reset_and_rerun() -> Option<ExitCode> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if ignored(&status) & SENT_BY_TESTS == 0 || std::env::var_os(MARK).is_some() {
        return None;
    }
    let mut rerun = Command::new("env");
    rerun
        .arg("--default-signal=HUP,INT,QUIT,TERM")
        .args(std::env::args_os());
    let status = rerun.env(MARK, "1").status().ok()?;
    Some(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Parses the mask of ignored signals in `/proc/<pid>/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_parsed() {
        assert_eq!(
            ignored("Name:\tx\nSigIgn:\t0000000000000002\nSigCgt:\t0\n"),
            2
        );
        assert_eq!(ignored("Name:\tx"), 0);
        assert_ne!(
            ignored("SigIgn:\t0000000000004000\n") & SENT_BY_TESTS,
            0,
            "SIGTERM is number 15"
        );
    }
}
