//! The evaluation's own costs: the adapter over the bare agent, normalized logs, memory, growth
//! over 100 runs, and the accuracy of timeouts.
//!
//! `cargo xtask bench eval [RUNS]` prints a Markdown table. The agent is a scripted one, whose own
//! time is small.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first error"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use ostler::event::{Event, Text, TextKind, Timestamp};
use ostler::{Agents, Host, Spec};
use ostler_eval::adapter::{AgentAdapter, Execution, ExecutionContext, ExecutionStatus};
use ostler_eval::normalized::{ExecutionFacts, LogFormat, NormalizedLog, from_events, from_text};
use ostler_testkit::{fake, processes};
use tokio::sync::watch;

const MEGABYTE: usize = 1024 * 1024;
const PROMPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";
const ANSWER: &str = "read\ninit\ntext all done\nresult all done\nread-until-eof\nexit 0\n";
/// The limit whose accuracy is measured.
const LIMIT: Duration = Duration::from_millis(1_500);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let runs = arguments.find_map(|it| it.parse().ok()).unwrap_or(20);
    println!("| figure | required | goal | median | worst |");
    println!("|---|---|---|---|---|");
    overhead(runs).await;
    normalisation(runs);
    memory().await;
    growth().await;
    timeouts(runs.min(10)).await;
}

fn row(figure: &str, required: &str, goal: &str, (median, worst): (f64, f64)) {
    println!("| {figure} | {required} | {goal} | {median:.2} | {worst:.2} |");
}

/// Returns the median and the maximum, in milliseconds.
fn spread(times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    (ms(times[times.len() / 2]), ms(times[times.len() - 1]))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(i64::try_from(since.unwrap().as_millis()).unwrap())
}

fn adapter(dir: &Path, verbs: &str) -> AgentAdapter {
    let script = fake::script(dir, verbs);
    let mut spec = Spec::new("hello").program(fake::program()).dir(dir);
    let script = script.to_str().unwrap().to_owned();
    spec.env.insert(fake::SCRIPT.to_owned(), script);
    let host = Host::new([
        ("PATH".into(), "/usr/bin:/bin".into()),
        ("HOME".into(), dir.into()),
    ]);
    AgentAdapter {
        agent: Agents::builtin().get("claude").unwrap(),
        host,
        spec,
    }
}

async fn execute(adapter: &AgentAdapter, dir: &Path) -> Execution {
    let (_stop, cancelled) = watch::channel(false);
    let context = ExecutionContext {
        artifacts: &dir.join("artifacts"),
        now: &now,
        on_usage: &|_, _| {},
        cancelled,
    };
    adapter.execute(&context).await
}

/// Runs the agent without Ostler.
fn run_bare(dir: &Path, script: &Path) {
    let mut child = Command::new(fake::program())
        .args([
            "-p",
            "--output-format=stream-json",
            "--input-format=stream-json",
        ])
        .env(fake::SCRIPT, script)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(PROMPT.as_bytes()).unwrap();
    drop(stdin);
    child.wait().unwrap();
}

async fn overhead(runs: usize) {
    let dir = tempfile::tempdir().unwrap();
    let adapter = adapter(dir.path(), ANSWER);
    let script = fake::script(dir.path(), ANSWER);
    let (mut bare, mut own) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let started = Instant::now();
        run_bare(dir.path(), &script);
        bare.push(started.elapsed());
        let started = Instant::now();
        let execution = execute(&adapter, dir.path()).await;
        own.push(started.elapsed());
        assert_eq!(execution.result.status, ExecutionStatus::Success);
    }
    let ((bare, _), (own, worst)) = (spread(&mut bare), spread(&mut own));
    row(
        "overhead of the adapter over the bare agent, ms (S4-32)",
        "< 500",
        "< 20",
        (own - bare, worst - bare),
    );
}

fn facts() -> ExecutionFacts {
    ExecutionFacts {
        agent: "claude".to_owned(),
        agent_version: None,
        adapter_version: "0".to_owned(),
        configured_model: None,
        provider: None,
        status: ExecutionStatus::Success,
        exit_code: Some(0),
        started_at: now().to_string(),
        completed_at: now().to_string(),
        duration_ms: 1,
        working_directory: "/work".to_owned(),
        errors: Vec::new(),
    }
}

