//! Liveness of the process that runs a session, identified by its pid and start time, since pids
//! are reused.

/// Returns when a process started, in clock ticks since boot, or `None` if it has ended or the
/// platform does not report it.
#[cfg(target_os = "linux")]
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // A zombie does not run a session.
    if matches!(state, "Z" | "X") {
        None
    } else {
        fields.nth(18)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn started(_: u32) -> Option<u64> {
    None
}

/// Returns true if a process with that pid exists and started at that time.
pub(crate) fn is_alive(pid: u32, when: Option<u64>) -> bool {
    if cfg!(target_os = "linux") {
        return started(pid).is_some_and(|now| when.is_none_or(|when| now == when));
    }
    exists(pid)
}

#[cfg(unix)]
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    // Any other error, such as EPERM, means that the process exists.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn exists(_: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    // P12
    #[test]
    fn a_reused_pid_is_another_process() {
        let me = std::process::id();
        let when = started(me).unwrap();
        assert!(is_alive(me, Some(when)) && is_alive(me, None));
        assert!(
            !is_alive(me, Some(when + 1)),
            "the same pid, another process"
        );
        assert!(!is_alive(u32::MAX, None) && !is_alive(u32::MAX, Some(when)));
    }
}
