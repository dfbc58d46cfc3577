//! `ostler fleet`: set-up, status, and a fleet on this machine.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use ostler_fleet::member::Member;
use ostler_testkit::nats::{self, NatsServer, free_port};
use ostler_testkit::processes;
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::table;
use crate::rig::{Finished, PATIENCE, Rig, collect, finish, signal};

fn json(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

#[test]
fn a_new_fleet_says_what_to_do_next() {
    let rig = Rig::new();
    let run = |args: &[&str]| finish(&mut rig.ostler(args));
    let created = run(&[
        "fleet", "init", "fleet", "--host", "build-1", "--worker", "w1", "--worker", "w2",
    ]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    let steps = [
        "describes a fleet on tls://build-1:4222",
        "nats-server --config ",
        "ostler fleet prepare --dir fleet",
        "members/owner/* owner:.config/ostler/",
        "members/w2/* w2:.config/ostler/",
        "ostler worker",
        "ostler eval run SUITE --fleet",
    ];
    let mut rest = &created.stdout[..];
    for step in steps {
        let at = rest.find(step);
        let at = at.unwrap_or_else(|| panic!("no {step:?} here: {rest}"));
        rest = &rest[at..];
    }
    let member = Member::read(&rig.path("fleet/members/w1/fleet.toml")).unwrap();
    assert!(!created.stdout.contains(&member.key));

    let again = run(&["fleet", "init", "fleet", "--host", "build-1"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("add-worker"), "{}", again.stderr);
    let added = run(&["fleet", "add-worker", "w3", "--dir", "fleet"]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let reloads = added.stdout.matches("nats-server --signal reload=").count();
    assert_eq!(reloads, 2, "{}", added.stdout);
    assert!(rig.path("fleet/members/w3/fleet.toml").is_file());
    let taken = run(&["fleet", "add-worker", "owner", "--dir", "fleet"]);
    assert_eq!(taken.code, Some(2), "{}", taken.stderr);
    let removed = run(&["fleet", "remove-worker", "w3", "--dir", "fleet"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(!rig.path("fleet/members/w3").exists());
    let missing = run(&["fleet", "add-worker", "w4"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(
        missing.stderr.contains("ostler fleet init"),
        "{}",
        missing.stderr
    );
    let bad = run(&["fleet", "init", "other", "--host", "h", "--worker", "a.b"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stderr);
    // Prepared without a server.
    let dead = run(&[
        "fleet",
        "init",
        "dead",
        "--host",
        "127.0.0.1",
        "--port",
        &free_port().to_string(),
        "--json",
    ]);
    assert_eq!(json(&dead)["workers"][0]["name"], "w1");
    let unreachable = run(&["fleet", "prepare", "--dir", "dead"]);
    assert_eq!(unreachable.code, Some(3), "{}", unreachable.stderr);
}

#[test]
fn a_status_shows_workers_and_what_the_server_refused() {
    let test = "a_status_shows_workers_and_what_the_server_refused";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let rig = Rig::new();
    let run = |args: &[&str]| finish(&mut rig.ostler(args));
    let start = || {
        let (dir, port) = ("fleet", free_port());
        let _ = std::fs::remove_dir_all(rig.path(dir)); // of a port that was taken
        let number = port.to_string();
        let host = ["--host", "localhost", "--port", &number, "--json"];
        json(&run(&[&["fleet", "init", dir][..], &host].concat()));
        NatsServer::start_file(&rig.path("fleet/server.conf"), port)
    };
    let server = std::iter::repeat_with(start).flatten().next().unwrap();
    json(&run(&["fleet", "prepare", "--dir", "fleet", "--json"]));
    let owner = ["--member", "fleet/members/owner/fleet.toml"];
    let status = |args: &[&str]| run(&[&["fleet", "status"], &owner[..], args].concat());
    let empty = status(&[]);
    assert_eq!(empty.code, Some(0), "{}", empty.stderr);
    assert!(
        empty.stdout.contains("No worker was heard from"),
        "{}",
        empty.stdout
    );
    let file = "fleet/members/w1/fleet.toml";
    let args = [
        "worker", "--agents", "scripted", "--label", "gpu", "--member", file,
    ];
    let worker = rig.ostler(&args).spawn().unwrap();
    let mut shown = Value::Null;
    let is_shown = processes::wait_until(PATIENCE * 4, || {
        shown = json(&status(&["--json"]));
        shown["workers"][0]["worker"] == "w1"
    });
    assert!(is_shown, "{shown}");
    let first = &shown["workers"][0];
    assert_eq!(first["offer"]["labels"][0], "gpu", "{shown}");
    assert_eq!(
        (&shown["capacity"], &shown["queued"]),
        (&2.into(), &0.into())
    );
    // A worker's credentials that follow the heartbeats of others are named.
    let stolen = run(&["fleet", "status", "--member", file, "--json"]);
    assert_eq!(stolen.code, Some(3), "{}", stolen.stdout);
    let shown = json(&status(&["--json", "--dir", "fleet"]));
    let refused = shown["refused_by_server"].as_array().unwrap();
    let heartbeats = refused
        .iter()
        .find(|it| it["subject"] == "ostler.heartbeat.*");
    assert_eq!(heartbeats.unwrap()["member"], "w1", "{shown}");
    // It is repeated until a signal.
    let args = [&["fleet", "status", "--watch"], &owner[..]].concat();
    let mut watching = rig.ostler(&args).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let totals = lines
        .map(Result::unwrap)
        .filter(|line| line.contains("0 of 2 running"));
    assert_eq!(totals.take(2).count(), 2);
    signal(&watching, Signal::INT);
    assert_eq!(collect(watching).code, Some(0));
    signal(&worker, Signal::TERM);
    assert_eq!(collect(worker).code, Some(0));
    drop(server);
}

/// Starts `ostler fleet up`. Returns the process and what it says.
fn up(rig: &Rig) -> (Child, Value) {
    up_with(rig, &nats::program().unwrap())
}

/// Starts `ostler fleet up` with this program of the server.
fn up_with(rig: &Rig, program: &Path) -> (Child, Value) {
    let args = [
        "fleet", "up", "--local", "2", "--agents", "scripted", "--json",
    ];
    let mut command = rig.ostler(&args);
    command.env(nats::VARIABLE, program);
    let mut child = command.spawn().unwrap();
    // Several lines, which end when the object does.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    loop {
        match lines.next() {
            Some(line) => text += &line.unwrap(),
            None => panic!("{}", collect(child).stderr),
        }
        if let Ok(said) = serde_json::from_str(&text) {
            return (child, said);
        }
    }
}

fn eval(rig: &Rig, args: &[&str]) -> Finished {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/eval");
    finish(&mut rig.ostler(&[&["eval", "run", example, "--json"], args].concat()))
}

#[test]
fn a_local_fleet_gives_the_same_table_and_leaves_nothing() {
    let test = "a_local_fleet_gives_the_same_table_and_leaves_nothing";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let rig = Rig::new();
    let (child, said) = up(&rig);
    let member = said["member"].as_str().unwrap();
    let there = eval(&rig, &["--fleet", "--member", member]);
    let here = eval(&rig, &[]);
    let (here, there) = (table(&here), table(&there));
    assert_eq!((here.0.len(), &here), (12, &there));

    let url = said["url"].as_str().unwrap().to_owned();
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    signal(&child, Signal::INT);
    let ended = collect(child);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let is_closed = || TcpStream::connect(("127.0.0.1", port)).is_err();
    assert!(
        processes::wait_until(PATIENCE, is_closed),
        "the server runs"
    );
    assert!(!Path::new(member).exists(), "{member}");
}

#[test]
fn a_local_fleet_starts_although_its_port_is_taken() {
    let test = "a_local_fleet_starts_although_its_port_is_taken";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let rig = Rig::new();
    // The first server finds its port taken.
    let (real, marker) = (nats::program().unwrap(), rig.path("started"));
    let text = format!(
        "#!/bin/sh\n[ -e {0} ] && exec {1} \"$@\"\necho \"$2\" > {0}\n\
         echo 'Error listening: bind: address already in use' > \"${{2%/*}}/server.log\"\nexit 1\n",
        marker.display(),
        real.display()
    );
    let program = rig.file("nats-server", &text);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let (child, said) = up_with(&rig, &program);
    assert!(said["url"].is_string(), "{said}");
    let first = std::fs::read_to_string(&marker).unwrap();
    assert!(!Path::new(first.trim()).exists(), "{first}");
    signal(&child, Signal::INT);
    assert_eq!(collect(child).code, Some(0));
}

#[test]
fn a_local_fleet_that_is_killed_leaves_no_server() {
    let test = "a_local_fleet_that_is_killed_leaves_no_server";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let rig = Rig::new();
    let (mut child, said) = up(&rig);
    let url = said["url"].as_str().unwrap().to_owned();
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let is_closed = || TcpStream::connect(("127.0.0.1", port)).is_err();
    assert!(
        processes::wait_until(PATIENCE, is_closed),
        "the server runs"
    );
    let member = Path::new(said["member"].as_str().unwrap());
    let dir = member.ancestors().nth(4).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_local_fleet_needs_the_servers_program() {
    let rig = Rig::new();
    let mut command: Command = rig.ostler(&["fleet", "up", "--local", "1"]);
    command.env(nats::VARIABLE, "/nonexistent/nats-server");
    let missing = finish(&mut command);
    assert_eq!(missing.code, Some(3), "{}", missing.stderr);
    assert!(missing.stderr.contains("nats-server"), "{}", missing.stderr);
}
