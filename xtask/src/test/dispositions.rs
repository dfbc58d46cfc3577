//! Signals that whoever started us had ignored: a job in the background of a shell ignores Ctrl-C, and so would all it
//! starts. The tests send such signals and expect an answer, so the command starts itself again with the usual ones.

use std::process::{Command, ExitCode};

/// SIGHUP, SIGINT, SIGQUIT and SIGTERM, by their bit in a signal mask. SIGPIPE is ignored by every Rust program.
const SENT_BY_TESTS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;

/// Marks the second start, so that there is no third.
const MARK: &str = "XTASK_USUAL_SIGNALS";

/// Starts this command again with the usual dispositions if some signal is ignored; its exit code is then the answer.
pub(super) fn usual_or_again() -> Option<ExitCode> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if ignored(&status) & SENT_BY_TESTS == 0 || std::env::var_os(MARK).is_some() {
        return None;
    }
    let mut again = Command::new("env");
    again
        .arg("--default-signal=HUP,INT,QUIT,TERM")
        .args(std::env::args_os());
    let ended = again.env(MARK, "1").status().ok()?;
    Some(if ended.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The mask of ignored signals in `/proc/<pid>/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read() {
        assert_eq!(
            ignored("Name:\tx\nSigIgn:\t0000000000000002\nSigCgt:\t0\n"),
            2
        );
        assert_eq!(ignored("nothing"), 0);
        assert_ne!(
            ignored("SigIgn:\t0000000000004000\n") & SENT_BY_TESTS,
            0,
            "SIGTERM is number 15"
        );
    }
}
