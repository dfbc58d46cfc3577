//! `cargo xtask bench sessions`: Ostler and other SDKs side by side, over the same scripted agents.
//!
//! Each round runs every measurement once, in another order, so that a busy moment of the machine
//! hits all of them alike. The report has medians, minima and the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::json;

/// Rounds by default, and with `--quick`.
const ROUNDS: usize = 10;
const QUICK_ROUNDS: usize = 3;

/// A row of the table: its name for the programs, its title, and whether a sample is the time of
/// the whole process (in ms) or printed by it.
struct Row {
    name: &'static str,
    title: &'static str,
    is_process_time: bool,
}

const fn row(name: &'static str, title: &'static str, is_process_time: bool) -> Row {
    Row {
        name,
        title,
        is_process_time,
    }
}

const ROWS: [Row; 6] = [
    row("cold", "cold run of 14 lines, ms", true),
    row("warm", "warm run of 5,003 lines, ms", false),
    row("mixed", "40 MB mixed, ms", false),
    row("latency", "line to event, µs", false),
    row("idle", "memory per idle session, KiB", false),
    row("many", "start 1,000 sessions, s; stop them, s", false),
];

/// A program that takes part, and the rows that it knows.
struct Contender {
    name: &'static str,
    program: PathBuf,
    before: Vec<String>,
    after: Vec<String>,
    rows: &'static [&'static str],
}

/// Runs all measurements and writes the report.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let dir = Path::new("target/bench");
    super::inputs::write(dir)?;
    let dir = dir.canonicalize()?;
    let contenders = contenders(&dir)?;
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
    let mut plan: Vec<(&Row, &Contender)> = ROWS
        .iter()
        .flat_map(|row| contenders.iter().map(move |contender| (row, contender)))
        .filter(|(row, contender)| contender.rows.contains(&row.name))
        .collect();
    let mut samples: BTreeMap<(&str, &str), Vec<Vec<f64>>> = BTreeMap::new();
    for round in 0..rounds {
        shuffle(&mut plan);
        for (row, contender) in &plan {
            eprintln!(
                "round {} of {rounds}: {} {}",
                round + 1,
                contender.name,
                row.name
            );
            let measured = measure(row, contender, &dir)?;
            let all = samples.entry((row.title, contender.name)).or_default();
            all.extend(measured);
        }
    }
    let facts = facts();
    println!(
        "{facts}\n\n| measurement | contender | median | min | 90% | samples |\n|---|---|---|---|---|---|"
    );
    let mut report = Vec::new();
    for row in &ROWS {
        for contender in &contenders {
            let Some(samples) = samples.get(&(row.title, contender.name)) else {
                continue;
            };
            let columns = samples.first().map_or(0, Vec::len);
            let columns: Vec<Summary> = (0..columns)
                .map(|at| Summary::of(samples.iter().filter_map(|it| it.get(at)).copied()))
                .collect();
            let show = |pick: fn(&Summary) -> f64| {
                let shown: Vec<String> = columns
                    .iter()
                    .map(|it| format!("{:.1}", pick(it)))
                    .collect();
                shown.join("; ")
            };
            let (median, min) = (show(|it| it.median), show(|it| it.min));
            let (title, name, count) = (row.title, contender.name, samples.len());
            println!(
                "| {title} | {name} | {median} | {min} | {} | {count} |",
                show(|it| it.p90)
            );
            report.push(json!({ "row": title, "contender": name, "samples": samples }));
        }
    }
    let path = dir.join("report.json");
    let report = json!({ "machine": facts, "rounds": rounds, "rows": report });
    std::fs::write(&path, serde_json::to_string(&report)?)?;
    println!("\nAll samples: {}", path.display());
    Ok(())
}

