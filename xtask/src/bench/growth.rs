//! Growth: the time of a run against the size of its input and of its surroundings.

use anyhow::Result;

use super::contenders::{Bench, succeed};
use super::crowd::Crowd;
use super::inputs;
use super::report::{Growth, Point, Shape};
use super::rounds::sample;

const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;

/// Runs of `ostler run` per round.
const RUNS: usize = 5;

/// A quantity that grows.
#[derive(Clone, Copy)]
enum Subject {
    Events,
    Turns,
    Sessions,
    Processes,
    Stored,
}

impl Subject {
    const ALL: [Self; 5] = [
        Self::Events,
        Self::Turns,
        Self::Sessions,
        Self::Processes,
        Self::Stored,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Events => "events of a run",
            Self::Turns => "turns of a session",
            Self::Sessions => "sessions at once, started and stopped",
            Self::Processes => "more processes on the machine, `ostler run`",
            Self::Stored => "sessions in the store, `ostler run`",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Events | Self::Turns | Self::Sessions => Shape::Linear,
            Self::Processes | Self::Stored => Shape::Flat,
        }
    }

    fn sizes(self, is_quick: bool) -> &'static [usize] {
        match self {
            Self::Events => &inputs::EVENTS,
            Self::Turns | Self::Sessions => &[10, 100, 1_000],
            Self::Processes => &[0, 500, 2_000],
            Self::Stored if is_quick => &[10, 100, 1_000],
            Self::Stored => &[10, 100, 1_000, 10_000],
        }
    }

    /// Measures the milliseconds of one or several runs, and of the floor if it can grow too.
    fn measure(self, bench: &Bench, point: &mut Point, floor: &mut Point) -> Result<()> {
        let size = point.size;
        let number = size.to_string();
        let own = |row| sample(bench.sessions(row, 1, &[&number]), false);
        let run = |store| {
            let samples = (0..RUNS).map(|_| sample(bench.run(store, "short"), true));
            samples.collect::<Result<Vec<_>>>()
        };
        let samples = match self {
            Self::Events => own("events")?.concat(),
            Self::Turns => own("turns")?.concat(),
            Self::Sessions => {
                let seconds: f64 = own("many")?.iter().flatten().sum();
                vec![seconds * 1e3]
            }
            Self::Processes => {
                let _crowd = Crowd::start(size)?;
                for _ in 0..RUNS {
                    floor
                        .ms
                        .extend(sample(bench.script("short"), true)?.concat());
                    point
                        .ms
                        .extend(sample(bench.run(None, "short"), true)?.concat());
                }
                return Ok(());
            }
            Self::Stored => run(Some(&store_name(size)))?.concat().concat(),
        };
        point.ms.extend(samples);
        Ok(())
    }
}

/// Measures all quantities, the sizes of each in turn.
pub(super) fn measure(bench: &Bench, is_quick: bool) -> Result<Vec<Growth>> {
    let rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
    for size in Subject::Stored.sizes(is_quick) {
        let options = [&*store_name(*size), &*size.to_string()];
        succeed(&mut bench.sessions("fill", 1, &options))?;
    }
    let mut all = Vec::new();
    for subject in Subject::ALL {
        eprintln!("growth: {}", subject.title());
        let sizes = subject.sizes(is_quick).iter();
        let mut points: Vec<Point> = sizes.map(|size| Point::new(*size)).collect();
        let mut floor: Vec<Point> = points.iter().map(|it| Point::new(it.size)).collect();
        for _ in 0..rounds {
            for (point, floor) in points.iter_mut().zip(&mut floor) {
                subject.measure(bench, point, floor)?;
            }
        }
        floor.retain(|point| !point.ms.is_empty());
        all.push(Growth {
            what: subject.title().to_owned(),
            shape: subject.shape(),
            points,
            floor,
        });
    }
    Ok(all)
}

fn store_name(sessions: usize) -> String {
    format!("store-{sessions}")
}
