//! A look at the processes of the machine, through /proc: who is left, how big, how many files open. Linux only.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Live processes whose environment contains `marker`, the caller excepted. Zombies do not count.
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

/// Live processes with an argument that is exactly `argument`: for those that are in a pid namespace, whose own numbers mean nothing
/// outside, or that have no environment.
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

/// Live processes that descend from `pid`; those whose parent died have another ancestor by now and are not found.
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

/// Whether the process exists and is no zombie.
#[must_use]
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Whether the process has ended but nobody has waited for it.
#[must_use]
pub fn zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'Z')
}

/// The process group.
#[must_use]
pub fn group(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.group)
}

/// The session.
#[must_use]
pub fn session(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.session)
}

/// Memory in use now.
#[must_use]
pub fn rss_kib(pid: u32) -> Option<u64> {
    status_kib(pid, "VmRSS:")
}

/// The most memory ever in use.
#[must_use]
pub fn peak_rss_kib(pid: u32) -> Option<u64> {
    status_kib(pid, "VmHWM:")
}

/// The most memory that a process ever had besides the pages of its program, which in a debug build are most of it.
#[must_use]
pub fn peak_allocated_kib(pid: u32) -> Option<u64> {
    Some(peak_rss_kib(pid)?.saturating_sub(status_kib(pid, "RssFile:")?))
}

/// Makes [`peak_rss_kib`] of this process start anew from what it uses now.
pub fn reset_own_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("the peak cannot be reset");
}

/// How many files are open.
#[must_use]
pub fn open_fds(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Asks again every 10 ms until the condition holds; false when the time is over first.
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
    // The name in parentheses may contain anything, also a closing parenthesis.
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
