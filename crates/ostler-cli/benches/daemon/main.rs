//! One round of `cargo xtask bench daemon`: memory, time to create a session and to a first answer,
//! and the cost of delivering events, of the daemon or of another server.
//!
//! `daemon CONTENDER PROGRAM DIR SESSIONS BURSTS` prints one line `NAME VALUE` per number. `DIR`
//! has the agents that xtask wrote: folders `idle.bin`, `long.bin` and `burst.bin` with programs to
//! find on the path. Contenders: `claude` and `acp` are `ostler serve` with an agent of that
//! protocol, and `peer` is sandbox-agent.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first error"
)]

mod ostler;
mod peer;
mod process;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::process::Process;

/// Number of clients that read each burst.
const READERS: usize = 2;

/// How long a server may take to release what it needed for a turn.
const SETTLE: Duration = Duration::from_millis(500);

/// A server that runs agents for its clients.
pub(crate) trait Server: Clone + 'static {
    /// A client that reads the events of a session.
    type Reader: 'static;

    /// Waits until the server answers.
    async fn wait_until_ready(&self);

    /// Starts a session with an agent, and sends it a message unless [`Self::prompt`] does.
    async fn create(&self, number: usize) -> String;

    /// Starts to read the events of a session.
    async fn read(&self, session: &str) -> Self::Reader;

    /// Sends the message, if [`Self::create`] did not.
    async fn prompt(&self, session: &str);

    /// Reads to the end of the turn, and returns the number of the agent's events.
    async fn read_turn(reader: Self::Reader) -> usize;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [contender, program, dir, sessions, bursts] = &arguments[..] else {
        return; // `cargo bench` without arguments
    };
    let round = Round {
        program: program.into(),
        dir: dir.into(),
        sessions: sessions.parse().unwrap(),
        bursts: bursts.parse().unwrap(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        match contender.as_str() {
            "peer" => round.measure(peer::start).await,
            agent @ ("claude" | "acp") => {
                let agent = if agent == "acp" {
                    "claude-agent-acp"
                } else {
                    agent
                };
                round
                    .measure(|program, agents| ostler::start(program, agents, agent))
                    .await;
            }
            other => panic!("unknown contender {other}"),
        }
    });
}

struct Round {
    program: PathBuf,
    dir: PathBuf,
    sessions: usize,
    bursts: usize,
}

impl Round {
    /// Makes both measurements, each with a new server that finds its agents in a folder.
    async fn measure<S: Server>(&self, start: impl Fn(&Path, &Path) -> (Process, S)) {
        let (process, server) = start(&self.program, &self.dir.join("idle.bin"));
        self.idle(&process, &server).await;
        drop(process);
        let (process, server) = start(&self.program, &self.dir.join("long.bin"));
        server.wait_until_ready().await;
        self.start_idle(&process, &server, "long").await;
        drop(process);
        let (process, server) = start(&self.program, &self.dir.join("burst.bin"));
        self.bursts(&process, &server).await;
    }

    /// Memory of the server and of idle sessions, and the time to a first answer.
    async fn idle<S: Server>(&self, process: &Process, server: &S) {
        server.wait_until_ready().await;
        println!("rss {:.2}", process.rss_kib() as f64 / 1024.0);
        let (accepted, answered) = self.start_idle(process, server, "session").await;
        println!("accept {:.3}", median_ms(accepted));
        println!("create {:.3}", median_ms(answered));
    }

    /// Starts sessions that are idle after their first turn, prints the private memory of each
    /// under a name, and returns how long each took until it was accepted, and until its answer.
    async fn start_idle<S: Server>(
        &self,
        process: &Process,
        server: &S,
        name: &str,
    ) -> (Vec<Duration>, Vec<Duration>) {
        answer(server, 0).await; // loads and opens what every session shares
        tokio::time::sleep(SETTLE).await;
        let before = process.private_kib();
        let (mut accepted, mut answered) = (Vec::new(), Vec::new());
        for number in 1..=self.sessions {
            let began = Instant::now();
            accepted.push(answer(server, number).await);
            answered.push(began.elapsed());
        }
        tokio::time::sleep(SETTLE).await;
        let more = process.private_kib().saturating_sub(before);
        println!("{name} {:.2}", more as f64 / self.sessions as f64);
        (accepted, answered)
    }

    /// Throughput and processor time of bursts with several readers each.
    async fn bursts<S: Server>(&self, process: &Process, server: &S) {
        server.wait_until_ready().await;
        let expected = std::fs::read_to_string(self.dir.join("burst.count")).unwrap();
        let expected: usize = expected.trim().parse().unwrap();
        let (began, before) = (Instant::now(), process.processor_time());
        let mut readers = Vec::new();
        for number in 0..self.bursts {
            let session = server.create(number).await;
            for _ in 0..READERS {
                let reader = server.read(&session).await;
                readers.push(tokio::task::spawn_local(S::read_turn(reader)));
            }
            server.prompt(&session).await;
        }
        let (mut delivered, mut wanted) = (0, 0);
        for reader in readers {
            delivered += reader.await.expect("a reader");
            wanted += expected;
        }
        let (time, busy) = (began.elapsed(), process.processor_time() - before);
        let rate = delivered as f64 / time.as_secs_f64();
        println!("events {rate:.0}");
        let cost = busy.as_secs_f64() * 1e6 / delivered as f64;
        println!("cost {cost:.2}");
        println!("lost {}", wanted.saturating_sub(delivered));
    }
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Runs a session to the end of its first turn. It stays idle. Returns how long the server took to
/// create it.
async fn answer<S: Server>(server: &S, number: usize) -> Duration {
    let began = Instant::now();
    let session = server.create(number).await;
    let accepted = began.elapsed();
    let reader = server.read(&session).await;
    server.prompt(&session).await;
    S::read_turn(reader).await;
    accepted
}
