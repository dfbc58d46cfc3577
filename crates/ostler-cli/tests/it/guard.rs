//! Process cleanup: no process survives, whichever process dies and however the agent's children
//! try to escape.

use std::time::Duration;

use ostler_testkit::processes::{alive, marked, wait_until};
use rustix::process::Signal;

use crate::rig::{PATIENCE, Rig, collect, finish, signal};

/// Maximum time for the cleanup after Ostler itself is killed.
const AFTER_KILL: Duration = Duration::from_secs(3);

/// A working agent with four kinds of children: plain, in a separate session, without our
/// environment, and holding our stdout open.
const BUSY: &str = "pid-file agent\nspawn-child child\nspawn-setsid setsid\nspawn-envless envless\nspawn-holding-stdout holding\nread\ninit\n";
const CHILDREN: [&str; 4] = ["child", "setsid", "envless", "holding"];

fn all_pids(rig: &Rig) -> Vec<u32> {
    let mut all = vec![rig.number("agent")];
    all.extend(CHILDREN.map(|name| rig.number(name)));
    all
}

pub(crate) fn all_gone(pids: &[u32], within: Duration) -> bool {
    wait_until(within, || pids.iter().all(|pid| !alive(*pid)))
}

// P5, P67: the program is killed with SIGKILL while the agent and its children run.
#[test]
pub(crate) fn killing_ostler_leaves_no_process() {
    let rig = Rig::new();
    let child = rig
        .fake_run(&format!("{BUSY}hang"), &["hi"])
        .spawn()
        .unwrap();
    let pids = all_pids(&rig);
    signal(&child, Signal::KILL);
    assert!(
        all_gone(&pids, AFTER_KILL),
        "left: {:?}",
        pids.iter().filter(|p| alive(**p)).collect::<Vec<_>>()
    );
    let _ = collect(child);
}

// P67, P68: the same with an agent that ignores SIGTERM.
#[test]
fn killing_ostler_kills_an_agent_that_ignores_sigterm() {
    let rig = Rig::new();
    let child = rig
        .fake_run(&format!("ignore-sigterm\n{BUSY}hang"), &["hi"])
        .spawn()
        .unwrap();
    let pids = all_pids(&rig);
    signal(&child, Signal::KILL);
    assert!(all_gone(&pids, AFTER_KILL));
    let _ = collect(child);
}

// P2, P4: children that outlive an agent's normal exit.
#[test]
pub(crate) fn children_are_killed_after_a_normal_exit() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        &format!("{BUSY}result done\nread-until-eof\nexit 0"),
        &["--output", "events", "hi"],
    ));
    assert_eq!(done.cause(), "completed");
    let pids = all_pids(&rig);
    assert!(
        pids.iter().all(|pid| !alive(*pid)),
        "they are gone before the program exits"
    );
}

// S2-20: if the agent is killed from outside, its children are killed too, and the cause is
// reported.
#[test]
fn killed_agent_is_reported_and_its_children_killed() {
    let rig = Rig::new();
    let child = rig
        .fake_run(&format!("{BUSY}hang"), &["--output", "events", "hi"])
        .spawn()
        .unwrap();
    let pids = all_pids(&rig);
    kill(pids[0]);
    let done = collect(child);
    assert_eq!((done.code, done.cause().as_str()), (Some(1), "agent_died"));
    assert_eq!(done.outcome()["detail"]["signal"], 9);
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

// If the guard is killed, the agent dies with it, and the rest is found by its mark.
#[test]
fn killing_the_guard_kills_the_agent() {
    let rig = Rig::new();
    let child = rig
        .fake_run(
            "pid-file agent\nspawn-setsid setsid\nread\ninit\nhang",
            &["--output", "events", "hi"],
        )
        .spawn()
        .unwrap();
    let pids = [rig.number("agent"), rig.number("setsid")];
    kill(guard_of(&child));
    let done = collect(child);
    assert_eq!(done.cause(), "agent_died");
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

// P37: Ctrl-C interrupts the turn and exits cleanly.
#[test]
fn ctrl_c_interrupts() {
    let rig = Rig::new();
    let script = "read\ninit\npid-file working\nanswer-interrupt\nread-until-eof\nexit 0";
    let child = rig
        .fake_run(script, &["--output", "events", "hi"])
        .spawn()
        .unwrap();
    rig.number("working");
    signal(&child, Signal::INT);
    let done = collect(child);
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(130), "interrupted")
    );
    assert_eq!(done.outcome()["detail"]["acknowledged"], true);
}

