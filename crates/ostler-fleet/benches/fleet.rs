//! A fleet on this machine: overhead per trial, throughput with more workers, a long queue, and
//! events that the owner mirrors.
//!
//! `cargo xtask bench fleet` prints Markdown tables. `--quick` measures a tenth. Server, owner and
//! workers share the machine; the agent is scripted, and its tools sleep.

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

use ostler_eval::case::{Source, Suite};
use ostler_eval::place::Place;
use ostler_eval::runner::RunEnd;
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::NatsServer;
use tokio::sync::watch;

use crate::rig::{PATIENCE, Rig, RunningWorker, here};

/// Lease of attempts: the machine may be busy.
const LEASE: Duration = PATIENCE;

#[tokio::main]
async fn main() {
    if ostler_testkit::nats::program().is_none() {
        println!("no NATS server: run `cargo xtask test`, or set OSTLER_NATS_SERVER");
        return;
    }
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let part = |all: u32| if is_quick { (all / 10).max(2) } else { all };
    println!("Load of the machine at the start: {}", load());
    overhead(part(20)).await;
    scale(part(5)).await;
    mirror(part(5_000)).await;
    queue(part(1_000)).await;
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
