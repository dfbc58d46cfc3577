//! Ostler's side of `cargo xtask bench`: one measurement per process, chosen by arguments.
//!
//! `sessions ROW DIR RUNS [OPTION…]` prints one sample per line. `DIR` has the agents that xtask
//! wrote. Options: `guard` starts agents under a guard, `store…` keeps events in the store of that
//! name, `floor` only reads what the agent prints, and a number sets a size.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first error"
)]

mod decode;
mod floor;
mod readers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ostler::event::EventKind;
use ostler::host::GuardProgram;
use ostler::spec::AfterTurn;
use ostler::{Agent, Agents, Host, Session, Spec};
use ostler_testkit::processes;

/// Number of sessions that are alive at once.
const SESSIONS: usize = 1000;

/// Samples of the row `latency` that are not counted.
const WARM_UP_LINES: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [row, dir, runs, options @ ..] = &arguments[..] else {
        return; // `cargo bench` without arguments
    };
    let (dir, runs) = (Path::new(dir), runs.parse().unwrap());
    let has = |name: &str| options.iter().any(|option| option == name);
    let size = options.iter().find_map(|option| option.parse().ok());
    match row.as_str() {
        _ if has("floor") => return floor::measure(row, dir, runs),
        "decode" => return decode::speeds(dir, runs),
        "counted" => return decode::counted(dir),
        _ => {}
    }
    let bench = Bench::new(dir, options);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match row.as_str() {
            "cold" => drop(bench.run("short").await),
            "warm" | "mixed" => bench.runs(row, runs).await,
            "events" => bench.runs(&format!("events-{}", size.unwrap()), runs).await,
            "fill" => bench.fill(size.unwrap()).await,
            "turns" => bench.turns(size.unwrap()).await,
            "latency" => bench.latency().await,
            "idle" => bench.idle(size.unwrap_or(SESSIONS)).await,
            "many" => bench.many(size.unwrap_or(SESSIONS)).await,
            "readers" => readers::check(bench.start("events-500000", AfterTurn::End), size).await,
            other => panic!("unknown row {other}"),
        }
    });
}

struct Bench {
    dir: PathBuf,
    host: Host,
    agent: Arc<dyn Agent>,
}

impl Bench {
    fn new(dir: &Path, options: &[String]) -> Self {
        let mut host = Host::new(std::env::vars_os());
        if options.iter().any(|option| option == "guard") {
            let guard = GuardProgram {
                program: env!("CARGO_BIN_EXE_ostler").into(),
                args: vec!["__guard".into()],
            };
            ostler::guard::start(&guard);
            host = host.with_guard(guard);
        }
        if let Some(name) = options.iter().find(|option| option.starts_with("store")) {
            let store = ostler_store::Store::open(&dir.join(name)).unwrap();
            host = host.with_log(Arc::new(store));
        }
        Self {
            dir: dir.to_owned(),
            host,
            agent: Agents::builtin().get("claude").unwrap(),
        }
    }

    fn start(&self, agent: &str, after_turn: AfterTurn) -> Session {
        let spec = Spec::new("hello")
            .program(self.dir.join(agent))
            .dir(self.dir.clone())
            .after_turn(after_turn);
        self.agent.start(&self.host, spec).unwrap()
    }

    /// Runs an agent to its end and returns the number of events.
    async fn run(&self, agent: &str) -> u64 {
        let mut session = self.start(agent, AfterTurn::End);
        let (mut last, mut ok) = (0, false);
        while let Some(event) = session.next().await {
            assert_eq!(event.seq, last + 1);
            last = event.seq;
            if let EventKind::Ended(ended) = &event.kind {
                ok = ended.outcome.is_success();
            }
        }
        assert!(ok, "{agent} failed");
        last
    }

    /// Prints the milliseconds of each run after a first one.
    async fn runs(&self, agent: &str, runs: usize) {
        self.run(agent).await;
        for _ in 0..runs {
            let begin = Instant::now();
            self.run(agent).await;
            println!("{:.3}", ms(begin.elapsed()));
        }
    }

    /// Makes short runs, which leave as many sessions in the store.
    async fn fill(&self, count: usize) {
        for _ in 0..count {
            self.run("short").await;
        }
    }

    /// Prints the milliseconds of a session with many short turns.
    async fn turns(&self, count: usize) {
        let begin = Instant::now();
        let mut session = self.start("short", AfterTurn::Wait);
        finish_turn(&mut session).await;
        for _ in 1..count {
            session.send("hello").unwrap();
            finish_turn(&mut session).await;
        }
        stop_all(vec![session]).await;
        println!("{:.3}", ms(begin.elapsed()));
    }

    /// Prints the microseconds from each line to its event. The line says when it was written.
    async fn latency(&self) {
        let mut session = self.start("latency", AfterTurn::End);
        let mut samples = Vec::new();
        while let Some(event) = session.next().await {
            let now = wall();
            if let EventKind::Text(text) = &event.kind
                && text.delta
                && let Ok(sent) = text.text.trim().parse()
            {
                samples.push(Duration::from_nanos(now.saturating_sub(sent)));
            }
        }
        print_latencies(&samples);
    }

    /// Starts sessions and waits until each has ended its turn and is idle.
    async fn start_all(&self, count: usize) -> Vec<Session> {
        let mut sessions: Vec<_> = (0..count)
            .map(|_| self.start("idle", AfterTurn::Wait))
            .collect();
        for session in &mut sessions {
            finish_turn(session).await;
        }
        sessions
    }

    /// Prints the KiB of memory per idle session of this process, and the private memory of a guard
    /// if there are any.
    async fn idle(&self, count: usize) {
        let warm = self.start_all(10).await;
        let own = || processes::rss_kib(std::process::id()).unwrap();
        let before = own();
        // One after the other, as the peers do.
        let mut sessions = Vec::with_capacity(count);
        for _ in 0..count {
            sessions.extend(self.start_all(1).await);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        print!("{:.1}", (own() - before) as f64 / count as f64);
        let children = processes::descendants(std::process::id());
        let mut guards = processes::with_argument("__guard");
        guards.retain(|guard| children.contains(guard));
        if !guards.is_empty() {
            let total: u64 = guards.iter().map(|guard| private_kib(*guard)).sum();
            print!(" {:.1}", total as f64 / guards.len() as f64);
        }
        println!();
        stop_all(sessions).await;
        stop_all(warm).await;
    }

    /// Prints the seconds that it takes to start sessions, and to stop them.
    async fn many(&self, count: usize) {
        let begin = Instant::now();
        let sessions = self.start_all(count).await;
        let started = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        stop_all(sessions).await;
        println!("{started:.3} {:.3}", begin.elapsed().as_secs_f64());
    }
}

async fn finish_turn(session: &mut Session) {
    loop {
        let event = session.next().await.expect("the session lives");
        if matches!(event.kind, EventKind::TurnEnded(_)) {
            break;
        }
    }
}

async fn stop_all(mut sessions: Vec<Session>) {
    sessions.iter().for_each(Session::stop);
    for session in &mut sessions {
        while session.next().await.is_some() {}
    }
}

/// Returns the memory that a process shares with no other.
fn private_kib(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    private
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

fn print_latencies(samples: &[Duration]) {
    for sample in samples.iter().skip(WARM_UP_LINES) {
        println!("{:.1}", sample.as_secs_f64() * 1e6);
    }
}

/// Returns the wall-clock time in nanoseconds.
fn wall() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
