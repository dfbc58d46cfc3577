//! Process ids that the kernel has allocated since a snapshot (Linux).
//!
//! It allocates them in ascending order and wraps around at the end. The descendants of a
//! short-lived child are therefore among a few ids, however many other processes exist.
//!
//! A privileged process can choose the id of its child (`clone3` with `set_tid`), which is not
//! found this way; but neither is a process that removes the session's mark from its environment.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use super::sweep::pids;
use crate::clock;

/// Maximum age of a snapshot. Failed forks take ids too, and nothing counts them; in this time, ids
/// cannot have wrapped around.
const MAX_AGE: Duration = Duration::from_millis(250);

/// Up to this many ids, it is cheaper to try each than to list all processes.
const FEW: i32 = 256;

/// How often ids allocated during a visit are visited, before falling back to every process.
const ROUNDS: usize = 16;

/// The state of process id allocation at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PidSnapshot {
    at: Instant,
    /// The id that was allocated last.
    last: i32,
    /// Number of processes and threads started since the system booted.
    forks: u64,
}

impl PidSnapshot {
    /// Takes a snapshot. Returns `None` if `/proc` lacks the numbers, or belongs to another pid
    /// namespace.
    pub(super) fn take() -> Option<Self> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let shown = std::fs::read_link("/proc/self").ok()?;
        if shown.to_str()?.parse() != Ok(own) {
            return None;
        }
        Self::parse(&read(LAST)?, &read("/proc/stat")?)
    }

    fn parse(last: &str, stat: &str) -> Option<Self> {
        let forks = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes "))?;
        Some(Self {
            at: clock::monotonic(),
            last: number(last)?,
            forks: forks.trim().parse().ok()?,
        })
    }
}

/// The file with the id allocated last in this process's pid namespace. `/proc/loadavg` contains it
/// too, but some containers show the host's file there.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

fn number(text: &str) -> Option<i32> {
    text.trim().parse().ok()
}

fn read(path: &str) -> Option<String> {
    let mut text = String::with_capacity(4096);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A snapshot, and a process started after it. The process must be among the ids since the
/// snapshot; otherwise the system's numbers are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    snapshot: PidSnapshot,
    child: i32,
}

impl Since {
    pub(super) fn new(snapshot: PidSnapshot, child: u32) -> Option<Self> {
        let child = i32::try_from(child).ok()?;
        Some(Self { snapshot, child })
    }
}

/// Visits every process started since the earliest of the given snapshots, or every process if one
/// is missing or too old. Thread ids and unused ids may be visited too, and some ids twice.
pub(super) fn visit(since: impl IntoIterator<Item = Option<Since>>, mut visit: impl FnMut(i32)) {
    let Some(mut range) = PidRange::since(since) else {
        return pids().for_each(visit);
    };
    for _ in 0..ROUNDS {
        range.visit(&mut visit);
        // A process may have started another one and exited, both during the visit.
        let Some(last) = read(LAST).and_then(|text| number(&text)) else {
            break;
        };
        if last == range.last {
            return;
        }
        range = range.next(last);
    }
    pids().for_each(visit);
}

/// The last `count` ids up to `last`, modulo `space`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PidRange {
    last: i32,
    count: i32,
    space: i32,
}

impl PidRange {
    /// Returns the ids since the earliest of the given snapshots, or `None` if they are unknown.
    fn since(all: impl IntoIterator<Item = Option<Since>>) -> Option<Self> {
        let (now, space) = (
            PidSnapshot::take()?,
            number(&read("/proc/sys/kernel/pid_max")?)?,
        );
        let mut widest: Option<Self> = None;
        for since in all {
            let Since { snapshot, child } = since?;
            let range = Self::between(snapshot, now, space)?;
            if !range.contains(child) {
                return None;
            }
            widest = widest
                .filter(|widest| widest.count >= range.count)
                .or(Some(range));
        }
        widest
    }

