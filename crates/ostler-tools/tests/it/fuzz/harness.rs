//! Runs a target until its time is up, and reports the number of inputs and those that broke an
//! invariant.

use std::fmt::Debug;
use std::fs::File;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::random::Random;

/// Default duration of a target: short, for the regular tests.
const DEFAULT_DURATION: Duration = Duration::from_secs(1);

/// Number of failures after which a target stops.
const MAX_FAILURES: usize = 10;

/// Maximum length of a reported failure; the case can be replayed.
const MAX_FAILURE_BYTES: usize = 2000;

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(15);

/// Options from the environment; `cargo xtask fuzz` sets them.
struct Options {
    time: Duration,
    seed: u64,
    case: Option<u64>,
    report: Option<PathBuf>,
}

impl Options {
    fn from_environment() -> Self {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .map(|text| text.parse::<u64>().unwrap())
        };
        Self {
            time: number("OSTLER_FUZZ_SECONDS").map_or(DEFAULT_DURATION, Duration::from_secs),
            seed: number("OSTLER_FUZZ_SEED").unwrap_or(1),
            case: number("OSTLER_FUZZ_CASE"),
            report: std::env::var_os("OSTLER_FUZZ_REPORT").map(PathBuf::from),
        }
    }
}

/// Runs a target: generates inputs and checks each. Every case is generated from the seed and its
/// number, so that it can be replayed alone.
pub(super) fn campaign<I: Debug>(
    target: &str,
    mut make: impl FnMut(&mut Random) -> I,
    mut check: impl FnMut(&I) -> Result<(), String>,
) {
    let plan = Options::from_environment();
    let (started, mut last_progress) = (Instant::now(), Instant::now());
    let (mut inputs, mut finds) = (0, Vec::new());
    for case in plan.case.map_or(0..u64::MAX, |case| case..case + 1) {
        if plan.case.is_none() && started.elapsed() >= plan.time && inputs > 0 {
            break;
        }
        let input = make(&mut Random::of_case(plan.seed, case));
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| check(&input)));
        inputs += 1;
        if let Err(why) = result.unwrap_or_else(|panic| Err(panic_message(&*panic))) {
            let mut find = format!(
                "target {target}, seed {}, case {case}: {why}\n  input: {input:?}",
                plan.seed
            );
            find.truncate(find.floor_char_boundary(MAX_FAILURE_BYTES));
            log(&format!("find: {find}"));
            finds.push(find);
        }
        if finds.len() >= MAX_FAILURES {
            break;
        }
        if plan.report.is_some() && last_progress.elapsed() >= PROGRESS {
            last_progress = Instant::now();
            let (seconds, all) = (started.elapsed().as_secs(), plan.time.as_secs());
            log(&format!(
                "{target}: {inputs} inputs, {} findings, {seconds} of {all} s",
                finds.len()
            ));
        }
    }
    if let Some(report) = &plan.report {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(report)
            .unwrap();
        writeln!(
            file,
            "{target}\t{inputs}\t{}\t{}",
            started.elapsed().as_secs(),
            finds.len()
        )
        .unwrap();
    }
    assert!(
        finds.is_empty(),
        "{} finds in {inputs} inputs:\n{}",
        finds.len(),
        finds.join("\n")
    );
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("without a message"))
}

fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "fuzz: {line}");
}

/// Returns the seeds of a target: `fixtures/fuzz/NAME`, a JSON string on each line.
pub(super) fn seeds(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    assert!(!text.is_empty(), "{name}: no seeds");
    text.lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {line}: {error}"))
        })
        .collect()
}

/// Returns the seeds of a target whose inputs are files: every file in `fixtures/fuzz/NAME`.
pub(super) fn files(name: &str) -> Vec<String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(fixtures().join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!paths.is_empty(), "{name}: no seeds");
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz")
}
