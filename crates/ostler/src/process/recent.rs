//! Process ids that the kernel has handed out since a moment (Linux).
//!
//! It hands them out in ascending order and starts again at the end. What a child of a short life
//! started is therefore found among a few ids, however many other processes there are.
//!
//! A privileged process can choose the id of a child (`clone3` with `set_tid`), and is not found
//! this way; but neither is one that removes the session's mark from its environment.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use super::sweep::pids;
use crate::clock;

/// How old a moment may be. Ids are also taken by forks that fail, which nothing counts; in this
/// time they cannot have come round.
const MAX_AGE: Duration = Duration::from_millis(250);

/// Up to this many ids, it is cheaper to try each than to list all processes.
const FEW: i32 = 256;

/// How often ids that were handed out during a visit are visited, before every process is.
const ROUNDS: usize = 16;

/// A moment in the sequence of process ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    at: Instant,
    /// The id that was handed out last.
    last: i32,
    /// Number of processes and threads started since the system was booted.
    forks: u64,
}

impl Moment {
    /// Returns the current moment, or `None` if `/proc` does not tell or is not that of this
    /// process.
    pub(super) fn now() -> Option<Self> {
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

/// The file with the id that was handed out last in this process's namespace. `/proc/loadavg` has
/// it too, but containers replace that file by the host's.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

fn number(text: &str) -> Option<i32> {
    text.trim().parse().ok()
}

fn read(path: &str) -> Option<String> {
    let mut text = String::with_capacity(4096);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A moment, and a process that was started after it, which shows that the system's account of
/// process ids can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    moment: Moment,
    child: i32,
}

impl Since {
    pub(super) fn new(moment: Moment, child: u32) -> Option<Self> {
        let child = i32::try_from(child).ok()?;
        Some(Self { moment, child })
    }
}

/// Visits every process that was started since the earliest of the given moments: all processes if
/// one is unknown or too old. Ids of threads and ids that are not in use may be visited too, and
/// some twice.
pub(super) fn visit(since: impl IntoIterator<Item = Option<Since>>, mut visit: impl FnMut(i32)) {
    let Some(mut range) = Range::since(since) else {
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
struct Range {
    last: i32,
    count: i32,
    space: i32,
}

impl Range {
    /// Returns the ids since the earliest of the given moments, or `None` if they are not known.
    fn since(all: impl IntoIterator<Item = Option<Since>>) -> Option<Self> {
        let (now, space) = (Moment::now()?, number(&read("/proc/sys/kernel/pid_max")?)?);
        let mut widest: Option<Self> = None;
        for since in all {
            let Since { moment, child } = since?;
            let range = Self::between(moment, now, space)?;
            if !range.contains(child) {
                return None;
            }
            widest = widest
                .filter(|widest| widest.count >= range.count)
                .or(Some(range));
        }
        widest
    }

    /// Returns the ids handed out between two moments, or `None` if any id is possible.
    fn between(since: Moment, now: Moment, space: i32) -> Option<Self> {
        let age = now.at.checked_duration_since(since.at)?;
        let forks = now.forks.checked_sub(since.forks)?;
        // Ids in use are skipped, so they come round after fewer forks than there are ids.
        let is_certain = space > 1 && age < MAX_AGE && forks < u64::from(space.unsigned_abs() / 4);
        is_certain.then(|| Self {
            last: now.last,
            count: (now.last - since.last).rem_euclid(space),
            space,
        })
    }

    /// Returns the ids handed out after these, up to `last`.
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

    fn moment(last: i32, forks: u64) -> Moment {
        Moment {
            at: clock::monotonic(),
            last,
            forks,
        }
    }

    #[test]
    fn ids_are_counted_across_the_end_of_their_space() {
        for (since, now, wanted) in [
            (moment(100, 5), moment(100, 5), Some(0)),
            (moment(100, 5), moment(103, 8), Some(3)),
            (moment(998, 5), moment(302, 10), Some(304)),
            // After so many forks, ids can have come round.
            (moment(100, 5), moment(103, 255), None),
            // The system was restored from an older state.
            (moment(100, 5), moment(103, 4), None),
        ] {
            let now = Moment {
                at: since.at,
                ..now
            };
            let range = Range::between(since, now, 1000);
            assert_eq!(range.map(|it| it.count), wanted, "{since:?} {now:?}");
        }
        let (since, mut now) = (moment(100, 5), moment(103, 8));
        now.at = since.at + MAX_AGE;
        assert_eq!(Range::between(since, now, 1000), None, "too old");
    }

    #[test]
    fn range_visits_what_it_contains_even_across_the_end() {
        for (last, visited) in [(103, vec![100, 101, 102, 103]), (1, vec![998, 999, 1])] {
            let range = Range {
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
    fn a_moment_is_unknown_unless_all_numbers_are_there() {
        let stat = "cpu 1 2\nprocesses 27\nprocs_running 1\n";
        let known = Moment::parse("31888\n", stat).unwrap();
        assert_eq!((known.last, known.forks), (31888, 27));
        for (last, stat) in [("", stat), ("x", stat), ("1", "cpu 1 2\n")] {
            assert!(Moment::parse(last, stat).is_none(), "{last} {stat}");
        }
    }

    #[test]
    fn children_are_visited() {
        let before = Moment::now().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let is_visited = |since: &[Option<Since>], pid: i32| {
            let mut is_visited = false;
            visit(since.iter().copied(), |visited| {
                is_visited |= visited == pid
            });
            is_visited
        };
        let pid = i32::try_from(child.id()).unwrap();
        let since = Since::new(before, child.id());
        assert!(is_visited(&[since], pid));
        // Without a moment, or if the child is not where it should be, all are visited.
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
