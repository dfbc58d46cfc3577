//! Runs a target until its time is over, and reports: how many inputs, and which of them broke an invariant.

use std::fmt::Debug;
use std::fs::File;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::random::Random;

/// How long a target runs when nobody says otherwise: a moment among the usual tests.
const USUAL: Duration = Duration::from_secs(1);

/// After so many finds a target stops: there is enough to do.
const ENOUGH: usize = 10;

/// How much of a find is shown; the case can be replayed.
const LONGEST: usize = 2000;

/// How often a campaign says how far it is.
const PROGRESS: Duration = Duration::from_secs(15);

/// What the environment asks for; `cargo xtask fuzz` sets it.
struct Plan {
    time: Duration,
    seed: u64,
    case: Option<u64>,
    report: Option<PathBuf>,
}

impl Plan {
    fn of_environment() -> Self {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .map(|text| text.parse::<u64>().unwrap())
        };
        Self {
            time: number("OSTLER_FUZZ_SECONDS").map_or(USUAL, Duration::from_secs),
            seed: number("OSTLER_FUZZ_SEED").unwrap_or(1),
            case: number("OSTLER_FUZZ_CASE"),
            report: std::env::var_os("OSTLER_FUZZ_REPORT").map(PathBuf::from),
        }
    }
}

/// Runs a target: makes inputs and checks each. Every case is made anew from the seed and its number, so that one can be
/// replayed alone.
pub(super) fn campaign<I: Debug>(
    target: &str,
    mut make: impl FnMut(&mut Random) -> I,
    mut check: impl FnMut(&I) -> Result<(), String>,
) {
    let plan = Plan::of_environment();
    let (began, mut said) = (Instant::now(), Instant::now());
    let (mut inputs, mut finds) = (0, Vec::new());
    for case in plan.case.map_or(0..u64::MAX, |case| case..case + 1) {
        if plan.case.is_none() && began.elapsed() >= plan.time && inputs > 0 {
            break;
        }
        let input = make(&mut Random::of_case(plan.seed, case));
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| check(&input)));
        inputs += 1;
        if let Err(why) = result.unwrap_or_else(|panic| Err(said_by(&*panic))) {
            let mut find = format!(
                "target {target}, seed {}, case {case}: {why}\n  input: {input:?}",
                plan.seed
            );
            find.truncate(find.floor_char_boundary(LONGEST));
            say(&format!("find: {find}"));
            finds.push(find);
        }
        if finds.len() >= ENOUGH {
            break;
        }
        if plan.report.is_some() && said.elapsed() >= PROGRESS {
            said = Instant::now();
            let (seconds, all) = (began.elapsed().as_secs(), plan.time.as_secs());
            say(&format!(
                "{target}: {inputs} inputs, {} finds, {seconds} of {all} s",
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
            began.elapsed().as_secs(),
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

fn said_by(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("without a word"))
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "fuzz: {line}");
}

/// The seeds of a target: `fixtures/fuzz/NAME`, a JSON string on each line.
pub(super) fn seeds(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    assert!(!text.is_empty(), "{name}: there is no seed");
    text.lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {line}: {error}"))
        })
        .collect()
}

/// The seeds of a target whose inputs are files: every file in `fixtures/fuzz/NAME`.
pub(super) fn files(name: &str) -> Vec<String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(fixtures().join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!paths.is_empty(), "{name}: there is no seed");
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz")
}
