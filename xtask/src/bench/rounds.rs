//! Rounds of measurements: each runs every contender, in another order, so that a busy moment of
//! the machine hits all of them alike.

use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::Options;
use super::contenders::{Bench, Contender, GUARD, OSTLER, STORE};
use super::crowd::Crowd;
use super::report::Series;
use super::rows;

/// Number of processes that the rows `crowded-…` add.
const CROWD: usize = 2000;

/// Time after which a contender counts as failed.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Rounds, processes per round for rows that time a process, and runs inside a process.
struct Effort {
    rounds: usize,
    repeats: usize,
    runs: usize,
    long_runs: usize,
}

const FULL: Effort = Effort {
    rounds: 10,
    repeats: 5,
    runs: 11,
    long_runs: 5,
};
const QUICK: Effort = Effort {
    rounds: 2,
    repeats: 4,
    runs: 6,
    long_runs: 2,
};

impl Effort {
    fn repeats(&self, measurement: &str) -> usize {
        if rows::is_process_time(measurement) {
            self.repeats
        } else {
            1
        }
    }

    fn runs(&self, measurement: &str) -> usize {
        if measurement == "warm" {
            self.runs
        } else {
            self.long_runs
        }
    }
}

type Step<'a> = (&'static str, &'a Contender);

/// Makes all rounds of the chosen measurements. A contender that fails is left out from then on.
pub(super) fn measure(
    bench: &Bench,
    options: &Options,
    left_out: &mut Vec<String>,
) -> Result<Vec<Series>> {
    let effort = if options.is_quick { QUICK } else { FULL };
    let mut plan: Vec<Step<'_>> = rows::measurements()
        .filter(|(name, _)| options.wants(name))
        .flat_map(|(name, _)| bench.contenders.iter().map(move |it| (name, it)))
        .filter(|(name, contender)| contender.measurements.contains(name))
        .flat_map(|step| std::iter::repeat_n(step, effort.repeats(step.0)))
        .collect();
    let mut all: Vec<Series> = Vec::new();
    for round in 1..=effort.rounds {
        eprintln!("round {round} of {}", effort.rounds);
        shuffle(&mut plan);
        let (crowded, alone): (Vec<_>, Vec<_>) =
            plan.iter().partition(|step| rows::is_crowded(step.0));
        let mut failed = Vec::new();
        let crowd = if crowded.is_empty() { 0 } else { CROWD };
        for (steps, crowd) in [(alone, 0), (crowded, crowd)] {
            let _crowd = (crowd > 0).then(|| Crowd::start(crowd)).transpose()?;
            for (measurement, contender) in steps {
                let command = bench.command(contender, measurement, effort.runs(measurement));
                match sample(command, rows::is_process_time(measurement)) {
                    Ok(samples) => add(&mut all, (measurement, contender), samples),
                    Err(error) if [OSTLER, GUARD, STORE].contains(&contender.name) => {
                        return Err(error.context(format!("{} in {measurement}", contender.name)));
                    }
                    Err(error) => {
                        let failure = format!("{} in {measurement}: {error:#}", contender.name);
                        eprintln!("left out: {failure}");
                        left_out.push(failure);
                        failed.push((measurement, contender.name));
                    }
                }
            }
        }
        plan.retain(|step| !failed.contains(&(step.0, step.1.name)));
    }
    left_out.dedup();
    Ok(all)
}

fn add(all: &mut Vec<Series>, (measurement, contender): Step<'_>, samples: Vec<Vec<f64>>) {
    let known = all
        .iter_mut()
        .find(|it| it.measurement == measurement && it.contender == contender.name);
    match known {
        Some(series) => series.samples.extend(samples),
        None => all.push(Series {
            measurement: measurement.to_owned(),
            contender: contender.name.to_owned(),
            samples,
        }),
    }
}

/// Runs a command, and returns its samples: its time in ms, or the numbers on each line it prints.
pub(super) fn sample(mut command: Command, is_process_time: bool) -> Result<Vec<Vec<f64>>> {
    command.stdout(if is_process_time {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    let begin = Instant::now();
    let child = command.spawn()?;
    let _limit = Limit::start(child.id());
    let output = child.wait_with_output()?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        bail!("{}", output.status);
    }
    if is_process_time {
        return Ok(vec![vec![took]]);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = |line: &str| line.split_whitespace().flat_map(str::parse).collect();
    Ok(text.lines().map(numbers).collect())
}

/// Ends a child that takes too long. A contender may hang with a version that is new to us.
struct Limit {
    /// Closed when the child has exited.
    _running: Sender<()>,
}

impl Limit {
    fn start(child: u32) -> Self {
        let (running, exited) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if exited.recv_timeout(TIME_LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("no result after {} s", TIME_LIMIT.as_secs());
                let _ = Command::new("kill").arg(child.to_string()).status();
            }
        });
        Self { _running: running }
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
