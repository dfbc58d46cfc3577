//! `ostler worker` and `ostler eval run --fleet`, with a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ostler_fleet::key::MemberKey;
use ostler_fleet::member::Member;
use ostler_testkit::nats::{self, NatsServer};
use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{Finished, Rig, collect, finish, signal};

/// A server, an owner and workers.
pub(crate) struct Fleet {
    pub(crate) rig: Rig,
    server: NatsServer,
    owner: MemberKey,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let fleet = Self {
            rig: Rig::new(),
            server: NatsServer::start(),
            owner: MemberKey::generate(),
        };
        fleet.member("owner", &fleet.owner, BTreeSet::new());
        fleet
    }

    fn member(&self, name: &str, key: &MemberKey, trust: BTreeSet<String>) -> PathBuf {
        let path = self.rig.path(&format!("{name}.toml"));
        let member = Member {
            name: name.parse().unwrap(),
            url: Some(self.server.url()),
            key: key.seed().unwrap(),
            log_in: false,
            credentials: None,
            authority: None,
            api: None,
            trust,
            replicas: 1,
        };
        member.write(&path).unwrap();
        path
    }

    fn worker(&self, name: &str, args: &[&str]) -> Child {
        let all = [&["--agents", "scripted"], args].concat();
        self.worker_with(name, &all, Rig::ostler)
    }

    /// Starts a worker with another environment.
    pub(crate) fn worker_with(
        &self,
        name: &str,
        args: &[&str],
        command: impl Fn(&Rig, &[&str]) -> Command,
    ) -> Child {
        let trust = BTreeSet::from([self.owner.public()]);
        let file = self.member(name, &MemberKey::generate(), trust);
        let mut all = vec!["worker", "--member"];
        all.push(file.to_str().unwrap());
        all.extend(args);
        let log = File::create(self.rig.path(&format!("{name}.log"))).unwrap();
        let mut command = command(&self.rig, &all);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.spawn().unwrap()
    }

    pub(crate) fn log(&self, worker: &str) -> String {
        std::fs::read_to_string(self.rig.path(&format!("{worker}.log"))).unwrap()
    }

    /// Returns the number of attempts that a worker says it ran.
    fn attempts(&self, worker: &str) -> u32 {
        let log = self.log(worker);
        let number = log.split("has drained after ").nth(1);
        let number = number.and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{log}"))
    }

    fn eval(&self, args: &[&str]) -> Finished {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/eval");
        let mut all = vec!["eval", "run", example, "--json"];
        all.extend(args);
        finish(&mut self.rig.ostler(&all))
    }
}

/// What is reported of each trial besides times and places, and the figures of each agent.
pub(crate) fn table(finished: &Finished) -> (BTreeMap<String, Value>, Vec<Value>) {
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    let trials = report["trials"].as_array().unwrap().iter();
    let trials = trials.map(|trial| {
        let parts =
            |keys: &[&str]| -> Value { keys.iter().map(|key| trial[key].clone()).collect() };
        let name = parts(&["case", "contender", "repetition"]).to_string();
        let figures = [
            "verdict",
            "score",
            "message",
            "diff_files",
            "usage",
            "identity",
        ];
        (name, parts(&figures))
    });
    let agents = report["agents"].as_array().unwrap().iter();
    let agents = agents.map(|agent| {
        let figures = ["label", "scored", "passed", "tokens"];
        figures.iter().map(|key| agent[key].clone()).collect()
    });
    (trials.collect(), agents.collect())
}

#[test]
fn the_example_gives_the_same_table_on_a_fleet() {
    let test = "the_example_gives_the_same_table_on_a_fleet";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let fleet = Fleet::new();
    let here = fleet.eval(&[]);
    let workers = [
        fleet.worker("w1", &["--jobs", "1"]),
        fleet.worker("w2", &["--jobs", "1"]),
    ];
    let owner = fleet.rig.path("owner.toml");
    let there = fleet.eval(&["--fleet", "--member", owner.to_str().unwrap()]);
    let (here, there) = (table(&here), table(&there));
    assert_eq!((here.0.len(), &here), (12, &there));
    for worker in workers {
        signal(&worker, Signal::TERM);
        assert_eq!(collect(worker).code, Some(0));
    }
    // Every trial ran on a worker.
    assert_eq!(fleet.attempts("w1") + fleet.attempts("w2"), 12);
}

#[test]
fn a_worker_stops_after_one_attempt_and_another_one_continues() {
    let test = "a_worker_stops_after_one_attempt_and_another_one_continues";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let fleet = Fleet::new();
    let once = fleet.worker("w1", &["--once"]);
    let rest = fleet.worker("w2", &["--max-jobs", "2"]);
    let owner = fleet.rig.path("owner.toml");
    let filter = "typo/careful";
    let finished = fleet.eval(&[
        "--fleet",
        "--member",
        owner.to_str().unwrap(),
        "--filter",
        filter,
        "--repeat",
        "3",
    ]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for worker in [once, rest] {
        assert_eq!(collect(worker).code, Some(0));
    }
    assert_eq!((fleet.attempts("w1"), fleet.attempts("w2")), (1, 2));
}

#[test]
fn a_worker_says_what_is_missing() {
    let rig = Rig::new();
    let missing = finish(&mut rig.ostler(&["worker", "--member", "none.toml"]));
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(
        missing.stderr.contains("ostler fleet init"),
        "{}",
        missing.stderr
    );
    let key = MemberKey::generate();
    let member = Member {
        name: "w1".parse().unwrap(),
        url: Some(format!("nats://127.0.0.1:{}", nats::free_port())),
        key: key.seed().unwrap(),
        log_in: false,
        credentials: None,
        authority: None,
        api: None,
        trust: BTreeSet::new(),
        replicas: 1,
    };
    member.write(&rig.path("empty.toml")).unwrap();
    let empty = finish(&mut rig.ostler(&["worker", "--member", "empty.toml"]));
    assert_eq!(empty.code, Some(2), "{}", empty.stderr);
    assert!(
        empty.stderr.contains("the trust list is empty"),
        "{}",
        empty.stderr
    );
    let trusting = Member {
        trust: BTreeSet::from([key.public()]),
        ..member
    };
    trusting.write(&rig.path("member.toml")).unwrap();
    let gone = finish(&mut rig.ostler(&["worker", "--member", "member.toml"]));
    assert_eq!(gone.code, Some(3), "{}", gone.stderr);
    assert!(
        gone.stderr.contains("cannot connect to nats://"),
        "{}",
        gone.stderr
    );
    for finished in [missing, empty, gone] {
        assert!(!finished.stderr.contains(&key.seed().unwrap()));
    }
}
