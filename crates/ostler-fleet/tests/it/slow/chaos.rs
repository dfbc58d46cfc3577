//! Chaos: workers, the owner and the leading server are killed, paused and cut off at random, and
//! artifacts are damaged. Every trial is accepted once, and the books are those of the agent.
//!
//! [`ROUNDS`] sets the number of rounds, and [`SEED`] repeats a sequence of failures. Each kind of
//! failure happens at least once: rounds are added until it has.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use ostler_core::log::Log as _;
use ostler_eval::identity::sha256;
use ostler_eval::runner::RunEnd;
use ostler_eval::trial::TrialResult;
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::NatsCluster;
use rustix::process::Signal;
use tokio::sync::watch;

use super::link::{self, Link};
use crate::rig::{
    ARGUMENT, COST, DIRECTORY, PATIENCE, Process, Rig, SERVER, check_events, has_server, patiently,
};

/// Variable with the number of rounds; four without it.
const ROUNDS: &str = "FLEET_CHAOS_ROUNDS";
/// Variable with the seed; the time without it.
const SEED: &str = "FLEET_CHAOS_SEED";
/// Number of rounds in which a worker is cut off for the full time.
const MANY: u64 = 10;
/// Number of trials of a round.
const TRIALS: u32 = 6;
/// Rounds that may be added until every kind of failure has happened.
const MORE_ROUNDS: u64 = 8;
/// Number of attempts that a worker runs at once.
const CAPACITY: u32 = 2;
/// Lease of an attempt.
const LEASE: Duration = Duration::from_secs(4);
/// How long the owner waits for results of lost attempts: longer than a worker is cut off.
const LATE_GRACE: Duration = Duration::from_secs(40);
/// How long an attempt may take to begin, and to be delivered.
const DELIVERY: Duration = Duration::from_secs(30);
/// The workers. The last one can be cut off.
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn role() -> Option<(Rig, String, String)> {
    let (dir, url) = (variable(DIRECTORY)?, variable(SERVER)?);
    Some((Rig::open(Path::new(&dir)), url, variable(ARGUMENT)?))
}

/// A worker, if the environment says so.
#[tokio::test]
async fn worker_process() {
    let Some((rig, url, name)) = role() else {
        return;
    };
    let mut options = rig.worker_options(&name);
    options.capacity = CAPACITY;
    let worker = rig.worker(&url, options).await;
    worker.task.await.unwrap().unwrap();
}

/// The owner of a run, if the environment says so.
#[tokio::test]
async fn owner_process() {
    let Some((rig, url, run)) = role() else {
        return;
    };
    let place = rig.place(&url, &run, LEASE).await;
    let mut runner = rig.runner(&run, &rig.plain_suite(TRIALS), place);
    runner.options.retry.max_losses = 1000; // the machines are lost all the time
    runner.options.retry.max_retries = 1000;
    // A worker whose grant was lost with the owner never sends a result.
    runner.options.late_grace = LATE_GRACE;
    let (_stop, cancelled) = watch::channel(false);
    let end = Arc::new(runner).run(cancelled).await.unwrap();
    assert_eq!(end, RunEnd::Complete);
    fs::write(rig.path(&format!("complete-{run}")), "").unwrap();
}

/// Random numbers that a seed repeats (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % below
    }
}

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    WorkerKilled,
    OwnerKilled,
    LeaderKilled,
    WorkerPaused,
    WorkerCutOff,
    ArtifactDamaged,
}

const FAILURES: [Failure; 6] = [
    Failure::WorkerKilled,
    Failure::OwnerKilled,
    Failure::LeaderKilled,
    Failure::WorkerPaused,
    Failure::WorkerCutOff,
    Failure::ArtifactDamaged,
];

/// A fleet of processes.
struct Fleet {
    rig: Rig,
    cluster: NatsCluster,
    link: Link,
    workers: Vec<Process>,
    owner: Option<Process>,
    run: String,
    random: Random,
    cut_off: Duration,
    /// Failures to come, from the last one.
    failures: Vec<Failure>,
    /// How often each failure happened.
    happened: BTreeMap<Failure, u32>,
    /// How often something else happened, by name.
    counts: BTreeMap<&'static str, u32>,
}

