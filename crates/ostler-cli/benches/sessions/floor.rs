//! The least that any contender has to do: start the agent, write the prompt, read what it prints.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHUNK: usize = 64 * 1024;

pub(crate) fn measure(row: &str, dir: &Path, runs: usize) {
    match row {
        "cold" => drain(&dir.join("short"), |_| {}),
        "latency" => latency(&dir.join("latency")),
        row => {
            for _ in 0..runs {
                let begin = Instant::now();
                drain(&dir.join(row), |_| {});
                println!("{:.3}", super::ms(begin.elapsed()));
            }
        }
    }
}

/// Runs an agent, and passes each chunk of its output to `each`.
fn drain(agent: &Path, mut each: impl FnMut(&[u8])) {
    let mut child = Command::new(agent)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let prompt = std::fs::read(agent.with_file_name("prompt.jsonl")).unwrap();
    child.stdin.take().unwrap().write_all(&prompt).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut chunk = vec![0; CHUNK];
    loop {
        match stdout.read(&mut chunk).unwrap() {
            0 => break,
            count => each(&chunk[..count]),
        }
    }
    assert!(child.wait().unwrap().success());
}

/// Prints the microseconds from each line to the end of the `read` that returned it.
fn latency(agent: &Path) {
    let mut samples = Vec::new();
    drain(agent, |chunk| {
        let now = super::wall();
        let text = String::from_utf8_lossy(chunk);
        for line in text.lines() {
            let sent = line.split(r#""text":""#).nth(1);
            let sent = sent.and_then(|rest| rest.split('"').next()?.parse().ok());
            samples.extend(sent.map(|sent| Duration::from_nanos(now.saturating_sub(sent))));
        }
    });
    super::print_latencies(&samples);
}
