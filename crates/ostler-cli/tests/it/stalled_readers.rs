//! Readers that stall or go away, and ignored signals.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_testkit::processes::{alive, wait_until};
use rustix::process::Signal;

use crate::rig::{PATIENCE, Rig, collect, finish, signal};

/// Prints more than any pipe holds.
const FLOOD: &str =
    "pid-file agent\nread-user\ninit\nflood 100000000 1000\nresult done\nread-until-eof";

fn exits(child: &mut Child, within: Duration) -> bool {
    wait_until(within, || child.try_wait().unwrap().is_some())
}

fn flood_command(rig: &Rig, args: &[&str]) -> Command {
    rig.fake_run(
        FLOOD,
        &[&["--output", "events", "--grace", "300ms", "hi"], args].concat(),
    )
}

// Limits still apply while the reader is stalled.
#[test]
fn limit_applies_while_the_reader_is_stalled() {
    let rig = Rig::new();
    let mut child = flood_command(&rig, &["--timeout", "1s"]).spawn().unwrap();
    let agent = rig.number("agent");
    assert!(
        wait_until(PATIENCE, || !alive(agent)),
        "the agent outlives its limit"
    );
    // The output is still available to a reader that continues.
    let mut output = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    assert!(output.lines().last().unwrap().contains("\"wall_limit\""));
}

#[test]
fn signals_work_while_the_reader_is_stalled() {
    for (signals, code) in [
        (&[Signal::INT, Signal::INT][..], 130),
        (&[Signal::TERM, Signal::TERM], 143),
        (&[Signal::TERM, Signal::INT, Signal::INT], 143),
    ] {
        let rig = Rig::new();
        let mut child = flood_command(&rig, &[]).spawn().unwrap();
        let agent = rig.number("agent");
        std::thread::sleep(Duration::from_millis(500));
        for each in signals {
            assert!(alive(child.id()));
            signal(&child, *each);
            std::thread::sleep(Duration::from_millis(800));
        }
        assert!(exits(&mut child, PATIENCE), "{signals:?}: still there");
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signals:?}");
        assert!(!alive(agent), "{signals:?}: the agent is still there");
    }
}

// The session has ended and only its reader is stalled: one signal is enough.
#[test]
fn a_signal_after_the_end_does_not_wait_for_the_reader() {
    let rig = Rig::new();
    let script = "read-user\ninit\nloop 400\ndelta 0123456789012345678901234567890123456789\nend\nresult done\nread-until-eof\npid-file over";
    let mut child = rig
        .fake_run(script, &["--output", "events", "hi"])
        .spawn()
        .unwrap();
    rig.number("over");
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the pipe must be too small for the output"
    );
    signal(&child, Signal::TERM);
    assert!(exits(&mut child, PATIENCE), "still there");
    assert_eq!(
        child.wait().unwrap().code(),
        Some(0),
        "the run itself succeeded"
    );
}

// `nohup ostler run … &` keeps running when the terminal closes.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let rig = Rig::new();
    let script = "read-user\ninit\npid-file working\nwait-file go\nresult done\nread-until-eof";
    let run = rig.fake_run(script, &["--grace", "200ms", "--output", "text", "hi"]);
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(run.get_program())
        .args(run.get_args());
    shell
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", rig.dir())
        .current_dir(rig.dir());
    let child = shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    rig.number("working");
    signal(&child, Signal::HUP);
    std::fs::write(rig.path("go"), "").unwrap();
    let done = collect(child);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "done\n"),
        "{}",
        done.stderr
    );
}

#[test]
fn hangup_stops_the_run_by_default() {
    let rig = Rig::new();
    let child = rig
        .fake_run(
            "read-user\ninit\npid-file working\nhang",
            &["--grace", "200ms", "hi"],
        )
        .spawn()
        .unwrap();
    rig.number("working");
    signal(&child, Signal::HUP);
    assert_eq!(collect(child).code, Some(143));
}

// The answer goes to stdout only: without stderr the run continues.
#[test]
fn closed_stderr_does_not_affect_the_answer() {
    for output in ["human", "text"] {
        let rig = Rig::new();
        let script = "pid-file agent\nread-user\ninit\nthinking Hm.\nsleep 300\ntool-use t1 Bash {\"command\":\"ls\"}\ntool-result t1 ok\ntext Fine.\nresult Fine.\nread-until-eof";
        let mut child = rig
            .fake_run(script, &["--output", output, "hi"])
            .spawn()
            .unwrap();
        drop(child.stderr.take());
        let done = collect(child);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "Fine.\n"),
            "{output}"
        );
    }
    let rig = Rig::new();
    let mut child = rig
        .fake_run("read-user\ninit\nexit 5", &["--output", "text", "hi"])
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(
        collect(child).code,
        Some(1),
        "a failure sets the exit code even without stderr"
    );
}

// Events are printed in order, however fast they arrive.
#[test]
fn slow_reader_gets_every_event() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        "read-user\ninit\nflood 3000000 300\nresult done\nread-until-eof",
        &["--output", "events", "hi"],
    ));
    assert_eq!(done.cause(), "completed");
}