impl Fleet {
    async fn start(random: Random, cut_off: Duration) -> Self {
        let rig = Rig::new();
        rig.set_replicas(3);
        write_agent(&rig);
        let cluster = NatsCluster::start();
        let link = Link::start(cluster.ports().collect()).await;
        let mut fleet = Self {
            rig,
            cluster,
            link,
            workers: Vec::new(),
            owner: None,
            run: String::new(),
            random,
            cut_off,
            failures: Vec::new(),
            happened: BTreeMap::new(),
            counts: BTreeMap::new(),
        };
        for number in 0..WORKERS.len() {
            let worker = fleet.worker(number);
            fleet.workers.push(worker);
        }
        fleet
    }

    fn worker(&self, number: usize) -> Process {
        let (url, enter) = match number == WORKERS.len() - 1 {
            true => (self.link.url(), self.link.enter()),
            false => (self.cluster.url(), Vec::new()),
        };
        let role = "slow::chaos::worker_process";
        self.rig.process_in(&enter, role, &url, WORKERS[number])
    }

    fn start_owner(&mut self) {
        let role = "slow::chaos::owner_process";
        let owner = self.rig.process_at(role, &self.cluster.url(), &self.run);
        self.owner = Some(owner);
    }

    fn is_complete(&self) -> bool {
        self.rig.path(&format!("complete-{}", self.run)).exists()
    }

    /// Starts what has ended: a server without a leader refuses a member that starts.
    fn supervise(&mut self) {
        for number in 0..self.workers.len() {
            if self.workers[number].0.try_wait().unwrap().is_some() {
                self.workers[number] = self.worker(number);
                *self.counts.entry("worker restarts").or_default() += 1;
            }
        }
        let is_over = match &mut self.owner {
            Some(owner) => owner.0.try_wait().unwrap().is_some(),
            None => true,
        };
        if is_over && !self.is_complete() {
            self.start_owner();
        }
    }

