//! Readers that do not read, readers that go away, and signals that were told to be ignored.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_testkit::processes::{alive, wait_until};
use rustix::process::Signal;

use crate::rig::{PATIENCE, Rig, collect, finish, signal};

/// More than any pipe holds.
const FLOOD: &str =
    "pid-file agent\nread-user\ninit\nflood 100000000 1000\nresult done\nread-until-eof";

fn ends(child: &mut Child, within: Duration) -> bool {
    wait_until(within, || child.try_wait().unwrap().is_some())
}

fn flood(rig: &Rig, args: &[&str]) -> Command {
    rig.fake_run(
        FLOOD,
        &[&["--output", "events", "--grace", "300ms", "hi"], args].concat(),
    )
}

// A reader that stops reading does not take the limits away.
#[test]
fn a_limit_holds_while_nobody_reads() {
    let rig = Rig::new();
    let mut child = flood(&rig, &["--timeout", "1s"]).spawn().unwrap();
    let agent = rig.number("agent");
    assert!(
        wait_until(PATIENCE, || !alive(agent)),
        "the agent outlives its limit"
    );
    // What was said is still there for a reader that comes back.
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    assert!(said.lines().last().unwrap().contains("\"wall_limit\""));
}

#[test]
fn signals_are_heard_while_nobody_reads() {
    for (signals, code) in [
        (&[Signal::INT, Signal::INT][..], 130),
        (&[Signal::TERM, Signal::TERM], 143),
        (&[Signal::TERM, Signal::INT, Signal::INT], 143),
    ] {
        let rig = Rig::new();
        let mut child = flood(&rig, &[]).spawn().unwrap();
        let agent = rig.number("agent");
        std::thread::sleep(Duration::from_millis(500));
        for each in signals {
            assert!(alive(child.id()));
            signal(&child, *each);
            std::thread::sleep(Duration::from_millis(800));
        }
        assert!(ends(&mut child, PATIENCE), "{signals:?}: still there");
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signals:?}");
        assert!(!alive(agent), "{signals:?}: the agent is still there");
    }
}

// The session is over and only its reader is missing: one signal is enough.
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
        "the pipe is too small for all of it"
    );
    signal(&child, Signal::TERM);
    assert!(ends(&mut child, PATIENCE), "still there");
    assert_eq!(
        child.wait().unwrap().code(),
        Some(0),
        "the run itself went well"
    );
}

// `nohup ostler run … &` goes on when the terminal closes.
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
fn a_hangup_that_is_not_ignored_stops() {
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

// Only stdout is the answer: without stderr the run goes on.
#[test]
fn a_closed_stderr_takes_nothing_from_the_answer() {
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
        "a failure is a failure, heard or not"
    );
}

// The order on stdout is that of the events, however fast they come.
#[test]
fn nothing_is_lost_on_the_way_to_a_slow_reader() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        "read-user\ninit\nflood 3000000 300\nresult done\nread-until-eof",
        &["--output", "events", "hi"],
    ));
    assert_eq!(done.cause(), "completed");
}
