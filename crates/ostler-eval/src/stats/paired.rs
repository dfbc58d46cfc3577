//! Comparisons of two contenders on the same tasks.

use serde::Serialize;

use super::distribution::{beta_quantile, ln_gamma, student_t_quantile};
use super::rate::Estimate;

/// A paired difference of success rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Paired {
    /// The mean difference and its 95 % interval.
    pub difference: Estimate,
    /// Standard error of the mean difference.
    pub standard_error: f64,
    /// Number of tasks.
    pub tasks: usize,
}

/// Returns the mean of differences with a 95 % t interval; `None` with fewer than two tasks.
///
/// If every task is won, lost or tied as a whole, the interval also covers the exact one of the
/// sign test: it excludes 0 only if the exact test of McNemar is significant at 5 %.
#[must_use]
pub fn paired_difference(differences: &[f64]) -> Option<Paired> {
    let tasks = differences.len();
    if tasks < 2 {
        return None;
    }
    let n = tasks as f64;
    let value = differences.iter().sum::<f64>() / n;
    let variance = differences
        .iter()
        .map(|it| (it - value).powi(2))
        .sum::<f64>()
        / (n - 1.0);
    let standard_error = (variance / n).sqrt();
    // Tasks that all agree do not prove that the next one does. Of `n` tasks without a change, the
    // share of changes is at most this, with 95 % confidence. If all tasks changed by the same, the
    // sign test says how sure the direction is.
    let half = if standard_error > 0.0 {
        student_t_quantile(0.975, n - 1.0) * standard_error
    } else if value == 0.0 {
        1.0 - 0.05_f64.powf(1.0 / n)
    } else {
        value.abs() * 2.0 * (1.0 - 0.025_f64.powf(1.0 / n))
    };
    let (mut low, mut high) = (value - half, value + half);
    if let Some((exact_low, exact_high)) = sign_interval(differences) {
        low = low.min(exact_low);
        high = high.max(exact_high);
    }
    Some(Paired {
        difference: Estimate {
            value,
            low: low.max(-1.0),
            high: high.min(1.0),
        },
        standard_error,
        tasks,
    })
}

/// Returns the exact 95 % interval of the difference, given the number of tasks that changed: that
/// of Clopper and Pearson for the share of gains among them. `None` if no task changed, or one
/// changed only in part.
fn sign_interval(differences: &[f64]) -> Option<(f64, f64)> {
    let is_whole = |it: &f64| *it == 0.0 || it.abs() == 1.0;
    if !differences.iter().all(is_whole) {
        return None;
    }
    let count = |sign: f64| differences.iter().filter(|it| **it == sign).count() as f64;
    let (gained, lost) = (count(1.0), count(-1.0));
    let changed = gained + lost;
    if changed == 0.0 {
        return None;
    }
    let low = match gained {
        0.0 => 0.0,
        _ => beta_quantile(0.025, gained, lost + 1.0),
    };
    let high = match lost {
        0.0 => 1.0,
        _ => beta_quantile(0.975, gained + 1.0, lost),
    };
    let share = changed / differences.len() as f64;
    Some(((2.0 * low - 1.0) * share, (2.0 * high - 1.0) * share))
}

/// Returns the two-sided p-value of the exact test of McNemar, for the numbers of tasks that only
/// one side and only the other side solved.
#[must_use]
pub fn mcnemar_exact(only_one: u64, only_other: u64) -> f64 {
    let n = only_one + only_other;
    if n == 0 {
        return 1.0;
    }
    let ln_choose = |k: u64| {
        let ln_factorial = |x: u64| ln_gamma(x as f64 + 1.0);
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    };
    let half = -(n as f64) * std::f64::consts::LN_2;
    let tail: f64 = (0..=only_one.min(only_other))
        .map(|k| (ln_choose(k) + half).exp())
        .sum();
    (2.0 * tail).min(1.0)
}

/// Returns the 95 % percentile interval of the mean by bootstrap over tasks. The same seed gives
/// the same interval.
#[must_use]
pub fn bootstrap(values: &[f64], samples: u32, seed: u64) -> Option<Estimate> {
    let n = values.len();
    if n < 2 || samples == 0 {
        return None;
    }
    let mut random = SplitMix(seed);
    let mut means: Vec<f64> = (0..samples)
        .map(|_| {
            let sum: f64 = (0..n).map(|_| values[random.below(n)]).sum();
            sum / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Estimate {
        value: values.iter().sum::<f64>() / n as f64,
        low: super::summary::quantile(&means, 0.025)?,
        high: super::summary::quantile(&means, 0.975)?,
    })
}

/// Returns the smallest true difference that a t test at 5 % finds with a chance of about 80 %, for
/// a standard error and a number of tasks.
#[must_use]
pub fn minimum_detectable_effect(standard_error: f64, tasks: usize) -> f64 {
    let df = tasks.saturating_sub(1) as f64;
    (student_t_quantile(0.975, df) + student_t_quantile(0.8, df)) * standard_error
}

/// The generator `SplitMix64`: small, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`. The bias is below n / 2^64.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}
