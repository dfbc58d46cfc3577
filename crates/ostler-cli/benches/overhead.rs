//! What `ostler run` costs over the bare CLI: same prompt, same model server, alternating runs, medians.
//!
//! `cargo xtask bench overhead [RUNS]` prints a Markdown table. It needs the real Claude Code (`cargo xtask agents`) and
//! nothing else.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark starts processes, reads the clock, prints, and stops at the first fault"
)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::model::{ModelServer, Script};
use ostler_testkit::{fake, processes, real};

const PROMPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

fn main() {
    let runs = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(20);
    println!("| agent | bare, ms | `ostler run`, ms | overhead, ms | `ostler`, own peak RSS |\n|---|---|---|---|---|");
    real_claude(runs);
    quick_agent(runs);
}

/// The real Claude Code against the scripted model server.
fn real_claude(runs: usize) {
    let server = ModelServer::start(Script::always("Hello from the scripted model."));
    let home = tempfile::tempdir().unwrap();
    let env = real::claude_env(home.path(), &server.base_url());
    let flags = "-p --output-format=stream-json --input-format=stream-json --verbose --include-partial-messages";
    compare(runs, &Rival { name: "Claude Code", program: real::claude(), flags, env });
}

/// An agent that answers at once: what is left is Ostler's own time.
fn quick_agent(runs: usize) {
    let home = tempfile::tempdir().unwrap();
    let agent = fake::install_as(home.path(), "agent", "read\ninit\nresult done\nread-until-eof\nexit 0");
    let env =
        vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("HOME".to_owned(), home.path().display().to_string())];
    compare(runs, &Rival { name: "one that answers at once", program: agent, flags: "", env });
}

/// The program that is started bare and through Ostler.
struct Rival {
    name: &'static str,
    program: PathBuf,
    flags: &'static str,
    env: Vec<(String, String)>,
}

fn compare(runs: usize, Rival { name, program, flags, env }: &Rival) {
    let dir = tempfile::tempdir().unwrap();
    let start = |command: &mut Command| {
        command.env_clear().envs(env.iter().cloned()).current_dir(dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let bare = || start(Command::new(program).args(flags.split_whitespace()));
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(["run", "--agent", "claude", "--output", "events", "--program"]).arg(program).arg("hello");
        start(&mut command)
    };
    measure(bare(), Some(PROMPT)); // the first start reads the file from disk
    let (mut bare_times, mut our_times, mut peak) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        bare_times.push(measure(bare(), Some(PROMPT)).0);
        let (time, own) = measure(ours(), None);
        our_times.push(time);
        peak = peak.max(own);
    }
    let (bare, ours) = (median(&mut bare_times), median(&mut our_times));
    #[expect(clippy::cast_precision_loss, reason = "a few thousand KiB")]
    let peak = peak as f64 / 1024.0;
    println!("| {name} | {bare:.1} | {ours:.1} | {:.1} | {peak:.1} MB |", ours - bare);
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

/// The median, in milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
