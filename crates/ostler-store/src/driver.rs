//! Whether the process that drove a session is still there: its number, and when it started, for numbers are used again.

/// When a process started, in the system's own units; none when it is gone or nothing tells.
#[cfg(target_os = "linux")]
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // A process that has ended and was not yet fetched by its parent drives nothing.
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

/// Whether the process of that number is there, and is the one that started then.
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
    // A process of another user is one too.
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
    fn a_reused_number_is_another_process() {
        let me = std::process::id();
        let when = started(me).unwrap();
        assert!(is_alive(me, Some(when)) && is_alive(me, None));
        assert!(
            !is_alive(me, Some(when + 1)),
            "the number is the same, the process is not"
        );
        assert!(!is_alive(u32::MAX, None) && !is_alive(u32::MAX, Some(when)));
    }
}
