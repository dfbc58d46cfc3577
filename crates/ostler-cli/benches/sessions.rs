//! Ostler's side of `cargo xtask bench sessions`: one measurement per process, chosen by arguments.
//!
//! `sessions ROW DIR [OPTION…]` prints one sample per line. `DIR` has the agents that xtask wrote.
//! Options: `guard` starts agents under a guard, `store` keeps events in a store, `multi` uses a
//! runtime with several threads.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first error"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ostler::event::EventKind;
use ostler::host::GuardProgram;
use ostler::session::ReadItem;
use ostler::spec::AfterTurn;
use ostler::{Agent, Agents, Host, Session, Spec};
use ostler_testkit::processes;

/// How many runs a process makes for rows that measure inside it; the first one is not counted.
const RUNS: usize = 12;

/// Number of sessions that are alive at once.
const SESSIONS: usize = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [row, dir, options @ ..] = &arguments[..] else {
        return; // `cargo bench` without arguments
    };
    let has = |name: &str| options.iter().any(|option| option == name);
    let mut builder = if has("multi") {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().unwrap();
    let bench = Bench::new(Path::new(dir), &has);
    let readers = options.iter().find_map(|option| option.parse().ok());
    runtime.block_on(async {
        match row.as_str() {
            "cold" => drop(bench.run("short").await),
            "warm" => bench.runs("warm").await,
            "mixed" => bench.runs("mixed").await,
            "latency" => bench.latency().await,
            "idle" => bench.idle().await,
            "many" => bench.many().await,
            "readers" => bench.readers(readers.unwrap_or(1)).await,
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
    fn new(dir: &Path, has: &impl Fn(&str) -> bool) -> Self {
        let mut host = Host::new(std::env::vars_os());
        if has("guard") {
            let beside = std::env::current_exe().unwrap().with_file_name("ostler");
            let built = PathBuf::from(env!("CARGO_BIN_EXE_ostler"));
            host = host.with_guard(GuardProgram {
                program: if beside.exists() { beside } else { built },
                args: vec!["__guard".into()],
            });
        }
        if has("store") {
            let store = ostler_store::Store::open(&dir.join("store")).unwrap();
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

    /// Prints the milliseconds of each run.
    async fn runs(&self, agent: &str) {
        self.run(agent).await;
        for _ in 1..RUNS {
            let begin = Instant::now();
            self.run(agent).await;
            println!("{:.3}", ms(begin.elapsed()));
        }
    }

    /// Prints the microseconds from each line to its event. The line says when it was written.
    async fn latency(&self) {
        let mut session = self.start("latency", AfterTurn::End);
        let mut samples = Vec::new();
        while let Some(event) = session.next().await {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            if let EventKind::Text(text) = &event.kind
                && text.delta
                && let Ok(sent) = text.text.trim().parse::<u128>()
            {
                samples.push(now.as_nanos().saturating_sub(sent) as f64 / 1e3);
            }
        }
        for sample in samples.iter().skip(100) {
            println!("{sample:.1}");
        }
    }

    /// Starts sessions and waits until each has ended its turn and is idle.
    async fn start_all(&self, count: usize) -> Vec<Session> {
        let mut sessions: Vec<_> = (0..count)
            .map(|_| self.start("idle", AfterTurn::Wait))
            .collect();
        for session in &mut sessions {
            loop {
                let event = session.next().await.expect("the session lives");
                if matches!(event.kind, EventKind::TurnEnded(_)) {
                    break;
                }
            }
        }
        sessions
    }

    /// Prints the KiB of memory per idle session of this process.
    async fn idle(&self) {
        let warm = self.start_all(10).await;
        let own = || processes::rss_kib(std::process::id()).unwrap();
        let before = own();
        let sessions = self.start_all(SESSIONS).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        println!("{:.1}", (own() - before) as f64 / SESSIONS as f64);
        self.stop_all(sessions).await;
        self.stop_all(warm).await;
    }

    async fn stop_all(&self, mut sessions: Vec<Session>) {
        sessions.iter().for_each(Session::stop);
        for session in &mut sessions {
            while session.next().await.is_some() {}
        }
    }

    /// Prints the seconds that it takes to start all sessions, and to stop them.
    async fn many(&self) {
        let begin = Instant::now();
        let sessions = self.start_all(SESSIONS).await;
        let started = begin.elapsed();
        let begin = Instant::now();
        self.stop_all(sessions).await;
        println!(
            "{:.3} {:.3}",
            started.as_secs_f64(),
            begin.elapsed().as_secs_f64()
        );
    }

    /// Runs the large agent with several readers, none of which may lose an event.
    async fn readers(&self, count: usize) {
        let mut session = self.start("warm", AfterTurn::End);
        let remote = session.remote();
        let begin = Instant::now();
        let others: Vec<_> = (1..count)
            .map(|_| {
                let mut reader = remote.events(1);
                tokio::spawn(async move {
                    let mut next = 1;
                    while let Some(item) = reader.next().await {
                        match item {
                            ReadItem::Event(event) => {
                                assert_eq!(event.seq, next);
                                next += 1;
                            }
                            ReadItem::Gap { from, to } => {
                                assert_eq!(from, next);
                                while next <= to {
                                    let page = reader.fetch(next, 256).unwrap();
                                    next = page.last().unwrap().seq + 1;
                                }
                            }
                        }
                    }
                    next - 1
                })
            })
            .collect();
        let mut last = 0;
        while let Some(event) = session.next().await {
            assert_eq!(event.seq, last + 1);
            last = event.seq;
        }
        for other in others {
            assert_eq!(other.await.unwrap(), last);
        }
        println!("{last} {:.3}", ms(begin.elapsed()));
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
