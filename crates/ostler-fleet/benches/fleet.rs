//! A fleet on this machine: overhead per trial, throughput with more workers, a long queue, events
//! that the owner mirrors, and the latency of live sessions.
//!
//! `cargo xtask bench fleet` prints Markdown tables, and `--quick` measures a tenth.
//! `cargo bench -p ostler-fleet --bench fleet -- live` measures one part: `overhead`, `scale`,
//! `mirror`, `queue` or `live`. Server, owner and workers share the machine; the agent is scripted,
//! and its tools sleep.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first error"
)]

#[expect(dead_code, reason = "the rig of the tests, of which a part is used")]
#[path = "../tests/it/rig.rs"]
mod rig;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::{Agents, Host, Log, Session, Spec};
use ostler_eval::case::{Source, Suite};
use ostler_eval::git::Git;
use ostler_eval::place::Place;
use ostler_eval::runner::RunEnd;
use ostler_fleet::owner::sessions::{FleetSessions, SessionOrder, SessionsOptions};
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::NatsServer;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::rig::{PATIENCE, Rig, RunningWorker, here};

/// Lease of attempts: the machine may be busy.
const LEASE: Duration = PATIENCE;

/// What is measured.
const PARTS: [&str; 5] = ["overhead", "scale", "mirror", "queue", "live"];