    async fn pause(&mut self, most_ms: u64) {
        let pause = 100 + self.random.next(most_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Returns the next failure. Each kind comes once before one comes again.
    fn next_failure(&mut self) -> Failure {
        if self.failures.is_empty() {
            self.failures = FAILURES.to_vec();
            for last in (1..FAILURES.len()).rev() {
                let other = self.random.next(u64::try_from(last).unwrap() + 1);
                self.failures.swap(last, usize::try_from(other).unwrap());
            }
        }
        self.failures.pop().unwrap()
    }

    /// Lets something fail, and repairs it.
    async fn fail(&mut self, failure: Failure) {
        let number = usize::try_from(self.random.next(3)).unwrap();
        let mut has_happened = true;
        match failure {
            Failure::WorkerKilled => {
                self.workers[number].kill();
                self.pause(1_000).await;
            }
            Failure::OwnerKilled => {
                if let Some(owner) = &mut self.owner {
                    owner.kill();
                }
                self.pause(2_000).await;
            }
            Failure::LeaderKilled => {
                let leader = self.leader().await;
                self.cluster.kill(leader);
                self.pause(2_000).await;
                self.supervise();
                self.cluster.restart(leader);
            }
            Failure::WorkerPaused => {
                self.workers[number].signal(Signal::STOP);
                tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
                self.workers[number].signal(Signal::CONT);
            }
            Failure::WorkerCutOff => {
                self.link.cut();
                tokio::time::sleep(self.cut_off).await;
                self.link.restore();
            }
            Failure::ArtifactDamaged => has_happened = self.damage_artifacts().await > 0,
        }
        *self.happened.entry(failure).or_default() += u32::from(has_happened);
        self.supervise();
    }

    /// Returns the node that leads the events. Until an owner has created them, none does.
    async fn leader(&mut self) -> usize {
        let begin = Instant::now();
        loop {
            if let Some(leader) = self.cluster.leader("OSTLER_EVENTS") {
                return leader;
            }
            assert!(begin.elapsed() < PATIENCE, "no leader of the events");
            self.supervise();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Changes the artifacts of attempts that were delivered while the owner is away. Returns their
    /// number.
    async fn damage_artifacts(&mut self) -> u32 {
        self.wait_for(|fleet| !fleet.running().is_empty()).await;
        if let Some(owner) = &mut self.owner {
            owner.kill();
        }
        let url = self.cluster.url();
        let servers: Vec<&str> = url.split(',').collect();
        let client = patiently(|| async_nats::connect(&servers)).await;
        let streams = jetstream::new(client);
        let (begin, mut damaged) = (Instant::now(), 0);
        while damaged == 0 && begin.elapsed() < DELIVERY {
            for (worker, object) in self.delivered() {
                // The server may have no leader at this moment.
                damaged += u32::from(damage(&streams, &worker, &object).await.is_some());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        *self.counts.entry("damaged artifacts").or_default() += damaged;
        damaged
    }

    /// Waits for a while until something holds.
    async fn wait_for(&self, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while begin.elapsed() < DELIVERY {
            if holds(self) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns worker and object of the attempts whose result the owner has not seen yet.
    fn delivered(&self) -> Vec<(String, String)> {
        let mut running = self.running();
        running.retain(|(worker, object)| {
            let spool = format!("workers/{worker}/spool/{object}");
            !self.rig.path(&spool).exists()
        });
        running
    }

    /// Returns worker and object of the attempts that the ledger knows as running on a worker.
    fn running(&self) -> Vec<(String, String)> {
        let store = self.rig.store();
        let trials = Ledger::new(&store).trials(&self.run).unwrap_or_default();
        let mut found = Vec::new();
        for trial in trials {
            let name = &trial.name;
            let text = format!("{}\n{}\n{}", name.case, name.contender, name.repetition);
            let running = trial.attempts.iter();
            for attempt in running.filter(|it| it.state == AttemptState::Running) {
                let Some((worker, _)) = attempt.worker.split_once('/') else {
                    continue;
                };
                let (run, fence) = (&self.run, attempt.fence);
                let object = format!("owner.{run}.{}-{fence}", &sha256(&text)[..16]);
                found.push((worker.to_owned(), object));
            }
        }
        found
    }

    async fn round(&mut self, number: u64) {
        self.run = format!("run-{number}");
        self.start_owner();
        let count = 2 + self.random.next(2);
        let mut failures: Vec<Failure> = (0..count).map(|_| self.next_failure()).collect();
        // Artifacts are damaged while most attempts are under way.
        failures.sort_by_key(|failure| *failure != Failure::ArtifactDamaged);
        for failure in failures {
            if failure != Failure::ArtifactDamaged {
                self.pause(1_500).await;
            }
            self.fail(failure).await;
        }
        let begin = Instant::now();
        while !self.is_complete() {
            self.supervise();
            assert!(begin.elapsed() < 2 * PATIENCE, "{}: not complete", self.run);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if let Some(mut owner) = self.owner.take() {
            let status = owner.0.wait().unwrap();
            // It may have been killed between the last line of the run and its end.
            let is_killed = status.signal() == Some(Signal::KILL.as_raw());
            assert!(status.success() || is_killed, "{status}");
        }
        self.check_books();
    }

    /// Checks the run: each trial accepted once, each session's events without a gap and each once,
    /// and the ledger equal to the agent's own books, attempt by attempt. An attempt that was
    /// killed between the answer and its report is named in the trial's result.
    fn check_books(&mut self) {
        let store = self.rig.store();
        let ledger = Ledger::new(&store);
        let spent = fs::read_to_string(self.rig.path("spent")).unwrap_or_default();
        let mut booked = 0_u32;
        let trials = ledger.trials(&self.run).unwrap();
        assert_eq!(trials.len(), usize::try_from(TRIALS).unwrap());
        for trial in &trials {
            let result: TrialResult = serde_json::from_str(trial.result.as_ref().unwrap()).unwrap();
            let accepted = trial.attempts.iter();
            let accepted = accepted.filter(|it| it.state == AttemptState::Accepted);
            assert_eq!(accepted.count(), 1, "{trial:?}");
            let key = &result.key;
            let key = format!("{}/{}/{}", key.case, key.contender, key.repetition);
            let hash = &sha256(&key)[..12];
            for attempt in &trial.attempts {
                let name = format!("{}-{hash}-{}", self.run, attempt.fence);
                let answers = spent.lines().filter(|line| *line == name).count();
                let cost = attempt.usage.as_ref().and_then(|usage| usage.cost_usd);
                booked += u32::from(cost.is_some());
                assert!(cost.is_none_or(|cost| (cost - COST).abs() < 1e-9));
                let is_named = result.unmetered_attempts.contains(&attempt.fence);
                match (answers, cost) {
                    (0, None) | (1, Some(_)) => {}
                    (1, None) if is_named => {
                        *self.counts.entry("unmetered attempts").or_default() += 1;
                    }
                    _ => panic!("{answers} answers of {name}: {trial:?}"),
                }
                let Some(session) = &attempt.session else {
                    continue;
                };
                let events = store.read(session, 0, usize::MAX).unwrap();
                let numbers = events.iter().map(|event| event.seq);
                assert!(numbers.eq(1..=u64::try_from(events.len()).unwrap()));
                if attempt.state == AttemptState::Accepted {
                    check_events(trial, &events);
                }
            }
            for attempt in &trial.attempts {
                let state = attempt.state.as_str();
                *self.counts.entry(state).or_default() += 1;
            }
        }
        let cost = ledger.run(&self.run).unwrap().unwrap().cost_usd;
        assert!((cost.unwrap_or(0.0) - f64::from(booked) * COST).abs() < 1e-9);
    }

    /// Returns true if every kind of failure has happened.
    fn has_seen_all(&self) -> bool {
        let mut counts = FAILURES.iter().map(|it| self.happened.get(it));
        counts.all(|count| count.is_some_and(|count| *count > 0))
    }

    /// Ends the fleet, and checks that no process of it is left.
    async fn end(mut self) {
        assert!(self.has_seen_all(), "{:?}", self.happened);
        // An answer without a report belongs to an attempt that something ended in between.
        let count = |name: &str| self.counts.get(name).copied().unwrap_or_default();
        let ended: u32 = self.happened.values().sum::<u32>() + count("worker restarts");
        assert!(
            count("unmetered attempts") <= CAPACITY * ended,
            "{:?}",
            self.counts
        );
        self.workers.iter_mut().for_each(Process::kill);
        let begin = Instant::now();
        loop {
            let left = processes_of(&self.rig.path(""));
            if left.is_empty() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "left: {left:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Flips a byte of a stored object, whose announced hash stays as it is.
async fn damage(streams: &jetstream::Context, worker: &str, object: &str) -> Option<()> {
    let bucket = format!("artifacts_{worker}");
    let store = streams.get_object_store(&bucket).await.ok()?;
    let chunks = format!("$O.{bucket}.C.{}", store.info(object).await.ok()?.nuid);
    let stream = streams.get_stream(format!("OBJ_{bucket}")).await.ok()?;
    let chunk = stream.get_last_raw_message_by_subject(&chunks).await.ok()?;
    let mut bytes = chunk.payload.to_vec();
    *bytes.last_mut()? ^= 1;
    stream.delete_message(chunk.sequence).await.ok()?;
    let stored = streams.publish(chunks, bytes.into()).await.ok()?;
    stored.await.ok().map(drop)
}

/// Writes an agent that works for a while, and notes each answer under the name of its attempt.
fn write_agent(rig: &Rig) {
    let fake = ostler_testkit::fake::program();
    let (fake, spent) = (fake.display(), rig.path("spent"));
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in --version|auth) exec {fake} \"$@\";; esac\n\
         sleep 0.$(($$ % 9))\nkill -0 $PPID || exit\necho changed >> file.txt\n\
         basename \"$(dirname \"$PWD\")\" >> {}\n{fake} \"$@\"\nsleep 0.$(($$ % 7))\n",
        spent.display()
    );
    fs::write(rig.path("agent.sh"), text).unwrap();
}

/// Returns the commands of processes that work in a directory or name it.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap().trim_end_matches('/');
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| entry.file_name().to_str() != Some(&own))
        .filter_map(|entry| {
            let read = |name: &str| {
                let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let command = read("cmdline").replace('\0', " ");
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let is_ours = command.contains(dir) || cwd.starts_with(dir);
            is_ours.then_some(command)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_survives_random_failures() {
    if !has_server("a_fleet_survives_random_failures") {
        return;
    }
    if let Some(status) = link::run_in_namespace("slow::chaos::a_fleet_survives_random_failures") {
        assert!(status.success(), "in its namespace: {status}");
        return;
    }
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let rounds = number(ROUNDS).unwrap_or(4);
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = number(SEED).unwrap_or(u64::from(time.subsec_nanos()));
    println!("{rounds} rounds, {SEED}={seed}");
    let cut_off = match rounds >= MANY {
        true => Duration::from_secs(20),
        false => LEASE + Duration::from_secs(2),
    };
    let mut fleet = Fleet::start(Random(seed), cut_off).await;
    println!("a worker is cut off by {}", fleet.link.kind());
    for round in 0..rounds + MORE_ROUNDS {
        if round >= rounds && fleet.has_seen_all() {
            break;
        }
        let begin = Instant::now();
        fleet.round(round).await;
        let (taken, happened) = (begin.elapsed(), &fleet.happened);
        println!(
            "round {round}: {taken:.1?}, {happened:?}, {:?}",
            fleet.counts
        );
    }
    fleet.end().await;
}
