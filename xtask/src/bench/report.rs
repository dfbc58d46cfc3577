//! The report: every sample of a run, and what is computed from them.

use serde::{Deserialize, Serialize};

use super::contenders::{OSTLER, PEERS};
use super::machine::Machine;
use super::rows::{Goal, LIKE, Row};

/// Everything that a run of the benchmark found out.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) is_quick: bool,
    pub(super) versions: Vec<String>,
    /// Contenders that could not be installed or failed, with the reason.
    pub(super) left_out: Vec<String>,
    pub(super) series: Vec<Series>,
    pub(super) growth: Vec<Growth>,
    pub(super) readers: Vec<Readers>,
}

/// Samples of one contender in one measurement. A sample has a number per row.
#[derive(Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) measurement: String,
    pub(super) contender: String,
    pub(super) samples: Vec<Vec<f64>>,
}

/// The time of a run at several sizes.
#[derive(Serialize, Deserialize)]
pub(super) struct Growth {
    pub(super) what: String,
    pub(super) shape: Shape,
    pub(super) points: Vec<Point>,
    /// The least that any program takes at the same sizes; empty if that does not grow.
    #[serde(default)]
    pub(super) floor: Vec<Point>,
}

/// The expected growth.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Linear,
    Flat,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) size: usize,
    pub(super) ms: Vec<f64>,
}

/// A run with several readers.
#[derive(Serialize, Deserialize)]
pub(super) struct Readers {
    pub(super) readers: u64,
    pub(super) events: f64,
    pub(super) lost: f64,
    pub(super) ms: f64,
}

/// Whether a goal is met.
pub(super) struct Verdict {
    pub(super) contender: &'static str,
    pub(super) goal: &'static Goal,
    pub(super) median: f64,
    pub(super) is_met: bool,
}

impl Report {
    pub(super) fn new(machine: Machine, is_quick: bool) -> Self {
        Self {
            machine,
            is_quick,
            versions: Vec::new(),
            left_out: Vec::new(),
            series: Vec::new(),
            growth: Vec::new(),
            readers: Vec::new(),
        }
    }

    /// Returns the summary of a contender in a row, if it took part.
    pub(super) fn summary(&self, row: &Row, contender: &str) -> Option<Summary> {
        self.summary_of(row.measurement, row.column, contender)
    }

    fn summary_of(&self, measurement: &str, column: usize, contender: &str) -> Option<Summary> {
        let series = self
            .series
            .iter()
            .find(|it| it.measurement == measurement && it.contender == contender)?;
        let samples = series.samples.iter();
        Summary::of(samples.filter_map(|sample| sample.get(column)).copied())
    }

    /// Returns how many times faster (or smaller) Ostler is than a peer.
    pub(super) fn ratio(&self, row: &Row, peer: &str) -> Option<f64> {
        let own = self.summary(row, OSTLER)?.median;
        let other = self.summary(row, peer)?.median;
        let ratio = if row.is_speed() {
            own / other
        } else {
            other / own
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Returns the ratio to the best peer.
    pub(super) fn best_ratio(&self, row: &Row) -> Option<f64> {
        let ratios = PEERS.iter().filter_map(|peer| self.ratio(row, peer));
        ratios.min_by(f64::total_cmp)
    }

    /// Compares a row's medians with its goals.
    pub(super) fn verdicts(&self, row: &Row) -> Vec<Verdict> {
        let verdict = |(contender, goal): &'static (&'static str, Goal)| {
            let median = self.summary(row, contender)?.median;
            let is_met = match goal {
                Goal::AtMost(most) => median <= *most,
                Goal::AtLeast(least) => median >= *least,
                Goal::Like(other) => median <= self.summary_of(other, 0, contender)?.median * LIKE,
            };
            Some(Verdict {
                contender,
                goal,
                median,
                is_met,
            })
        };
        row.goals.iter().filter_map(verdict).collect()
    }
}

impl Point {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            ms: Vec::new(),
        }
    }

    pub(super) fn median(&self) -> f64 {
        Summary::of(self.ms.iter().copied()).map_or(f64::NAN, |it| it.median)
    }
}

impl Growth {
    /// Returns the factor between the last two sizes per unit (linear), or between the first and
    /// the last size (flat), relative to the growth of the floor if there is one. One means that
    /// the expectation holds exactly.
    pub(super) fn factor(&self) -> f64 {
        let floor = Some(self.factor_of(&self.floor)).filter(|floor| *floor > 1.0);
        self.factor_of(&self.points) / floor.unwrap_or(1.0)
    }

    fn factor_of(&self, points: &[Point]) -> f64 {
        let [first, .., before, last] = points else {
            return f64::NAN;
        };
        match self.shape {
            Shape::Flat => last.median() / first.median(),
            Shape::Linear => {
                let each = |point: &Point| point.median() / point.size as f64;
                each(last) / each(before)
            }
        }
    }
}

/// Summary of the samples of one measurement.
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Summary {
    fn of(samples: impl Iterator<Item = f64>) -> Option<Self> {
        let mut samples: Vec<f64> = samples.collect();
        samples.sort_by(f64::total_cmp);
        Some(Self {
            median: *samples.get(samples.len() / 2)?,
            min: *samples.first()?,
            max: *samples.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_compared_with_the_expected_shape() {
        let growth_points = |ms: [f64; 3]| -> Vec<Point> {
            let points = [(10, ms[0]), (100, ms[1]), (1_000, ms[2])];
            points.map(|(size, ms)| Point { size, ms: vec![ms] }).into()
        };
        let growth = |shape, ms: [f64; 3]| Growth {
            what: String::new(),
            shape,
            points: growth_points(ms),
            floor: Vec::new(),
        };
        let factor = |shape, ms| growth(shape, ms).factor();
        assert!((factor(Shape::Linear, [9.0, 20.0, 200.0]) - 1.0).abs() < 1e-9);
        assert!((factor(Shape::Linear, [2.0, 20.0, 400.0]) - 2.0).abs() < 1e-9);
        assert!((factor(Shape::Flat, [2.0, 2.0, 3.0]) - 1.5).abs() < 1e-9);
        // A floor that grows likewise explains the growth; one that shrinks does not add to it.
        for (floor, expected) in [([1.0, 1.0, 1.5], 1.0), ([2.0, 1.0, 1.0], 1.5)] {
            let mut growth = growth(Shape::Flat, [2.0, 2.0, 3.0]);
            growth.floor = growth_points(floor);
            assert!((growth.factor() - expected).abs() < 1e-9, "{floor:?}");
        }
    }
}