/// Builds a log and writes it as JSON, with the check against its schema.
fn normalise(runs: usize, what: &str, of: impl Fn() -> NormalizedLog) {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            let log = of();
            let value = LogFormat::Contract.to_json(&log).unwrap();
            assert!(value.to_string().len() > MEGABYTE / 10);
            started.elapsed()
        })
        .collect();
    let figure = format!("a normalized log from 1 MB of {what}, ms (S4-33)");
    row(&figure, "< 100", "< 5", spread(&mut times));
}

fn normalisation(runs: usize) {
    let facts = facts();
    let block = "User: hi\nAssistant: \u{1b}[31mhello\u{1b}[0m there, this is an answer.\n\
                 [TOOL: Bash] ls -la src\nInput tokens: 10\nOutput tokens: 5\n";
    let transcript = block.repeat(MEGABYTE / block.len() + 1);
    normalise(runs, "text", || from_text(&facts, &transcript));
    let (mut events, mut bytes, mut seq) = (Vec::new(), 0, 0);
    while bytes < MEGABYTE {
        seq += 1;
        let text = Text {
            kind: TextKind::Reply,
            text: "A sentence of the answer, as agents print them. ".into(),
            delta: true,
            message: Some("msg_01AbCdEfGhIjKl".into()),
            parent: None,
        };
        let event = Event {
            seq,
            at: now(),
            session: "session".into(),
            turn: 1,
            kind: text.into(),
        };
        bytes += event.to_json().len();
        events.push(event);
    }
    normalise(runs, "events", || from_events(&facts, &events));
}

async fn memory() {
    let dir = tempfile::tempdir().unwrap();
    let chunk = "word ".repeat(200);
    let verbs =
        format!("read\ninit\nloop 8000\ndelta {chunk}\nend\nresult done\nread-until-eof\nexit 0\n");
    let adapter = adapter(dir.path(), &verbs);
    let pid = std::process::id();
    processes::reset_own_peak();
    let before = processes::rss_kib(pid).unwrap();
    let execution = execute(&adapter, dir.path()).await;
    let peak = processes::peak_rss_kib(pid).unwrap() - before;
    let output = execution.result.output.len() / 1024;
    let besides = (peak as f64 - output as f64).max(0.0) / 1024.0;
    let figure = format!(
        "memory besides the output of {} MB, with all of its {} events, MB (S4-34)",
        output / 1024,
        execution.events.iter().count()
    );
    row(&figure, "< 50", "< 20", (besides, besides));
}

async fn growth() {
    let dir = tempfile::tempdir().unwrap();
    let adapter = adapter(dir.path(), ANSWER);
    let pid = std::process::id();
    let measure = || {
        (
            processes::rss_kib(pid).unwrap(),
            processes::open_fds(pid).unwrap(),
        )
    };
    for _ in 0..10 {
        execute(&adapter, dir.path()).await;
    }
    let (memory, files) = measure();
    for _ in 0..100 {
        execute(&adapter, dir.path()).await;
    }
    let (later, more) = measure();
    let kib = later as f64 - memory as f64;
    row(
        "memory after 100 more runs, KiB (S4-35)",
        "no growth",
        "0",
        (kib, kib),
    );
    let files = more as f64 - files as f64;
    row(
        "open files after 100 more runs (S4-36)",
        "0",
        "0",
        (files, files),
    );
}

async fn timeouts(runs: usize) {
    let agents = [
        (
            "an agent that reacts",
            "answer-interrupt\nresult-error error_during_execution stopped\nread-until-eof\nexit 0\n",
        ),
        ("one that ignores the request to stop", "hang\n"),
    ];
    for (agent, end) in agents {
        let dir = tempfile::tempdir().unwrap();
        let mut adapter = adapter(dir.path(), &format!("read\ninit\ntext partial\n{end}"));
        adapter.spec.limits.wall = Some(LIMIT);
        let mut late = Vec::new();
        for _ in 0..runs {
            let started = Instant::now();
            let execution = execute(&adapter, dir.path()).await;
            late.push(started.elapsed().saturating_sub(LIMIT));
            assert_eq!(execution.result.status, ExecutionStatus::Timeout);
        }
        let (median, worst) = spread(&mut late);
        row(
            &format!("end after the time limit, {agent}, s (S4-37)"),
            "< 5",
            "< 0.2",
            (median / 1000.0, worst / 1000.0),
        );
    }
}