#[test]
fn second_ctrl_c_kills_an_unresponsive_agent() {
    let rig = Rig::new();
    let script = format!(
        "ignore-sigterm\n{BUSY}pid-file working\nwait-interrupt\npid-file interrupted\nhang"
    );
    let child = rig
        .fake_run(&script, &["--grace", "60s", "--output", "events", "hi"])
        .spawn()
        .unwrap();
    let pids = all_pids(&rig);
    rig.number("working");
    signal(&child, Signal::INT);
    rig.number("interrupted"); // the first was handled, so the second is a new one
    signal(&child, Signal::INT);
    let done = collect(child);
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(130), "interrupted")
    );
    assert_eq!(done.outcome()["detail"]["acknowledged"], false);
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

// P1, P7
#[test]
fn sigterm_stops_cleanly() {
    let rig = Rig::new();
    let script = format!("{BUSY}pid-file working\nanswer-interrupt\nread-until-eof\nexit 0");
    let child = rig
        .fake_run(&script, &["--output", "events", "hi"])
        .spawn()
        .unwrap();
    let pids = all_pids(&rig);
    rig.number("working");
    signal(&child, Signal::TERM);
    let done = collect(child);
    assert_eq!((done.code, done.cause().as_str()), (Some(143), "stopped"));
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

// The agent has no terminal, none of our descriptors except its three streams, and no other agent's
// keys.
#[test]
fn the_agent_gets_its_streams_and_nothing_else() {
    let rig = Rig::new();
    let script = "report-fds fds\ndump-env env\nread\ninit\nresult done\nread-until-eof";
    let done = finish(
        rig.fake_run(script, &["hi"])
            .env("GITHUB_TOKEN", "secret")
            .env("CLAUDECODE", "1")
            .env("ANTHROPIC_API_KEY", "key"),
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let fds = std::fs::read_to_string(rig.path("fds")).unwrap();
    let inherited: Vec<&str> = fds
        .lines()
        .filter(|l| l.contains("socket:") || l.contains("pipe:"))
        .collect();
    let is_stream = |line: &str| ["0 ", "1 ", "2 "].iter().any(|n| line.starts_with(n));
    assert!(
        inherited
            .iter()
            .all(|l| is_stream(l) || leaked_by_the_runner(l)),
        "{fds}"
    );
    let env = std::fs::read_to_string(rig.path("env")).unwrap();
    assert!(env.contains("ANTHROPIC_API_KEY=key") && env.contains("OSTLER_SESSION="));
    assert!(!env.contains("GITHUB_TOKEN") && !env.contains("CLAUDECODE=")); // P31
}

/// Returns true for a descriptor that the test process inherited without close-on-exec.
fn leaked_by_the_runner(line: &str) -> bool {
    let target = line.split_once(' ').map_or("", |(_, target)| target);
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|l| l.to_string_lossy() == target))
}

// After any run, no process carries the session's mark.
#[test]
fn no_process_carries_the_mark_of_an_ended_session() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        "spawn-setsid\nread\ninit\nresult done\nread-until-eof",
        &["--output", "events", "hi"],
    ));
    let session = done.events()[0]["session"].as_str().unwrap().to_owned();
    assert!(wait_until(PATIENCE, || marked(&format!(
        "OSTLER_SESSION={session}"
    ))
    .is_empty()));
}

/// Returns true if the process has pending signals.
fn has_pending_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let masks = status.lines().filter_map(|line| {
        line.strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"))
    });
    masks
        .into_iter()
        .any(|mask| mask.trim().bytes().any(|digit| digit != b'0'))
}

