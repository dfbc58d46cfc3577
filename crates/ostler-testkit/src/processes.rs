//! Process inspection through /proc: leftover processes, memory, open files. Linux only.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Returns live processes whose environment contains `marker`, except the caller. Zombies do not
/// count.
#[must_use]
pub fn marked(marker: &str) -> Vec<u32> {
    let has_marker = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        *pid != std::process::id()
            && environment
                .windows(marker.len())
                .any(|window| window == marker.as_bytes())
    };
    all()
        .into_iter()
        .filter(has_marker)
        .filter(|pid| alive(*pid))
        .collect()
}

/// Returns live processes with an argument that is exactly `argument`. Finds processes in a pid
/// namespace, whose own pids mean nothing outside, and those without an environment.
#[must_use]
pub fn with_argument(argument: &str) -> Vec<u32> {
    let has_argument = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|part| part == argument.as_bytes())
    };
    all()
        .into_iter()
        .filter(has_argument)
        .filter(|pid| alive(*pid))
        .collect()
}

/// Returns live descendants of `pid`. Processes whose parent died have been reparented and are not
/// found.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|child| Some((child, stat(child)?.parent)))
        .collect();
    let mut found = BTreeSet::from([pid]);
    loop {
        let before = found.len();
        let children = parents
            .iter()
            .filter(|(_, parent)| found.contains(parent))
            .map(|pair| pair.0);
        found.extend(children.collect::<Vec<_>>());
        if found.len() == before {
            break;
        }
    }
    found
        .into_iter()
        .filter(|found| *found != pid && alive(*found))
        .collect()
}

/// Returns true if the process exists and is not a zombie.
#[must_use]
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Returns true if the process has exited but has not been waited for.
#[must_use]
pub fn zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'Z')
}

/// Returns the process group.
#[must_use]
pub fn group(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.group)
}

/// Returns the session.
#[must_use]
pub fn session(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.session)
}

/// Returns the current memory use.
#[must_use]
pub fn rss_kib(pid: u32) -> Option<u64> {
    status_kib(pid, "VmRSS:")
}

/// Returns the peak memory use.
#[must_use]
pub fn peak_rss_kib(pid: u32) -> Option<u64> {
    status_kib(pid, "VmHWM:")
}

/// Returns the peak memory use without the pages of the program file, which dominate in a debug
/// build.
#[must_use]
pub fn peak_allocated_kib(pid: u32) -> Option<u64> {
    Some(peak_rss_kib(pid)?.saturating_sub(status_kib(pid, "RssFile:")?))
}

/// Resets [`peak_rss_kib`] of this process to its current memory use.
pub fn reset_own_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("reset the peak");
}

/// Returns the number of open files.
#[must_use]
pub fn open_fds(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Polls every 10 ms until the condition holds; returns false on timeout.
#[must_use]
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

struct Stat {
    state: char,
    parent: u32,
    group: u32,
    session: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, even a closing parenthesis.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
    })
}

fn status_kib(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
