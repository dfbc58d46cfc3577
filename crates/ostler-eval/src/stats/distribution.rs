//! Quantiles of the normal distribution and of Student's t.

use std::f64::consts::TAU;

/// Half of a full turn in radians.
const HALF_TURN: f64 = TAU / 2.0;

/// Returns the quantile of the standard normal distribution.
///
/// Acklam's rational approximation, refined by one step of Halley's method.
#[must_use]
pub fn inverse_normal(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let x = approximate_inverse_normal(p);
    let error = normal_cdf(x) - p;
    let step = error * TAU.sqrt() * (x * x / 2.0).exp();
    x - step / (1.0 + x * step / 2.0)
}

fn approximate_inverse_normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [
        7.784695709041462e-3,
        3.224671290700398e-1,
        2.445134137142996,
        3.754408661907416,
    ];
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    if p < 0.02425 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.02425 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// Returns the distribution function of the standard normal distribution, by the incomplete gamma
/// function.
fn normal_cdf(x: f64) -> f64 {
    let half = regularized_gamma(x * x / 2.0) / 2.0;
    if x >= 0.0 { 0.5 + half } else { 0.5 - half }
}

/// Returns P(1/2, x), which is erf(sqrt(x)).
fn regularized_gamma(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let scale = (-x + 0.5 * x.ln()).exp() / HALF_TURN.sqrt();
    if x < 1.5 {
        let (mut term, mut sum, mut n) = (2.0, 2.0, 0.5);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return sum * scale;
    }
    // The continued fraction of the upper part, by Lentz's method.
    let mut b = x + 0.5;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut h = d;
    for i in 1..500 {
        let a = -f64::from(i) * (f64::from(i) - 0.5);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - scale * h
}

/// Returns the quantile of Student's t distribution with `df` degrees of freedom.
#[must_use]
pub fn student_t_quantile(p: f64, df: f64) -> f64 {
    if df < 1.0 || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if (p - 0.5).abs() < f64::EPSILON {
        return 0.0;
    }
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, df);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_t_cdf(high, df) < p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if student_t_cdf(middle, df) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

fn student_t_cdf(t: f64, df: f64) -> f64 {
    let tail = incomplete_beta(df / (df + t * t), df / 2.0, 0.5) / 2.0;
    if t >= 0.0 { 1.0 - tail } else { tail }
}

/// Returns the quantile of the beta distribution, by bisection.
pub(super) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if incomplete_beta(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns the regularized incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

/// Returns ln Γ(x) by Lanczos' approximation (g = 7, nine terms).
pub(super) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (HALF_TURN / (HALF_TURN * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let rest = TERMS.iter().enumerate().skip(1);
    let sum = rest.fold(TERMS[0], |sum, (index, term)| {
        sum + term / (x + index as f64)
    });
    let t = x + 7.5;
    0.5 * TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}
