//! Recent process ids: the processes started since a snapshot was taken (Linux).
//!
//! The kernel allocates process ids in ascending order and wraps around at the end. The descendants
//! of a child are therefore found among a few ids, however many other processes are running.

use std::fs::File;
use std::io::Read;

use super::sweep::pids;

/// Maximum number of ids to try one by one. Beyond it, listing all processes is cheaper.
const MAX_TRIED: i32 = 256;

/// Maximum number of rounds for ids allocated during the visit, before every process is visited.
const MAX_ROUNDS: usize = 16;

/// A position in the sequence of process ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PidSnapshot {
    /// The last id that was allocated.
    last: i32,
    /// Number of processes and threads started since boot.
    forks: u64,
}

impl PidSnapshot {
    /// Returns the current position, or `None` if `/proc` does not report it.
    pub(super) fn take() -> Option<Self> {
        let last = last_field(&read("/proc/loadavg")?)?;
        let stat = read("/proc/stat")?;
        let forks = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes "))?;
        Some(Self {
            last,
            forks: forks.trim().parse().ok()?,
        })
    }
}

fn last_field(text: &str) -> Option<i32> {
    text.split_ascii_whitespace().next_back()?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    let mut text = String::with_capacity(4096);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Visits every existing process that was started since the earliest of the snapshots, or all
/// processes if a snapshot is missing. May also visit ids without a process.
pub(super) fn visit(
    since: impl IntoIterator<Item = Option<PidSnapshot>>,
    mut visit: impl FnMut(i32),
) {
    let Some(mut range) = PidRange::since(since) else {
        return pids().for_each(visit);
    };
    for _ in 0..MAX_ROUNDS {
        range.visit(&mut visit);
        // A process may have started another one and exited, both during the visit.
        match range.next() {
            Some(next) if next.count > 0 => range = next,
            Some(_) => return,
            None => break,
        }
    }
    pids().for_each(visit);
}

/// The `count` process ids up to and including `last`, modulo `pid_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PidRange {
    last: i32,
    count: i32,
    pid_max: i32,
    forks: u64,
}

impl PidRange {
    fn since(snapshots: impl IntoIterator<Item = Option<PidSnapshot>>) -> Option<Self> {
        let now = PidSnapshot::take()?;
        let pid_max = last_field(&read("/proc/sys/kernel/pid_max")?)?;
        let counts = snapshots
            .into_iter()
            .map(|snapshot| count(snapshot?, now, pid_max))
            .collect::<Option<Vec<i32>>>()?;
        Some(Self {
            last: now.last,
            count: counts.into_iter().max().unwrap_or(0),
            pid_max,
            forks: now.forks,
        })
    }

    /// Returns the ids allocated after these.
    fn next(&self) -> Option<Self> {
        let Self { last, forks, .. } = *self;
        Self::since([Some(PidSnapshot { last, forks })])
    }

    fn contains(&self, pid: i32) -> bool {
        (self.last - pid).rem_euclid(self.pid_max) < self.count
    }

    fn visit(&self, visit: &mut impl FnMut(i32)) {
        if self.count > MAX_TRIED {
            return pids().filter(|pid| self.contains(*pid)).for_each(visit);
        }
        let ids = (0..self.count).rev().map(|back| self.last - back);
        ids.map(|pid| pid.rem_euclid(self.pid_max))
            .filter(|pid| *pid != 0)
            .for_each(visit);
    }
}

/// Returns the number of ids allocated from `since` to `now`, or `None` if they may have wrapped
/// around past `since`, so that any id is possible.
fn count(since: PidSnapshot, now: PidSnapshot, pid_max: i32) -> Option<i32> {
    let forks = now.forks.checked_sub(since.forks)?;
    // The kernel skips the lowest ids and ids in use, so fewer than `pid_max` forks may wrap
    // around.
    let is_certain = pid_max > 1 && forks < u64::from(pid_max.unsigned_abs() / 4);
    is_certain.then(|| (now.last - since.last).rem_euclid(pid_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(last: i32, forks: u64) -> PidSnapshot {
        PidSnapshot { last, forks }
    }

    #[test]
    fn ids_are_counted_across_the_wraparound() {
        for (since, now, wanted) in [
            (snapshot(100, 5), snapshot(100, 5), Some(0)),
            (snapshot(100, 5), snapshot(103, 8), Some(3)),
            (snapshot(998, 5), snapshot(302, 10), Some(304)),
            // With that many forks, the ids may have wrapped around past the first one.
            (snapshot(100, 5), snapshot(103, 255), None),
            // The system was restored from an older state.
            (snapshot(100, 5), snapshot(103, 4), None),
        ] {
            assert_eq!(count(since, now, 1000), wanted, "{since:?} {now:?}");
        }
    }

    #[test]
    fn a_range_visits_what_it_contains_even_across_the_wraparound() {
        for (last, visited) in [(103, vec![100, 101, 102, 103]), (1, vec![998, 999, 1])] {
            let range = PidRange {
                last,
                count: 4,
                pid_max: 1000,
                forks: 0,
            };
            let mut seen = Vec::new();
            range.visit(&mut |pid| seen.push(pid));
            assert_eq!(seen, visited);
            let contained = (1..1000).filter(|pid| range.contains(*pid)).count();
            assert_eq!(contained, visited.len());
        }
    }

    #[test]
    fn children_are_visited_and_earlier_processes_are_not() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let before = PidSnapshot::take().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut seen = Vec::new();
        visit([Some(before)], |pid| seen.push(pid));
        assert!(seen.contains(&pid) && !seen.contains(&own), "{seen:?}");
        let mut all = Vec::new();
        visit([Some(before), None], |pid| all.push(pid));
        assert!(all.contains(&pid) && all.contains(&own));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
