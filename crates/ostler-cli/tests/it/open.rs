//! `ostler open`: a link for the browser, and who gets to see it.

use std::os::unix::fs::PermissionsExt;

use ostler_testkit::processes::{alive, wait_until};
use ostler_testkit::pty::Pty;
use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{PATIENCE, Rig, finish};
use crate::serve::{Served, command};

/// Creates a program that stores the link it is asked to open.
fn fake_opener(rig: &Rig) {
    let text = format!(
        "#!/bin/sh\necho \"$#$1\" > {0}.new; mv {0}.new {0}\n",
        rig.path("opened").display()
    );
    let path = rig.file("xdg-open", &text);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn is_link(text: &str) -> bool {
    let code = text
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.split_once("/#login="));
    code.is_some_and(|(_, code)| code.len() == 64)
}

#[test]
fn a_link_is_printed_for_scripts() {
    let rig = Rig::new();
    let served = Served::start(&rig);
    let printed = finish(&mut command(&rig, &["open", "--print"]));
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(is_link(printed.stdout.trim()), "{}", printed.stdout);
    assert_eq!(printed.stderr, "", "no approval code without a terminal");
    let json = finish(&mut command(&rig, &["open", "--json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(is_link(json["url"].as_str().unwrap()));
    assert!(json["expires_at"].is_string());
    let unknown = finish(&mut command(&rig, &["open", "--print", "nothing"]));
    assert_eq!((unknown.code, &*unknown.stdout), (Some(2), ""));
    let stderr = served.stop();
    assert!(!stderr.contains("login="), "{stderr}");
}

#[test]
fn the_browser_is_opened_and_the_output_has_no_link() {
    let rig = Rig::new();
    fake_opener(&rig);
    let served = Served::start(&rig);
    let done = finish(command(&rig, &["open"]).env("DISPLAY", ":0"));
    assert_eq!((done.code, &*done.stdout), (Some(0), ""), "{}", done.stderr);
    assert_eq!(done.stderr, "");
    let path = rig.path("opened");
    assert!(wait_until(PATIENCE, || path.exists()));
    let opened = std::fs::read_to_string(path).unwrap();
    let link = opened.trim().strip_prefix('1').unwrap();
    assert!(is_link(link), "{opened}");
    served.stop();
}

#[test]
fn the_approval_code_is_shown_on_a_terminal() {
    let rig = Rig::new();
    fake_opener(&rig);
    let served = Served::start(&rig);
    let code = finish(&mut command(&rig, &["serve", "--print-code"])).stdout;
    let mut open = command(&rig, &["open"]);
    open.env("DISPLAY", ":0").env("TERM", "xterm");
    let mut pty = Pty::start(&open);
    pty.until_seen(&format!("approval code: {}", code.trim()), 1);
    pty.until_seen("#login=", 1);
    assert_eq!(pty.end(), Some(0));
    served.stop();
}

#[test]
fn without_a_display_the_way_out_is_named() {
    let rig = Rig::new();
    fake_opener(&rig);
    let served = Served::start(&rig);
    let done = finish(&mut command(&rig, &["open"]));
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(
        done.stderr.contains("ostler open --print"),
        "{}",
        done.stderr
    );
    served.stop();
}

#[test]
fn a_daemon_is_started_if_none_is_running() {
    let rig = Rig::new();
    let done = finish(&mut command(&rig, &["open", "--print"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stderr, "no daemon is running: starting one\n");
    assert!(is_link(done.stdout.trim()), "{}", done.stdout);
    let log = std::fs::read_to_string(rig.path(".local/state/ostler/daemon.log")).unwrap();
    assert!(!log.contains("login="), "{log}");
    let lock = std::fs::read_to_string(rig.path(".local/state/ostler/daemon.lock")).unwrap();
    let pid: u32 = lock.trim().parse().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(id, Signal::TERM).unwrap();
    assert!(wait_until(PATIENCE, || !alive(pid)));
}

#[test]
fn a_session_is_opened_by_a_prefix_of_its_id() {
    let rig = Rig::new();
    let served = Served::start(&rig);
    let script = rig.file("script.toml", "[[reply]]\ntext = \"hi\"\n");
    let script = format!("script={}", script.display());
    let run = [
        "run", "--detach", "--agent", "scripted", "--set", &script, "go",
    ];
    let started = finish(&mut command(&rig, &run));
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let id = started.stdout.trim();
    let printed = finish(&mut command(&rig, &["open", "--print", &id[..8]]));
    let (link, next) = printed.stdout.trim().split_once('&').unwrap();
    assert!(is_link(link), "{link}");
    assert_eq!(next, format!("next=/s/{id}"));
    served.stop();
}