/// Builds Ostler's program and installs the others. One that cannot be installed is left out.
fn contenders(dir: &Path) -> Result<Vec<Contender>> {
    let ostler = build()?;
    let all: &[&str] = &["cold", "warm", "mixed", "latency", "idle", "many"];
    let own = |name, options: &[&str], rows| Contender {
        name,
        program: ostler.clone(),
        before: Vec::new(),
        after: options.iter().map(|option| (*option).to_owned()).collect(),
        rows,
    };
    let mut contenders = vec![
        own("Ostler", &[], all),
        own("Ostler, guard", &["guard"], &["cold", "idle", "many"]),
        own("Ostler, store", &["store"], &["cold", "warm", "latency"]),
    ];
    let sources = Path::new("xtask/bench").canonicalize()?;
    let source = |name: &str| sources.join(name).display().to_string();
    let peers: &[&str] = &["cold", "warm", "mixed", "latency"];
    match install_python(dir) {
        Ok(program) => contenders.push(Contender {
            name: "Python SDK",
            program,
            before: vec![source("peer.py")],
            after: Vec::new(),
            rows: peers,
        }),
        Err(error) => eprintln!("left out: Python SDK: {error:#}"),
    }
    match install_node(dir) {
        Ok(sdk) => contenders.push(Contender {
            name: "Node SDK",
            program: "node".into(),
            before: vec![source("peer.mjs")],
            after: vec![sdk.display().to_string()],
            rows: peers,
        }),
        Err(error) => eprintln!("left out: Node SDK: {error:#}"),
    }
    Ok(contenders)
}

/// Builds Ostler's side, and returns its path.
fn build() -> Result<PathBuf> {
    let output = Command::new("cargo")
        .args(["build", "--release", "--package", "ostler-cli", "--bench"])
        .args(["sessions", "--message-format=json"])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["target"]["name"] == "sessions")
        .find_map(|line| line["executable"].as_str().map(PathBuf::from));
    built.context("the benchmark does not build")
}

fn install_python(dir: &Path) -> Result<PathBuf> {
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    if !venv.join("installed").exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let install = ["-m", "pip", "install", "--quiet", "claude-agent-sdk"];
        succeed(Command::new(&python).args(install))?;
        std::fs::write(venv.join("installed"), "")?;
    }
    Ok(python)
}

fn install_node(dir: &Path) -> Result<PathBuf> {
    let node = dir.join("node");
    let sdk = node.join("node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs");
    if !sdk.exists() {
        std::fs::create_dir_all(&node)?;
        std::fs::write(node.join("package.json"), "{}")?;
        let install = ["install", "--no-audit", "--no-fund", "--ignore-scripts"];
        let package = "@anthropic-ai/claude-agent-sdk";
        succeed(
            Command::new("npm")
                .args(install)
                .arg(package)
                .current_dir(node),
        )?;
    }
    Ok(sdk)
}

fn succeed(command: &mut Command) -> Result<()> {
    if !command.stdout(Stdio::null()).status()?.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

/// Runs one measurement, and returns its samples; each can have several numbers.
fn measure(row: &Row, contender: &Contender, dir: &Path) -> Result<Vec<Vec<f64>>> {
    let mut command = Command::new(&contender.program);
    command.args(&contender.before).arg(row.name).arg(dir);
    command.args(&contender.after).stderr(Stdio::inherit());
    let begin = Instant::now();
    let output = command.output()?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        bail!("{} failed in {}", contender.name, row.name);
    }
    if row.is_process_time {
        return Ok(vec![vec![took]]);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = |line: &str| line.split_whitespace().flat_map(str::parse).collect();
    Ok(text.lines().map(numbers).collect())
}

/// Summary of the samples of one measurement.
struct Summary {
    median: f64,
    min: f64,
    p90: f64,
}

impl Summary {
    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let mut samples: Vec<f64> = samples.collect();
        samples.sort_by(f64::total_cmp);
        let at = |share: usize| {
            let at = samples.len() * share / 100;
            samples.get(at).copied().unwrap_or(f64::NAN)
        };
        Self {
            median: at(50),
            min: at(0),
            p90: at(90),
        }
    }
}

/// Shuffles with a generator that is good enough for an order of measurements.
fn shuffle<T>(items: &mut [T]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut state = now.map_or(1, |now| u64::from(now.subsec_nanos())) | 1;
    for at in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(at, usize::try_from(state % (at as u64 + 1)).unwrap_or(0));
    }
}

/// Describes the machine and the tree that was measured.
fn facts() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let load = read("/proc/loadavg").trim().to_owned();
    let commit = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    let commit = commit.map_or_else(
        |_| String::new(),
        |it| String::from_utf8_lossy(&it.stdout).trim().to_owned(),
    );
    format!("{cores} cores, kernel {kernel}, load {load}, commit {commit}.")
}
