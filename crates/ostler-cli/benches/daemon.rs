//! The daemon: memory, time to create a session, and the cost of delivering an event.
//!
//! `cargo xtask bench daemon` prints a Markdown table. The agents are fake ones.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first error"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_daemon::api::CreateSession;
use ostler_daemon::client::Client;
use ostler_testkit::fake;

/// Number of idle sessions whose memory is measured.
const IDLE: usize = 100;

/// Number of bursts, of events in each, and of readers of each.
const BURSTS: usize = 10;
const EVENTS: usize = 5_000;
const READERS: usize = 2;

struct Daemon {
    child: Child,
    client: Client,
    dir: tempfile::TempDir,
}

impl Daemon {
    fn start(verbs: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let _ = fake::install_as(dir.path(), "claude", verbs);
        let mut child = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .arg("serve")
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()))
            .env("HOME", dir.path())
            .env("XDG_RUNTIME_DIR", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let client = Client::new(line.trim());
        Self { child, client, dir }
    }

    async fn create(&self, prompt: Option<&str>) -> String {
        let request = CreateSession {
            agent: Some("claude".to_owned()),
            dir: self.dir.path().to_owned(),
            prompt: prompt.map(str::to_owned),
            ..CreateSession::default()
        };
        self.client.create(&request).await.unwrap().id
    }

    /// Returns the private memory of the daemon, in KiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("Private_"));
        let number = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
        lines.filter_map(number).sum()
    }

    /// Returns the processor time of the daemon.
    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        let ticks: u64 = rest
            .split(' ')
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().unwrap())
            .sum();
        Duration::from_millis(ticks * 10) // 100 ticks per second
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("| the daemon | goal | measured |\n|---|---|---|");
    runtime.block_on(async {
        idle().await;
        bursts().await;
    });
}

fn row(what: &str, goal: &str, measured: impl std::fmt::Display) {
    println!("| {what} | {goal} | {measured} |");
}

/// Memory of the daemon and of idle sessions, and the time to create one.
async fn idle() {
    let daemon = Daemon::start("loop 10\nread-user\ninit\ntext hi\nresult hi\nend");
    wait_until_running(&daemon.client).await;
    let empty = daemon.memory();
    row("private memory, idle, KiB", "≤ 15,000", empty);
    let mut times = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..IDLE {
        let began = Instant::now();
        ids.push(daemon.create(Some("go")).await);
        times.push(began.elapsed());
    }
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1000.0;
    row("create a session, ms (median)", "–", format!("{median:.2}"));
    for id in &ids {
        read_turn(&daemon.client, id).await;
    }
    let each = (daemon.memory().saturating_sub(empty)) as f64 / IDLE as f64;
    row(
        "private memory per idle session, KiB",
        "≤ 20",
        format!("{each:.1}"),
    );
}

async fn wait_until_running(client: &Client) {
    while !client.is_running().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads the events of a session to the end of its first turn, and returns their number.
async fn read_turn(client: &Client, id: &str) -> usize {
    let mut stream = client.events(id, 0).await.unwrap();
    let mut count = 0;
    while let Some(frame) = stream.next().await.unwrap() {
        if frame.event == "message" {
            count += 1;
            if frame.data.contains("\"type\":\"turn_ended\"") {
                break;
            }
        }
    }
    count
}

/// Throughput and processor time of bursts with several readers each.
async fn bursts() {
    let verbs =
        format!("read\ninit\nloop {EVENTS}\ndelta word\nend\ntext x\nresult x\nread-until-eof");
    let daemon = Daemon::start(&verbs);
    wait_until_running(&daemon.client).await;
    let (began, before) = (Instant::now(), daemon.processor_time());
    let mut readers = Vec::new();
    for _ in 0..BURSTS {
        let id = daemon.create(Some("go")).await;
        for _ in 0..READERS {
            let (client, id) = (daemon.client.clone(), id.clone());
            readers.push(tokio::spawn(async move { read_turn(&client, &id).await }));
        }
    }
    let mut delivered = 0;
    for reader in readers {
        let count = reader.await.expect("a reader");
        assert!(count > EVENTS, "no event is lost");
        delivered += count;
    }
    let (time, busy) = (began.elapsed(), daemon.processor_time() - before);
    let rate = delivered as f64 / time.as_secs_f64();
    let cost = busy.as_secs_f64() * 1e6 / delivered as f64;
    row("events delivered per second", "–", format!("{rate:.0}"));
    row(
        "processor time per event delivered, µs",
        "≤ 18",
        format!("{cost:.1}"),
    );
}
