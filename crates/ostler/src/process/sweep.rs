//! Discovery of an agent's processes through `/proc` (Linux), whatever group or session they moved
//! to.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};

/// Maximum size of `/proc/<pid>/stat`: 52 numbers of at most 20 digits, and a short name.
const STAT_BYTES: usize = 2048;

/// A process, identified by pid and start time, because a pid can be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProcessRef {
    pid: i32,
    start: u64,
}

/// Fields of `/proc/<pid>/stat`.
pub(super) struct Stat {
    parent: i32,
    pub(super) session: i32,
    pub(super) zombie: bool,
    start: u64,
}

/// Returns the live descendants of `root`, without `root` itself. A process that is forked
/// meanwhile may be missing.
pub(super) fn descendants(root: i32) -> Vec<ProcessRef> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut queue = vec![root];
    while let Some(parent) = queue.pop() {
        let Some(children) = children(parent) else {
            // The kernel lists no children: look at every process.
            return descendants_by_parent(root);
        };
        for pid in children {
            if seen.insert(pid) {
                queue.push(pid);
                found.extend(live(pid));
            }
        }
    }
    found
}

/// Returns the children of a process: none if it has exited, `None` if the kernel does not list
/// them.
fn children(parent: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            Err(_) if thread.path().exists() => return None,
            Err(_) => {} // the thread has exited
        }
    }
    Some(children)
}

fn descendants_by_parent(root: i32) -> Vec<ProcessRef> {
    let all: HashMap<i32, Stat> = pids().filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, stat) in &all {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut queue = vec![root];
    while let Some(parent) = queue.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            if seen.insert(pid) {
                queue.push(pid);
                found.extend(all.get(&pid).and_then(|stat| stat.live(pid)));
            }
        }
    }
    found
}

impl Stat {
    fn live(&self, pid: i32) -> Option<ProcessRef> {
        (!self.zombie).then_some(ProcessRef {
            pid,
            start: self.start,
        })
    }
}

pub(super) fn live(pid: i32) -> Option<ProcessRef> {
    stat(pid)?.live(pid)
}

/// Returns true if a process session contains a process that is alive or dying. Only suitable for
/// waiting, because session ids can be reused.
pub(super) fn has_live_process(session: Option<u32>) -> bool {
    let session = session.and_then(|session| i32::try_from(session).ok());
    session.is_some_and(|session| {
        pids()
            .filter_map(stat)
            .any(|stat| stat.session == session && !stat.zombie)
    })
}

/// Sends a signal to those that are still the same processes, by pid and start time.
pub(super) fn signal(processes: &[ProcessRef], signal: Signal) {
    for process in processes {
        if stat(process.pid).is_some_and(|s| s.start == process.start)
            && let Some(pid) = Pid::from_raw(process.pid)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

pub(super) fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(super) fn stat(pid: i32) -> Option<Stat> {
    // Read as bytes: the name of a process need not be valid UTF-8.
    // The kernel returns all of it at once.
    let mut buffer = [0; STAT_BYTES];
    let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    let bytes = &buffer[..length];
    // The second field is the name in parentheses, which may itself contain spaces and parentheses.
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(bytes.get(end + 1..)?)
        .ok()?
        .split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let threads: u32 = fields.nth(13)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    // A process whose main thread has exited shows as a zombie while other threads run.
    Some(Stat {
        parent,
        session,
        zombie: matches!(state, "Z" | "X") && threads <= 1,
        start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_parent_and_a_start_time() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let stat = stat(own).unwrap();
        assert!(stat.parent > 0 && stat.start > 0 && !stat.zombie);
    }

    // P8: a session counts as long as one of its processes lives, and no longer.
    #[test]
    fn session_is_live_while_one_of_its_processes_lives() {
        let mut child = std::process::Command::new("setsid")
            .args(["sleep", "30"])
            .spawn()
            .unwrap();
        let session = Some(child.id());
        while !has_live_process(session) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        // A zombie does not count.
        while has_live_process(session) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(!has_live_process(session) && !has_live_process(None));
    }

    // A process can give itself any bytes as its name.
    #[test]
    fn process_with_non_utf8_name_is_found() {
        let script = r"printf 'x\377) y' > /proc/self/comm; printf 'x\377) y' > /proc/$$/comm; "
            .to_owned()
            + "echo; read -r line";
        let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
        let mut child = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert!(
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_err(),
            "the name should not be valid UTF-8"
        );
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let found = descendants(own)
            .into_iter()
            .find(|process| process.pid == pid)
            .unwrap();
        signal(&[found], Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }

    // P12: a process with the same pid and another start time is never signalled.
    #[test]
    fn reused_pid_is_not_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let real = stat(pid).unwrap().start;
        signal(
            &[ProcessRef {
                pid,
                start: real + 1,
            }],
            Signal::KILL,
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(
            child.try_wait().unwrap().is_none(),
            "an unrelated process was killed"
        );
        signal(&[ProcessRef { pid, start: real }], Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }
}
