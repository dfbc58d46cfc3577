//! Two contenders on the same tasks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::paired::{
    Paired, bootstrap, mcnemar_exact, minimum_detectable_effect, paired_difference,
};
use super::rate::{Estimate, TaskCount, rates};

/// Number of samples of a bootstrap.
const SAMPLES: u32 = 10_000;

/// A task that one side solved more often than the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flip {
    /// The case.
    pub case: String,
    /// Share of passed trials of the first side.
    pub before: f64,
    /// Share of passed trials of the second side.
    pub after: f64,
}

/// The second side compared with the first, on the tasks that both have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of tasks that both sides have.
    pub tasks: usize,
    /// Tasks that only one side has. They are not compared.
    pub unmatched: Vec<String>,
    /// Share of passed trials of the first side: the mean over the common tasks.
    pub before: f64,
    /// The same of the second side.
    pub after: f64,
    /// Mean difference (second minus first) with its 95 % interval; `None` with one task.
    pub difference: Option<Paired>,
    /// The same interval by bootstrap over tasks; `None` if all tasks differ by the same.
    pub bootstrap: Option<Estimate>,
    /// p-value of the exact test of McNemar, if every task has one trial on each side.
    pub mcnemar_p: Option<f64>,
    /// Smallest true difference that these tasks would reveal with a chance of 80 %; `None` if all
    /// tasks differ by the same, so that nothing is known about their spread.
    pub minimum_detectable: Option<f64>,
    /// Tasks that became better.
    pub gained: Vec<Flip>,
    /// Tasks that became worse.
    pub lost: Vec<Flip>,
}

/// Compares two sides by task; `None` if they have no task in common.
#[must_use]
pub fn compare(
    before: &BTreeMap<String, TaskCount>,
    after: &BTreeMap<String, TaskCount>,
    seed: u64,
) -> Option<Comparison> {
    let scored = |side: &BTreeMap<String, TaskCount>, case: &str| {
        side.get(case).copied().filter(|it| it.trials > 0)
    };
    let all: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let (mut pairs, mut unmatched) = (Vec::new(), Vec::new());
    for case in all {
        match (scored(before, case), scored(after, case)) {
            (Some(one), Some(other)) => pairs.push((case.clone(), one, other)),
            _ => unmatched.push(case.clone()),
        }
    }
    let one: Vec<f64> = rates(&pairs.iter().map(|it| it.1).collect::<Vec<_>>());
    let other: Vec<f64> = rates(&pairs.iter().map(|it| it.2).collect::<Vec<_>>());
    let differences: Vec<f64> = one.iter().zip(&other).map(|(a, b)| b - a).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let difference = paired_difference(&differences);
    let flips = |sign: f64| {
        let tasks = pairs.iter().zip(one.iter().zip(&other));
        let tasks = tasks.filter(|(_, (a, b))| (*b - *a) * sign > 0.0);
        let flips = tasks.map(|((case, ..), (a, b))| Flip {
            case: case.clone(),
            before: *a,
            after: *b,
        });
        flips.collect::<Vec<_>>()
    };
    let (gained, lost) = (flips(1.0), flips(-1.0));
    let is_single = pairs.iter().all(|it| it.1.trials == 1 && it.2.trials == 1);
    (!pairs.is_empty()).then(|| Comparison {
        tasks: pairs.len(),
        unmatched,
        before: mean(&one),
        after: mean(&other),
        difference,
        // Samples of equal values are all equal, which says nothing about the next task.
        bootstrap: difference
            .filter(|it| it.standard_error > 0.0)
            .and_then(|_| bootstrap(&differences, SAMPLES, seed)),
        mcnemar_p: is_single.then(|| mcnemar_exact(lost.len() as u64, gained.len() as u64)),
        minimum_detectable: difference
            .filter(|it| it.standard_error > 0.0)
            .map(|it| minimum_detectable_effect(it.standard_error, it.tasks)),
        gained,
        lost,
    })
}
