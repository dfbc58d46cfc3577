//! Process ids that the kernel has handed out since a moment (Linux).
//!
//! It hands them out in ascending order and starts again at the end. What a child started is
//! therefore found among a few ids, however many other processes there are.

use std::fs::File;
use std::io::Read;

use super::sweep::pids;

/// Up to this many ids, it is cheaper to try each than to list all processes.
const FEW: i32 = 256;

/// How often ids that were handed out during a pass are looked at, before every process is.
const ROUNDS: usize = 16;

/// A moment in the sequence of process ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// The id that was handed out last.
    last: i32,
    /// Number of processes and threads started since the system was booted.
    forks: u64,
}

impl Moment {
    /// Returns the current moment, or `None` if `/proc` does not tell.
    pub(super) fn now() -> Option<Self> {
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

/// Returns the number of process ids that the system can hand out.
fn space() -> Option<i32> {
    last_field(&read("/proc/sys/kernel/pid_max")?)
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

/// Visits every process that exists and was started since the earliest of the given moments: all
/// of them if one is unknown. It may also visit ids without a process.
pub(super) fn visit(since: impl IntoIterator<Item = Option<Since>>, mut visit: impl FnMut(i32)) {
    let Some(mut range) = Range::since(since) else {
        return pids().for_each(visit);
    };
    for _ in 0..ROUNDS {
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

/// The ids from the end of `count` ids up to `last`, modulo `space`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    last: i32,
    count: i32,
    space: i32,
    forks: u64,
}

impl Range {
    /// Returns the ids since the earliest of the given moments, or `None` if that is not known.
    fn since(all: impl IntoIterator<Item = Option<Since>>) -> Option<Self> {
        let (now, space) = (Moment::now()?, space()?);
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

    /// Returns the ids handed out between two moments, or `None` if they are not known.
    fn between(since: Moment, now: Moment, space: i32) -> Option<Self> {
        Some(Self {
            last: now.last,
            count: count(since, now, space)?,
            space,
            forks: now.forks,
        })
    }

    /// Returns the ids handed out after these.
    fn next(&self) -> Option<Self> {
        let Self { last, forks, .. } = *self;
        Self::between(Moment { last, forks }, Moment::now()?, self.space)
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

/// Returns the number of ids from `since` to `now`, or `None` if they may have started again at
/// `since` or passed it: every id is possible then.
fn count(since: Moment, now: Moment, space: i32) -> Option<i32> {
    let forks = now.forks.checked_sub(since.forks)?;
    // Ids in use and the lowest ones are skipped, so fewer forks than there are ids can come round.
    let is_certain = space > 1 && forks < u64::from(space.unsigned_abs() / 4);
    is_certain.then(|| (now.last - since.last).rem_euclid(space))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(last: i32, forks: u64) -> Moment {
        Moment { last, forks }
    }

    #[test]
    fn ids_are_counted_across_the_end_of_their_space() {
        for (since, now, wanted) in [
            (moment(100, 5), moment(100, 5), Some(0)),
            (moment(100, 5), moment(103, 8), Some(3)),
            (moment(998, 5), moment(302, 10), Some(304)),
            // So many forks can come round to the first id, or beyond it.
            (moment(100, 5), moment(103, 255), None),
            // The system was restored from an older state.
            (moment(100, 5), moment(103, 4), None),
        ] {
            assert_eq!(count(since, now, 1000), wanted, "{since:?} {now:?}");
        }
    }

    #[test]
    fn range_visits_what_it_contains_even_across_the_end() {
        for (last, visited) in [(103, vec![100, 101, 102, 103]), (1, vec![998, 999, 1])] {
            let range = Range {
                last,
                count: 4,
                space: 1000,
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
        let before = Moment::now().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let visited = |since: &[Option<Since>]| {
            let mut visited = Vec::new();
            visit(since.iter().copied(), |pid| visited.push(pid));
            visited
        };
        let since = |child| {
            Some(Since {
                moment: before,
                child,
            })
        };
        let recent = visited(&[since(pid)]);
        assert!(
            recent.contains(&pid) && !recent.contains(&own),
            "{recent:?}"
        );
        // Without a moment, or if the child is not where it should be, all are visited.
        for since in [&[since(pid), None][..], &[since(own)]] {
            let all = visited(since);
            assert!(all.contains(&pid) && all.contains(&own), "{all:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
