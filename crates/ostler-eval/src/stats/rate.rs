//! Success rates and their intervals.

use serde::Serialize;

use super::distribution::student_t_quantile;

/// The 97.5 % quantile of the normal distribution: both tails of a 95 % interval.
pub(super) const Z95: f64 = 1.959_963_984_540_054;

/// An estimate with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The trials of one task: how many passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCount {
    /// Number of scored trials.
    pub trials: u64,
    /// Number of those that passed.
    pub passed: u64,
}

impl TaskCount {
    fn rate(self) -> f64 {
        self.passed as f64 / self.trials as f64
    }
}

/// Returns Wilson's interval of a proportion; `None` without trials.
#[must_use]
pub fn wilson(passed: u64, trials: u64) -> Option<Estimate> {
    (trials > 0).then(|| wilson_of(passed as f64 / trials as f64, trials as f64))
}

/// Wilson's interval for a proportion and a number of independent trials, which need not be whole.
fn wilson_of(value: f64, n: f64) -> Estimate {
    let z2 = Z95 * Z95;
    let center = (value + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let spread = value * (1.0 - value) / n + z2 / (4.0 * n * n);
    let half = Z95 / (1.0 + z2 / n) * spread.max(0.0).sqrt();
    // Rounding must not exclude the value at the ends.
    Estimate {
        value,
        low: (center - half).clamp(0.0, value),
        high: (center + half).clamp(value, 1.0),
    }
}

/// Returns the share of passed trials with a 95 % interval, clustered by task.
///
/// With one trial per task, it is Wilson's interval. Otherwise the cluster-robust standard error
/// gives the number of independent trials that these are worth, and Wilson's interval is taken for
/// that number: it stays between 0 and 1, and does not shrink to nothing if all tasks agree.
#[must_use]
pub fn cluster_interval(tasks: &[TaskCount]) -> Option<Estimate> {
    let tasks: Vec<TaskCount> = tasks.iter().copied().filter(|it| it.trials > 0).collect();
    let trials: u64 = tasks.iter().map(|it| it.trials).sum();
    let passed: u64 = tasks.iter().map(|it| it.passed).sum();
    if tasks.iter().all(|it| it.trials == 1) {
        return wilson(passed, trials);
    }
    let (value, n) = (passed as f64 / trials as f64, trials as f64);
    let clusters = tasks.len() as f64;
    let error = cluster_error(&tasks).unwrap_or(0.0);
    // Never more than the trials, and never fewer than the tasks: equal repetitions of a task are
    // worth at least one trial, and at most all of them.
    let worth = if error > 0.0 {
        let quantile = student_t_quantile(0.975, clusters - 1.0) / Z95;
        value * (1.0 - value) / (error * quantile).powi(2)
    } else {
        clusters
    };
    Some(wilson_of(value, worth.clamp(1.0, n)))
}

/// Returns the cluster-robust standard error of the share of passed trials, with the correction
/// for few clusters; `None` with fewer than two tasks.
#[must_use]
pub(super) fn cluster_error(tasks: &[TaskCount]) -> Option<f64> {
    let clusters = tasks.len() as f64;
    let n: f64 = tasks.iter().map(|it| it.trials as f64).sum();
    if tasks.len() < 2 {
        return None;
    }
    let mean = tasks.iter().map(|it| it.passed as f64).sum::<f64>() / n;
    let squares: f64 = tasks
        .iter()
        .map(|it| (it.passed as f64 - mean * it.trials as f64).powi(2))
        .sum();
    Some((squares * clusters / (clusters - 1.0)).sqrt() / n)
}

/// Returns the mean over tasks of the chance that at least one of `k` trials passes: the unbiased
/// estimate 1 − C(n−c, k)/C(n, k). `None` if a task has fewer than `k` trials.
#[must_use]
pub fn pass_at_k(tasks: &[TaskCount], k: u64) -> Option<f64> {
    mean_over(tasks, k, |task| {
        1.0 - ratio(task.trials - task.passed, task.trials, k)
    })
}

/// Returns the mean over tasks of the chance that all of `k` trials pass: C(c, k)/C(n, k). `None`
/// if a task has fewer than `k` trials.
#[must_use]
pub fn pass_hat_k(tasks: &[TaskCount], k: u64) -> Option<f64> {
    mean_over(tasks, k, |task| ratio(task.passed, task.trials, k))
}

fn mean_over(tasks: &[TaskCount], k: u64, of: impl Fn(&TaskCount) -> f64) -> Option<f64> {
    // Without the tasks that have fewer, the mean would be that of other tasks.
    let is_known = k > 0 && !tasks.is_empty() && tasks.iter().all(|task| task.trials >= k);
    is_known.then(|| tasks.iter().map(of).sum::<f64>() / tasks.len() as f64)
}

/// Returns C(some, k) / C(all, k), without computing either.
fn ratio(some: u64, all: u64, k: u64) -> f64 {
    if some < k {
        return 0.0;
    }
    (0..k)
        .map(|i| (some - i) as f64 / (all - i) as f64)
        .product()
}

/// The share of passed trials of each task.
pub(super) fn rates(tasks: &[TaskCount]) -> Vec<f64> {
    let scored = tasks.iter().filter(|it| it.trials > 0);
    scored.map(|it| it.rate()).collect()
}
