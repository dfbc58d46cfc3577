//! What `ostler run` costs over the bare CLI: same prompt, same model server, alternating runs, medians.
//!
//! `cargo bench -p ostler-cli --bench overhead [-- RUNS]` prints a Markdown table. It needs the real Claude Code
//! (`cargo xtask agents`) and nothing else.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first fault"
)]

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::model::{ModelServer, Script};
use ostler_testkit::{processes, real};

const PROMPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

fn main() {
    let runs = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(20);
    let server = ModelServer::start(Script::always("Hello from the scripted model."));
    let home = tempfile::tempdir().unwrap();
    let env = real::claude_env(home.path(), &server.base_url());
    let start = |command: &mut Command| {
        command.env_clear().envs(env.clone()).current_dir(home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let bare = || {
        let args = [
            "-p",
            "--output-format=stream-json",
            "--input-format=stream-json",
            "--verbose",
            "--include-partial-messages",
        ];
        start(Command::new(real::claude()).args(args))
    };
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(["run", "--agent", "claude", "--output", "events", "--program"]).arg(real::claude()).arg("hello");
        start(&mut command)
    };
    measure(bare(), Some(PROMPT)); // the first start reads the file from disk
    let (mut bare_times, mut our_times, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        bare_times.push(measure(bare(), Some(PROMPT)).0);
        let (time, peak) = measure(ours(), None);
        our_times.push(time);
        peaks.push(peak);
    }
    let (bare, ours) = (median(&mut bare_times), median(&mut our_times));
    println!("| measure | value |\n|---|---|");
    println!("| bare `claude`, wall, median of {runs} | {:.0} ms |", millis(bare));
    println!("| `ostler run`, wall, median of {runs} | {:.0} ms |", millis(ours));
    println!("| overhead | {:.0} ms |", millis(ours) - millis(bare));
    println!(
        "| `ostler`, own peak RSS, largest of {runs} | {:.1} MB |",
        peaks.iter().copied().max().unwrap_or(0) as f64 / 1024.0
    );
}

/// Runs a child to its end: wall time, and the peak of its own memory in KiB.
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

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