    /// Returns the ids allocated between two snapshots, or `None` if any id is possible.
    fn between(since: PidSnapshot, now: PidSnapshot, space: i32) -> Option<Self> {
        let age = now.at.checked_duration_since(since.at)?;
        let forks = now.forks.checked_sub(since.forks)?;
        // Ids in use are skipped, so ids can wrap around after fewer forks than there are ids.
        let is_certain = space > 1 && age < MAX_AGE && forks < u64::from(space.unsigned_abs() / 4);
        is_certain.then(|| Self {
            last: now.last,
            count: (now.last - since.last).rem_euclid(space),
            space,
        })
    }

    /// Returns the ids allocated after these, up to `last`.
    fn next(&self, last: i32) -> Self {
        Self {
            last,
            count: (last - self.last).rem_euclid(self.space),
            space: self.space,
        }
    }

    fn contains(&self, pid: i32) -> bool {
        (self.last - pid).rem_euclid(self.space) < self.count
    }

    fn visit(&self, visit: &mut impl FnMut(i32)) {
        if self.count > FEW {
            return pids().filter(|pid| self.contains(*pid)).for_each(visit);
        }
        let ids = (0..self.count).rev().map(|back| self.last - back);
        ids.map(|pid| pid.rem_euclid(self.space))
            .filter(|pid| *pid != 0)
            .for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(last: i32, forks: u64) -> PidSnapshot {
        PidSnapshot {
            at: clock::monotonic(),
            last,
            forks,
        }
    }

    #[test]
    fn ids_are_counted_across_the_wrap_around() {
        for (since, now, wanted) in [
            (snapshot(100, 5), snapshot(100, 5), Some(0)),
            (snapshot(100, 5), snapshot(103, 8), Some(3)),
            (snapshot(998, 5), snapshot(302, 10), Some(304)),
            // After that many forks, ids can have wrapped around.
            (snapshot(100, 5), snapshot(103, 255), None),
            // The system was restored from an older state.
            (snapshot(100, 5), snapshot(103, 4), None),
        ] {
            let now = PidSnapshot {
                at: since.at,
                ..now
            };
            let range = PidRange::between(since, now, 1000);
            assert_eq!(range.map(|it| it.count), wanted, "{since:?} {now:?}");
        }
        let (since, mut now) = (snapshot(100, 5), snapshot(103, 8));
        now.at = since.at + MAX_AGE;
        assert_eq!(PidRange::between(since, now, 1000), None, "too old");
    }

    #[test]
    fn range_visits_what_it_contains_across_the_wrap_around() {
        for (last, visited) in [(103, vec![100, 101, 102, 103]), (1, vec![998, 999, 1])] {
            let range = PidRange {
                last,
                count: 4,
                space: 1000,
            };
            let mut seen = Vec::new();
            range.visit(&mut |pid| seen.push(pid));
            assert_eq!(seen, visited);
            let contained = (1..1000).filter(|pid| range.contains(*pid)).count();
            assert_eq!(contained, visited.len());
            assert_eq!(range.next(last + 2).count, 2);
        }
    }

    // Some systems have the files, but not what Linux writes to them.
    #[test]
    fn a_snapshot_needs_all_numbers() {
        let stat = "cpu 1 2\nprocesses 27\nprocs_running 1\n";
        let known = PidSnapshot::parse("31888\n", stat).unwrap();
        assert_eq!((known.last, known.forks), (31888, 27));
        for (last, stat) in [("", stat), ("x", stat), ("1", "cpu 1 2\n")] {
            assert!(PidSnapshot::parse(last, stat).is_none(), "{last} {stat}");
        }
    }

    #[test]
    fn children_are_visited() {
        let before = PidSnapshot::take().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let is_visited = |since: &[Option<Since>], pid: i32| {
            let mut is_visited = false;
            visit(since.iter().copied(), |visited| {
                is_visited |= visited == pid;
            });
            is_visited
        };
        let pid = i32::try_from(child.id()).unwrap();
        let since = Since::new(before, child.id());
        assert!(is_visited(&[since], pid));
        // Without a snapshot, or if the child is not among the ids since then, all are visited.
        for since in [
            &[since, None][..],
            &[Since::new(before, std::process::id())],
        ] {
            assert!(is_visited(since, pid) && is_visited(since, own));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