#[tokio::main]
async fn main() {
    if ostler_testkit::nats::program().is_none() {
        println!("no NATS server: run `cargo xtask test`, or set OSTLER_NATS_SERVER");
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let is_quick = has("--quick");
    let part = |all: u32| if is_quick { (all / 10).max(2) } else { all };
    let is_whole = !PARTS.iter().any(|part| has(part));
    println!("Load of the machine at the start: {}", load());
    for name in PARTS.into_iter().filter(|name| is_whole || has(name)) {
        match name {
            "overhead" => overhead(part(20)).await,
            "scale" => scale(part(5)).await,
            "mirror" => mirror(part(5_000)).await,
            "queue" => queue(part(1_000)).await,
            _ => {
                live(1, part(20)).await;
                live(part(100), part(20)).await;
                senders(8, part(2_000)).await;
            }
        }
    }
    println!("\nLoad of the machine at the end: {}", load());
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// Runs a suite to its end. Returns how long it took.
async fn measure(
    rig: &Rig,
    run: &str,
    suite: &Suite,
    place: Arc<dyn Place>,
    jobs: u32,
) -> Duration {
    let mut runner = rig.runner(run, suite, place);
    runner.options.jobs = jobs;
    runner.options.heartbeat = Duration::from_secs(5);
    let (_stop, cancelled) = watch::channel(false);
    let start = Instant::now();
    let end = Arc::new(runner).run(cancelled).await.unwrap();
    let taken = start.elapsed();
    assert_eq!(end, RunEnd::Complete);
    let store = rig.store();
    for trial in Ledger::new(&store).trials(run).unwrap() {
        let states: Vec<_> = trial.attempts.iter().map(|it| it.state).collect();
        assert_eq!(states, [AttemptState::Accepted], "{trial:?}");
    }
    taken
}

/// Starts workers, and waits until the owner knows all of them.
async fn workers(
    rig: &Rig,
    server: &NatsServer,
    place: &ostler_fleet::owner::FleetPlace,
    count: usize,
    capacity: u32,
) -> Vec<RunningWorker> {
    let mut workers = Vec::new();
    for number in 0..count {
        let mut options = rig.worker_options(&format!("w{number}"));
        options.capacity = capacity;
        options.heartbeat = Duration::from_secs(1);
        workers.push(rig.worker(&server.url(), options).await);
    }
    while place.workers().len() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    workers
}

async fn finish(workers: Vec<RunningWorker>) {
    for worker in workers {
        worker.finish().await;
    }
}

/// Makes the agent's tools sleep.
fn sleep_for(rig: &Rig, seconds: f64) {
    let path = rig.path("agent.sh");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("echo changed", &format!("sleep {seconds}\necho changed"));
    fs::write(path, text).unwrap();
}

fn per_trial(taken: Duration, trials: u32) -> f64 {
    taken.as_secs_f64() * 1e3 / f64::from(trials)
}

/// Trials one after the other, here and on a fleet of one worker.
async fn overhead(trials: u32) {
    let mut samples = Vec::new();
    for _ in 0..3 {
        let (rig, server) = (Rig::new(), NatsServer::start());
        let suite = rig.plain_suite(trials);
        let (before, local) = (cpu(None), measure(&rig, "here", &suite, here(), 1).await);
        let local_cpu = cpu(None) - before;
        let place = rig.place(&server.url(), "fleet", LEASE).await;
        let workers = workers(&rig, &server, &place, 1, 1).await;
        let (before, idle) = (cpu(None), cpu(Some(server.pid())));
        let fleet = measure(&rig, "fleet", &suite, place, 1).await;
        let fleet_cpu = cpu(None) - before;
        let server_cpu = cpu(Some(server.pid())) - idle;
        finish(workers).await;
        samples.push([local, fleet, local_cpu, fleet_cpu, server_cpu]);
    }
    println!(
        "\n| {trials} trials, one at a time (ms per trial) | here | fleet | overhead \
         | CPU here | CPU of owner and worker | CPU of the server |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (round, sample) in samples.into_iter().enumerate() {
        let [here, fleet, cpu, fleet_cpu, server] = sample.map(|taken| per_trial(taken, trials));
        let (round, more) = (round + 1, fleet - here);
        println!(
            "| round {round} | {here:.0} | {fleet:.0} | {more:.0} | {cpu:.1} | {fleet_cpu:.1} \
             | {server:.1} |"
        );
    }
}

/// Returns the processor time of a process, or of this one, without its children. Unlike the time
/// that passes, it hardly depends on what else runs on the machine.
fn cpu(pid: Option<u32>) -> Duration {
    let pid = pid.unwrap_or(std::process::id());
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// More workers, whose tools sleep for a second.
async fn scale(per_worker: u32) {
    println!("\n| workers, {per_worker} trials each | trials/s | efficiency |\n|---|---|---|");
    let mut one = 0.0;
    for count in [1_u32, 2, 4, 8] {
        let (rig, server) = (Rig::new(), NatsServer::start());
        sleep_for(&rig, 1.0);
        let place = rig.place(&server.url(), "run", LEASE).await;
        let size = usize::try_from(count).unwrap();
        let workers = workers(&rig, &server, &place, size, 1).await;
        let trials = per_worker * count;
        let suite = rig.plain_suite(trials);
        let taken = measure(&rig, "run", &suite, place, u32::MAX).await;
        finish(workers).await;
        let rate = f64::from(trials) / taken.as_secs_f64();
        if count == 1 {
            one = rate;
        }
        let efficiency = 100.0 * rate / (one * f64::from(count));
        println!("| {count} | {rate:.2} | {efficiency:.0} % |");
    }
}

/// A long queue of short trials, for four workers with four attempts each.
async fn queue(trials: u32) {
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", LEASE).await;
    let workers = workers(&rig, &server, &place, 4, 4).await;
    let mut case = rig.case("case", "true");
    case.source = Source::Empty;
    case.evaluators.clear();
    let suite = rig.suite(vec![case], trials);
    let taken = measure(&rig, "run", &suite, place, u32::MAX).await;
    finish(workers).await;
    println!(
        "\n{trials} queued trials of an empty directory, 4 workers with 4 attempts each: {:.1} s, \
         {:.1} trials/s.",
        taken.as_secs_f64(),
        f64::from(trials) / taken.as_secs_f64()
    );
}

/// One session with many events, here and on a worker.
async fn mirror(lines: u32) {
    println!("\n| one session with {lines} texts | events | s | events/s |\n|---|---|---|---|");
    let (rig, server) = (Rig::new(), NatsServer::start());
    let texts = "text a few words\n".repeat(usize::try_from(lines).unwrap());
    let script = format!("read\ninit\n{texts}result done\n");
    fs::write(rig.path("agent.script"), script).unwrap();
    let suite = rig.plain_suite(1);
    for run in ["here", "fleet"] {
        let mut members = Vec::new();
        let place: Arc<dyn Place> = match run {
            "here" => here(),
            _ => {
                let place = rig.place(&server.url(), run, LEASE).await;
                members = workers(&rig, &server, &place, 1, 1).await;
                place
            }
        };
        let taken = measure(&rig, run, &suite, place, 1).await.as_secs_f64();
        finish(members).await;
        let store = rig.store();
        let trials = Ledger::new(&store).trials(run).unwrap();
        let session = trials[0].attempts[0].session.clone().unwrap();
        let events = store.last_seq(&session).unwrap();
        let rate = events as f64 / taken;
        println!("| {run} | {events} | {taken:.2} | {rate:.0} |");
    }
}

/// Sessions of an owner, over two workers.
struct LiveFleet {
    rig: Rig,
    fleet: Arc<FleetSessions>,
    workers: Vec<RunningWorker>,
    _server: NatsServer,
}

impl LiveFleet {
    /// Starts the fleet, whose agents play a script after the owner has let them begin.
    async fn start(per_worker: u32, script: &str) -> Self {
        let (rig, server) = (Rig::new(), NatsServer::start());
        let gate = rig.path("go");
        let script = format!("read\ninit\nwait-file {}\n{script}", gate.display());
        fs::write(rig.path("agent.script"), script).unwrap();
        // Each agent has its own phase within a second.
        let text = fs::read_to_string(rig.path("agent.sh")).unwrap();
        let own = format!(
            "sed \"s/PHASE/$(($$ * 37 % 1000))/\" {0}/agent.script > {0}/script.$$\n\
             FAKE_AGENT_SCRIPT={0}/script.$$ exec ",
            rig.path("").display()
        );
        let (begin, end) = text.rsplit_once("exec ").unwrap();
        fs::write(rig.path("agent.sh"), format!("{begin}\n{own}{end}")).unwrap();
        let connection = rig.connect(&server.url(), "owner").await;
        let host = Host::new([("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let options = SessionsOptions {
            name: rig::token("owner"),
            key: Arc::new(rig.key()),
            run: rig::token("sessions"),
            lease: LEASE,
            replicas: 1,
            git: Git::new(&host, &rig.path("owner-cache")).unwrap(),
            bundles: rig.path("bundles"),
        };
        let fleet = FleetSessions::open(connection, options, rig::now)
            .await
            .unwrap();
        let mut workers = Vec::new();
        for name in ["w1", "w2"] {
            let mut options = rig.worker_options(name);
            options.capacity = per_worker;
            options.heartbeat = Duration::from_secs(1);
            workers.push(rig.worker(&server.url(), options).await);
        }
        Self {
            rig,
            fleet,
            workers,
            _server: server,
        }
    }

    fn session(&self, log: Arc<dyn Log>) -> Session {
        let order = SessionOrder {
            agent: "claude".to_owned(),
            ..SessionOrder::default()
        };
        let agent = Agents::builtin().get("claude").unwrap();
        let spec = Spec::new("go").dir(self.rig.path("repo"));
        let host = Host::default().with_log(log);
        self.fleet.agent(agent, order).start(&host, spec).unwrap()
    }

    /// Starts the sessions, and lets their agents begin once all are there. Returns the time that
    /// they took, and how old each event was when the owner's reader had it.
    async fn run(self, per_worker: u32) -> (Duration, Vec<i64>) {
        let log: Arc<dyn Log> = self.rig.store();
        let mut readers = JoinSet::new();
        for _ in 0..2 * per_worker {
            let mut session = self.session(log.clone());
            readers.spawn(async move {
                let mut events = Vec::new();
                while let Some(event) = session.next().await {
                    events.push((event.at, rig::now().0 - event.at.0));
                }
                events
            });
        }
        let all = usize::try_from(2 * per_worker).unwrap();
        while self.rig.lines("started") < all {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await; // until the machine is quiet
        fs::write(self.rig.path("go"), "").unwrap();
        let (begin, start) = (rig::now(), Instant::now());
        let events = readers.join_all().await;
        let taken = start.elapsed();
        finish(self.workers).await;
        let events = events.into_iter().flatten();
        let events = events.filter(|(at, _)| *at > begin);
        let mut ages: Vec<i64> = events.map(|(_, age)| age).collect();
        ages.sort_unstable();
        (taken, ages)
    }
}

/// Live sessions, half of them on each of two workers, each with a text per second.
async fn live(per_worker: u32, seconds: u32) {
    let script =
        format!("sleep PHASE\nloop {seconds}\ntext a few words\nsleep 1000\nend\nresult done\n");
    let fleet = LiveFleet::start(per_worker, &script).await;
    let (_, ages) = fleet.run(per_worker).await;
    let at = |part: usize| ages[(ages.len() - 1) * part / 100];
    println!(
        "\n{} live sessions on 2 workers, a text per second each: {} events, age at the owner's \
         reader p50 {} ms, p99 {} ms, at most {} ms.",
        2 * per_worker,
        ages.len(),
        at(50),
        at(99),
        at(100)
    );
}

/// Sessions that send as fast as they can.
async fn senders(per_worker: u32, texts: u32) {
    let script = format!("loop {texts}\ntext a few words\nend\nresult done\n");
    let fleet = LiveFleet::start(per_worker, &script).await;
    let (taken, ages) = fleet.run(per_worker).await;
    println!(
        "\n{} sessions on 2 workers, {texts} texts each without a pause: {} events in {:.1} s, \
         {:.0} events/s.",
        2 * per_worker,
        ages.len(),
        taken.as_secs_f64(),
        ages.len() as f64 / taken.as_secs_f64()
    );
}