// A service manager that stops a whole process group signals the guard too; the agent still gets
// its grace period (P9).
#[test]
fn terminated_guard_stays_until_the_agent_exits() {
    let rig = Rig::new();
    let script = "pid-file agent\nspawn-envless envless\nread\ninit\nhang";
    let child = rig
        .fake_run(script, &["--output", "events", "hi"])
        .spawn()
        .unwrap();
    let pids = [rig.number("agent"), rig.number("envless")];
    let guard = guard_of(&child);
    rustix::process::kill_process(pid(guard), Signal::TERM).unwrap();
    rustix::process::kill_process(pid(guard), Signal::HUP).unwrap();
    assert!(
        wait_until(PATIENCE, || !has_pending_signals(guard)),
        "the signals are still pending"
    );
    assert!(
        alive(guard) && pids.iter().all(|pid| alive(*pid)),
        "a terminated guard stays"
    );
    signal(&child, Signal::TERM);
    assert_eq!(collect(child).cause(), "stopped");
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

// A stopped guard is continued when it is needed: only the guard can find everything it watches.
#[test]
fn stopped_guard_still_kills_its_agent() {
    let rig = Rig::new();
    let script = "pid-file agent\nspawn-envless envless\nread\ninit\nhang";
    let child = rig
        .fake_run(script, &["--output", "events", "--grace", "300ms", "hi"])
        .spawn()
        .unwrap();
    let pids = [rig.number("agent"), rig.number("envless")];
    let guard = guard_of(&child);
    rustix::process::kill_process(pid(guard), Signal::STOP).unwrap();
    signal(&child, Signal::INT);
    let done = collect(child);
    assert!(!done.stdout.contains("process_left"), "{}", done.stdout);
    assert!(all_gone(&[guard, pids[0], pids[1]], PATIENCE));
}

pub(crate) fn guard_of(child: &std::process::Child) -> u32 {
    let is_guard = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|c| c.trim() == "agent-guard")
    };
    let found = ostler_testkit::processes::descendants(child.id())
        .into_iter()
        .find(is_guard);
    found.unwrap()
}

pub(crate) fn pid(number: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

// If the parent ignores SIGCHLD, the kernel discards exit statuses, including those that the guard
// waits for.
#[test]
fn parent_that_ignores_sigchld_makes_no_difference() {
    let rig = Rig::new();
    let run = rig.fake_run(
        "read\ninit\nresult done\nread-until-eof\nexit 0",
        &["--output", "events", "hi"],
    );
    let mut shell = std::process::Command::new("/bin/bash");
    shell
        .args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args());
    shell
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir(rig.dir());
    shell
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let done = finish(&mut shell);
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(0), "completed"),
        "{}",
        done.stderr
    );
    assert_eq!(done.events().last().unwrap()["exit_code"], 0);
}

// Time while Ostler is stopped (Ctrl-Z) does not count as the agent's silence.
#[test]
fn time_while_ostler_is_stopped_is_not_idle_time() {
    let rig = Rig::new();
    let script = "read\ninit\ntext tick\npid-file working\nloop 60\ntext tick\nsleep 100\nend\nresult done\nread-until-eof";
    let child = rig
        .fake_run(
            script,
            &["--output", "events", "--idle-timeout", "4s", "hi"],
        )
        .spawn()
        .unwrap();
    rig.number("working");
    signal(&child, Signal::STOP);
    std::thread::sleep(Duration::from_millis(4500)); // longer than the limit
    signal(&child, Signal::CONT);
    assert_eq!(collect(child).cause(), "completed");
}

// Values too long for a command line are written to a file, which is removed with the agent, even
// if Ostler is killed.
#[test]
fn files_of_a_killed_run_are_removed() {
    let rig = Rig::new();
    let temp = rig.path("tmp");
    std::fs::create_dir(&temp).unwrap();
    let long = "x".repeat(120_000);
    let mut command = rig.fake_run(
        "pid-file agent\nread\ninit\nhang",
        &["--system-prompt", &long, "hi"],
    );
    let child = command.env("TMPDIR", &temp).spawn().unwrap();
    rig.number("agent");
    let files = || std::fs::read_dir(&temp).unwrap().count();
    assert_eq!(files(), 1);
    signal(&child, Signal::KILL);
    assert!(wait_until(PATIENCE, || files() == 0));
    let _ = collect(child);
}

// A log that is a pipe without a reader is a log error, and nothing blocks on it.
#[test]
fn raw_log_that_is_a_pipe_does_not_block() {
    let rig = Rig::new();
    let pipe = rig.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let done = finish(&mut rig.fake_run(
        "read\ninit\nresult done\nread-until-eof",
        &["--output", "events", "--raw-log", "pipe", "hi"],
    ));
    assert_eq!(done.cause(), "completed");
    assert!(done.stdout.contains("raw_log_failed"));
}
