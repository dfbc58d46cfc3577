//! Process ids that the kernel has allocated since a snapshot (Linux).
//!
//! The kernel allocates ids in ascending order and wraps around at the maximum. The descendants of
//! a short-lived child are therefore among a few ids, however many other processes exist.
//!
//! A privileged process can choose the id of its child (`clone3` with `set_tid`). Such a child may
//! be missed, like any process that removes the session's mark from its environment.

use std::fs::File;
use std::time::{Duration, Instant};

use super::sweep::pids;
use crate::clock;

/// Maximum age of a snapshot. Failed forks consume ids too but are not counted, so with an older
/// snapshot, a wrap-around could go unnoticed.
const MAX_AGE: Duration = Duration::from_millis(250);

/// Maximum time between the two readings of a snapshot. Even if a million processes are started per
/// second, ids do not wrap around meanwhile.
const MAX_READING_TIME: Duration = Duration::from_millis(20);

/// Initial size of the buffer for a file of `/proc`.
const FILE_BYTES: usize = 4096;

/// Up to this many ids, it is cheaper to try each than to list all processes.
const MAX_PROBED_IDS: i32 = 256;

/// Up to this many ids are visited in less time than it takes to start another thread.
const SHORT_RANGE: i32 = 16;

/// Maximum number of rounds before falling back to visiting every process. Each round after the
/// first visits the ids allocated during the previous one.
const MAX_ROUNDS: usize = 16;

/// The id that was allocated last, read before a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastPid {
    at: Instant,
    last: i32,
}

impl LastPid {
    /// Reads it. Returns `None` if `/proc` lacks the number, or belongs to another pid namespace.
    pub(super) fn read() -> Option<Self> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let shown = std::fs::read_link("/proc/self").ok()?;
        if shown.to_str()?.parse() != Ok(own) {
            return None;
        }
        let at = clock::monotonic();
        let last = parse_number(&read_file(LAST_PID_FILE)?)?;
        Some(Self { at, last })
    }
}

/// The state of process id allocation at one point in time.
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
    fn take() -> Option<Self> {
        Self::complete(LastPid::read()?)
    }

    /// Completes a snapshot with the number of forks, which takes the kernel longer to compute.
    ///
    /// Forks between the two readings are not counted. There cannot be enough of them for ids to
    /// wrap around, unless this process did not run for long.
    fn complete(LastPid { at, last }: LastPid) -> Option<Self> {
        let stat = read_file("/proc/stat")?;
        let is_prompt = clock::monotonic().duration_since(at) < MAX_READING_TIME;
        Self::parse(at, last, &stat).filter(|_| is_prompt)
    }

    fn parse(at: Instant, last: i32, stat: &str) -> Option<Self> {
        let forks = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes "))?;
        Some(Self {
            at,
            last,
            forks: forks.trim().parse().ok()?,
        })
    }
}

/// The file with the id allocated last in this process's pid namespace. `/proc/loadavg` contains it
/// too, but some containers expose the host's version of that file.
const LAST_PID_FILE: &str = "/proc/sys/kernel/ns_last_pid";

fn parse_number(text: &str) -> Option<i32> {
    text.trim().parse().ok()
}

/// Reads a file of `/proc`, with as few system calls as possible.
fn read_file(path: &str) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut text = Vec::with_capacity(FILE_BYTES);
    // The kernel fills the buffer as far as it can.
    while let 1.. = rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text)).ok()?
        && text.len() == text.capacity()
    {
        text.reserve(text.len());
    }
    String::from_utf8(text).ok()
}

/// A snapshot, and a child started after it. If the child's id is not among those allocated since
/// the snapshot, the numbers in `/proc` are unreliable and are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpawnSnapshot {
    snapshot: PidSnapshot,
    child: i32,
}

