//! The hidden `__bridge` command: relays lines both ways, ends with either side, and prints nothing
//! else to stdout.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};

use ostler_testkit::processes;

use crate::rig::{PATIENCE, Rig};

fn start(rig: &Rig, socket: &str) -> Child {
    rig.ostler(&["__bridge", socket])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

fn code(mut child: Child) -> Option<i32> {
    assert!(
        processes::wait_until(PATIENCE, || child.try_wait().unwrap().is_some()),
        "the bridge does not exit"
    );
    child.wait().unwrap().code()
}

#[test]
fn lines_go_both_ways_until_either_side_ends() {
    let rig = Rig::new();
    let socket = rig.path("s");
    let listener = UnixListener::bind(&socket).unwrap();
    for agent_closes_first in [true, false] {
        let mut child = start(&rig, socket.to_str().unwrap());
        let (mut session, _) = listener.accept().unwrap();
        let mut from_agent = BufReader::new(session.try_clone().unwrap());
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for round in 0..3 {
            let mut line = String::new();
            stdin
                .write_all(format!("ask {round}\n").as_bytes())
                .unwrap();
            from_agent.read_line(&mut line).unwrap();
            session
                .write_all(format!("answer to {line}").as_bytes())
                .unwrap();
            line.clear();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, format!("answer to ask {round}\n"));
        }
        let mut rest = String::new();
        if agent_closes_first {
            drop(stdin);
            assert_eq!(
                from_agent.read_line(&mut rest).unwrap(),
                0,
                "the session sees the end of input"
            );
            session.write_all(b"the last answer\n").unwrap();
        }
        drop((session, from_agent));
        std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
        assert_eq!(
            rest,
            if agent_closes_first {
                "the last answer\n"
            } else {
                ""
            }
        );
        assert_eq!(code(child), Some(0));
    }
}

// If the session does not answer, a bridge still exits soon after the agent closes its end.
#[test]
fn a_session_that_does_not_answer_does_not_hold_a_bridge() {
    let rig = Rig::new();
    let socket = rig.path("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut child = start(&rig, socket.to_str().unwrap());
    let (_session, _) = listener.accept().unwrap();
    drop(child.stdin.take());
    assert_eq!(code(child), Some(0));
}

#[test]
fn a_bridge_to_nowhere_says_so_on_stderr() {
    let rig = Rig::new();
    for (args, expected) in [
        (&["__bridge", "/nowhere/s"][..], "No such file"),
        (&["__bridge"], "started by agents"),
    ] {
        let done = rig.ostler(args).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && done.stdout.is_empty() && stderr.contains(expected),
            "{stderr}"
        );
    }
}
