//! Misbehaviour of the fake agent: leftover processes, ignored signals, unusual exits; and the
//! functions that detect them.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::processes::{alive, descendants, group, marked, open_fds, session, wait_until};
use ostler_testkit::processes::{peak_rss_kib, rss_kib, zombie};

use crate::{FAKE_AGENT, agent, finish, next_line};

const SOON: Duration = Duration::from_secs(60);

fn signal(pid: u32, name: &str) {
    assert!(
        Command::new("kill")
            .args([name, &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

fn pid_in(path: &Path) -> u32 {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// A running agent and the process whose pid it wrote to `$DIR/pid`. Both are killed when the test
/// ends, even if it fails.
struct Running {
    child: Child,
    marker: String,
    pid_file: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(&self.pid_file) {
            let _gone = Command::new("kill")
                .args(["-KILL", &pid])
                .stderr(Stdio::null())
                .status();
        }
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Starts an agent in a new process group, with a marker, and waits for its line "ready".
fn ready(dir: &Path, verbs: &str) -> Running {
    let mut command = agent(dir, &format!("{verbs}\nprint ready\nhang"));
    let child = command
        .env("TESTKIT_MARK", dir)
        .process_group(0)
        .spawn()
        .unwrap();
    let marker = format!("TESTKIT_MARK={}", dir.display());
    let mut running = Running {
        child,
        marker,
        pid_file: dir.join("pid"),
    };
    assert_eq!(next_line(&mut running.child), "ready\n");
    running
}

#[test]
fn a_child_stays_in_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let running = ready(dir.path(), "spawn-child $DIR/pid");
    let sleeper = pid_in(&dir.path().join("pid"));
    assert_eq!(descendants(running.child.id()), [sleeper]);
    assert_eq!(group(sleeper), Some(running.child.id()));
    assert_eq!(marked(&running.marker).len(), 2);
    let marker = running.marker.clone();
    drop(running);
    assert!(wait_until(SOON, || marked(&marker).is_empty()));
}

#[test]
fn a_setsid_child_leaves_group_and_family_but_keeps_the_marker() {
    let dir = tempfile::tempdir().unwrap();
    let running = ready(dir.path(), "spawn-setsid $DIR/pid");
    let sleeper = pid_in(&dir.path().join("pid"));
    assert!(alive(sleeper) && descendants(running.child.id()).is_empty());
    assert_eq!(
        (group(sleeper), session(sleeper)),
        (Some(sleeper), Some(sleeper))
    );
    assert!(marked(&running.marker).contains(&sleeper));
}

#[test]
fn an_envless_child_has_no_marker_either() {
    let dir = tempfile::tempdir().unwrap();
    let running = ready(dir.path(), "spawn-envless $DIR/pid");
    let sleeper = pid_in(&dir.path().join("pid"));
    assert!(alive(sleeper));
    assert_eq!(marked(&running.marker), [running.child.id()]);
}

#[test]
fn a_child_can_hold_stdout_open_after_the_agent_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let child = agent(dir.path(), "spawn-holding-stdout $DIR/pid\nexit 0")
        .spawn()
        .unwrap();
    let pid = dir.path().join("pid");
    assert!(wait_until(SOON, || pid.exists()));
    let sleeper = pid_in(&pid);
    let start = Instant::now();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        signal(sleeper, "-KILL");
    });
    let output = finish(child, "");
    let until_eof = start.elapsed();
    killer.join().unwrap();
    assert!(
        output.status.success() && until_eof >= Duration::from_millis(300),
        "{until_eof:?}"
    );
}

#[test]
fn sigterm_and_sigint_can_be_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let mut running = ready(
        dir.path(),
        &format!(
            "ignore-sigterm\nprint ready\nwait-file {}\nprint still",
            go.display()
        ),
    );
    signal(running.child.id(), "-TERM");
    signal(running.child.id(), "-INT");
    fs::write(go, "").unwrap();
    assert_eq!(next_line(&mut running.child), "still\n");
    let mut running = ready(dir.path(), "");
    signal(running.child.id(), "-TERM");
    assert_eq!(running.child.wait().unwrap().signal(), Some(15));
}

#[test]
fn exits_with_the_given_code_or_signal() {
    assert_eq!(crate::play("exit 7\nprint no", "").status.code(), Some(7));
    let output = crate::play("print yes\ndie-by 6\nprint no", "");
    assert_eq!(
        (output.status.signal(), output.stdout.as_slice()),
        (Some(6), &b"yes\n"[..])
    );
}

#[test]
fn the_session_file_comes_late_after_the_end_of_input() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = agent(dir.path(), "write-file-after-eof 300 $DIR/session")
        .spawn()
        .unwrap();
    let file = dir.path().join("session");
    std::thread::sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    std::thread::sleep(Duration::from_millis(100));
    assert!(!file.exists());
    assert!(wait_until(SOON, || file.exists()));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_launcher_hides_the_agent_and_swallows_signals_and_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = agent(dir.path(), "print ready\nread\nexit 9")
        .arg("--launcher")
        .spawn()
        .unwrap();
    assert_eq!(next_line(&mut child), "ready\n");
    let real = descendants(child.id());
    assert_eq!(real.len(), 1);
    signal(child.id(), "-TERM");
    assert!(!wait_until(Duration::from_millis(200), || !alive(
        child.id()
    )));
    assert!(alive(real[0]));
    assert_eq!(finish(child, "go\n").status.code(), Some(0));
    assert!(!alive(real[0]));
    // The arguments after it arrive.
    let output = Command::new(FAKE_AGENT)
        .args(["--launcher", "--version"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"2.1.325 (Claude Code)\n");
}

#[test]
fn size_files_and_zombies_can_be_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = ready(dir.path(), "");
    let pid = running.child.id();
    assert!(rss_kib(pid).unwrap() > 100 && peak_rss_kib(pid) >= rss_kib(pid));
    assert!(open_fds(pid).unwrap() >= 3);
    running.child.kill().unwrap();
    assert!(wait_until(SOON, || zombie(pid)));
    assert!(!alive(pid));
    running.child.wait().unwrap();
    assert!(!zombie(pid) && rss_kib(pid).is_none());
}
