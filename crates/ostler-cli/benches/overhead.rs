//! Overhead of `ostler run` over the bare CLI: same prompt, same model server, alternating runs,
//! medians.
//!
//! `cargo xtask bench overhead [RUNS]` prints a Markdown table. It needs only the real Claude Code
//! (`cargo xtask agents`). With the argument `death` it makes only the last measurement: how soon
//! the death of an agent is reported.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first error"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::model::{ModelServer, Script};
use ostler_testkit::{fake, processes, real};

const PROMPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

fn main() {
    let runs = std::env::args()
        .skip(1)
        .find_map(|a| a.parse().ok())
        .unwrap_or(20);
    if std::env::args().any(|argument| argument == "death") {
        return death(runs);
    }
    println!(
        "| agent | bare, ms | `ostler run --no-store`, ms | `ostler run`, ms | storing adds | own peak RSS |"
    );
    println!("|---|---|---|---|---|---|");
    real_claude(runs);
    fake_agent(runs, "an immediate answer", "");
    fake_agent(runs, "5,000 chunks at once", "loop 5000\ndelta word\nend\n");
    fake_agent(
        runs.min(5),
        "5,000 chunks, 1 ms apart",
        "loop 5000\ndelta word\nsleep 1\nend\n",
    );
    death(runs);
}

/// Measures the time from an agent's death during a tool call to the event that ends its turn.
fn death(runs: usize) {
    let home = tempfile::tempdir().unwrap();
    let pid_file = home.path().join("pid");
    let verbs = format!(
        "read\ninit\npid-file {}\ntool-use t1 Bash {{}}\nhang",
        pid_file.display()
    );
    let agent = fake::install_as(home.path(), "agent", &verbs);
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| time_to_report(home.path(), &agent, &pid_file))
        .collect();
    let (median, longest) = (median(&mut times), times[runs - 1].as_secs_f64() * 1000.0);
    println!(
        "\nAn agent killed during a tool call: reported after {median:.1} ms (median), \
         {longest:.1} ms (longest of {runs})."
    );
}

fn time_to_report(home: &Path, agent: &Path, pid_file: &Path) -> Duration {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .args([
            "run",
            "--agent",
            "claude",
            "--no-store",
            "--output",
            "events",
            "--program",
        ])
        .arg(agent);
    command
        .arg("hello")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .current_dir(home);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    lines
        .find(|line| line.contains("\"type\":\"tool_call\""))
        .expect("the agent calls a tool");
    let pid = std::fs::read_to_string(pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let killed = Instant::now();
    let ended = lines
        .find(|line| line.contains("\"type\":\"turn_ended\""))
        .expect("the turn ends");
    let took = killed.elapsed();
    assert!(ended.contains("agent_died"), "{ended}");
    lines.for_each(drop);
    child.wait().unwrap();
    took
}

/// Measures the real Claude Code against the scripted model server.
fn real_claude(runs: usize) {
    let server = ModelServer::start(Script::always("Hello from the scripted model."));
    let home = tempfile::tempdir().unwrap();
    let env = ostler_testkit::scenario::CLAUDE.host(home.path(), &server.base_url());
    let flags = "-p --output-format=stream-json --input-format=stream-json --verbose \
                 --include-partial-messages";
    compare(
        runs,
        &Contender {
            name: "Claude Code",
            program: real::claude(),
            flags,
            env,
        },
    );
}

/// Measures a scripted agent, whose own time is negligible: the rest is Ostler's.
fn fake_agent(runs: usize, name: &'static str, says: &str) {
    let home = tempfile::tempdir().unwrap();
    let verbs = format!("read\ninit\n{says}result done\nread-until-eof\nexit 0");
    let agent = fake::install_as(home.path(), "agent", &verbs);
    let env = vec![
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("HOME".to_owned(), home.path().display().to_string()),
    ];
    compare(
        runs,
        &Contender {
            name,
            program: agent,
            flags: "",
            env,
        },
    );
}

/// The program to start on its own and through Ostler.
struct Contender {
    name: &'static str,
    program: PathBuf,
    flags: &'static str,
    env: Vec<(String, String)>,
}

fn compare(
    runs: usize,
    Contender {
        name,
        program,
        flags,
        env,
    }: &Contender,
) {
    let dir = tempfile::tempdir().unwrap();
    let start = |command: &mut Command| {
        command
            .env_clear()
            .envs(env.iter().cloned())
            .current_dir(dir.path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let bare = || start(Command::new(program).args(flags.split_whitespace()));
    let ours = |store: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command
            .args([
                "run",
                "--agent",
                "claude",
                "--output",
                "events",
                "--program",
            ])
            .arg(program);
        start(command.args(store).arg("hello"))
    };
    measure(bare(), Some(PROMPT)); // the first start reads the file from disk
    measure(ours(&[]), None);
    let (mut times, mut peak) = ([Vec::new(), Vec::new(), Vec::new()], 0);
    for _ in 0..runs {
        times[0].push(measure(bare(), Some(PROMPT)).0);
        times[1].push(measure(ours(&["--no-store"]), None).0);
        let (time, memory) = measure(ours(&[]), None);
        times[2].push(time);
        peak = peak.max(memory);
    }
    let [bare, without, with] = times.map(|mut times| median(&mut times));
    #[expect(clippy::cast_precision_loss, reason = "a few thousand KiB")]
    let peak = peak as f64 / 1024.0;
    let (adds, share) = (with - without, (with / without - 1.0) * 100.0);
    println!(
        "| {name} | {bare:.1} | {without:.1} | {with:.1} | {adds:.1} ms, {share:.1} % | {peak:.1} MB |"
    );
}

/// Waits for a child to exit, and returns its wall time and peak memory in KiB.
fn measure(mut child: Child, stdin: Option<&str>) -> (Duration, u64) {
    let begin = Instant::now();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(stdin.unwrap_or("").as_bytes()).unwrap();
    drop(pipe);
    let mut peak = 0;
    let status = loop {
        peak = peak.max(processes::peak_rss_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success(), "{status}");
    (begin.elapsed(), peak)
}

/// Returns the median in milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