impl SpawnSnapshot {
    /// Completes the snapshot from before the child was started, while the child is starting.
    pub(super) fn new(since: LastPid, child: u32) -> Option<Self> {
        let child = i32::try_from(child).ok()?;
        let snapshot = PidSnapshot::complete(since)?;
        Some(Self { snapshot, child })
    }
}

/// Visits every process of the range and those started since, or every process without a range.
/// Thread ids and unused ids may be visited too, and some ids twice.
pub(super) fn visit(range: Option<PidRange>, mut visit: impl FnMut(i32)) {
    let Some(mut range) = range else {
        return pids().for_each(visit);
    };
    for _ in 0..MAX_ROUNDS {
        range.visit(&mut visit);
        // A process may have started another one and exited, both during the visit.
        let Some(last) = read_file(LAST_PID_FILE).and_then(|text| parse_number(&text)) else {
            break;
        };
        if last == range.last {
            return;
        }
        range = range.next(last);
    }
    pids().for_each(visit);
}

/// The `count` ids up to and including `last`, modulo `space`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PidRange {
    last: i32,
    count: i32,
    space: i32,
}

impl PidRange {
    /// Returns the ids allocated since the earliest of the given snapshots, or `None` if a snapshot
    /// is missing, too old or unreliable, so that any id is possible.
    pub(super) fn since(all: impl IntoIterator<Item = Option<SpawnSnapshot>>) -> Option<Self> {
        let all: Option<Vec<SpawnSnapshot>> = all.into_iter().collect();
        let now = clock::monotonic();
        let is_recent = |it: &SpawnSnapshot| now.duration_since(it.snapshot.at) < MAX_AGE;
        let all = all.filter(|all| all.iter().all(is_recent))?;
        let (now, space) = (
            PidSnapshot::take()?,
            parse_number(&read_file("/proc/sys/kernel/pid_max")?)?,
        );
        let mut widest: Option<Self> = None;
        for SpawnSnapshot { snapshot, child } in all {
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

    /// Returns true if there are so few ids that visiting them takes microseconds.
    pub(super) fn is_short(&self) -> bool {
        self.count <= SHORT_RANGE
    }

    fn contains(&self, pid: i32) -> bool {
        (self.last - pid).rem_euclid(self.space) < self.count
    }

    fn visit(&self, visit: &mut impl FnMut(i32)) {
        if self.count > MAX_PROBED_IDS {
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
            // After that many forks, ids may have wrapped around.
            (snapshot(100, 5), snapshot(103, 255), None),
            // The fork count decreased: the system was restored from a checkpoint.
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

    // Some systems provide these files, but not with the same contents as Linux.
    #[test]
    fn a_snapshot_needs_all_numbers() {
        let stat = "cpu 1 2\nprocesses 27\nprocs_running 1\n";
        let now = clock::monotonic();
        let known = PidSnapshot::parse(now, 31888, stat).unwrap();
        assert_eq!((known.last, known.forks), (31888, 27));
        for stat in ["", "cpu 1 2\n", "processes x\n"] {
            assert!(PidSnapshot::parse(now, 1, stat).is_none(), "{stat}");
        }
        assert_eq!(parse_number("31888\n"), Some(31888));
        assert_eq!((parse_number(""), parse_number("x")), (None, None));
    }

    #[test]
    fn children_are_visited() {
        let before = LastPid::read().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let is_visited = |since: &[Option<SpawnSnapshot>], pid: i32| {
            let mut is_visited = false;
            visit(PidRange::since(since.iter().copied()), |visited| {
                is_visited |= visited == pid;
            });
            is_visited
        };
        let pid = i32::try_from(child.id()).unwrap();
        let since = SpawnSnapshot::new(before, child.id());
        assert!(is_visited(&[since], pid));
        // Without a snapshot, or with an id from before it, all processes are visited.
        for since in [
            &[since, None][..],
            &[SpawnSnapshot::new(before, std::process::id())],
        ] {
            assert!(is_visited(since, pid) && is_visited(since, own));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
