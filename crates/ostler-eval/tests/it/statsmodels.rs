//! The statistics against statsmodels and SciPy, on many random inputs.

use std::process::Command;

use ostler_eval::stats::{
    TaskCount, bootstrap, cluster_interval, inverse_normal, mcnemar_exact,
    minimum_detectable_effect, paired_difference, pass_at_k, pass_hat_k, student_t_quantile,
    wilson,
};
use serde_json::Value;

fn close(found: f64, expected: f64, what: &Value) {
    let error = (found - expected).abs();
    assert!(
        error <= 1e-8 * expected.abs().max(1.0),
        "{found} instead of {expected}: {what}"
    );
}

fn rows<'a>(values: &'a Value, name: &str) -> &'a [Value] {
    let rows = values[name].as_array().unwrap();
    assert!(rows.len() > 20, "{name}");
    rows
}

fn number(row: &Value, at: usize) -> f64 {
    row[at].as_f64().unwrap()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn numbers(values: &Value) -> Vec<f64> {
    let values = values.as_array().unwrap().iter();
    values.map(|it| it.as_f64().unwrap()).collect()
}

fn tasks(values: &Value) -> Vec<TaskCount> {
    let tasks = values.as_array().unwrap().iter().map(|task| TaskCount {
        passed: count(&task[0]),
        trials: count(&task[1]),
    });
    tasks.collect()
}

/// Returns the values that the script prints.
fn reference_values() -> Value {
    let Some(python) = std::env::var_os("OSTLER_TEST_STATSMODELS") else {
        panic!("run `cargo xtask test --with-statsmodels`");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference_values.py");
    let done = Command::new(python).arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn statistics_are_those_of_statsmodels() {
    let values = reference_values();
    for row in rows(&values, "wilson") {
        let found = wilson(count(&row[0]), count(&row[1])).unwrap();
        close(found.low, number(row, 2), row);
        close(found.high, number(row, 3), row);
    }
    for row in rows(&values, "mcnemar") {
        let found = mcnemar_exact(count(&row[0]), count(&row[1]));
        close(found, number(row, 2), row);
    }
    for row in rows(&values, "t") {
        let found = student_t_quantile(number(row, 0), number(row, 1));
        close(found, number(row, 2), row);
    }
    for row in rows(&values, "normal") {
        close(inverse_normal(number(row, 0)), number(row, 1), row);
    }
    for row in rows(&values, "paired") {
        let found = paired_difference(&numbers(&row[0])).unwrap().difference;
        close(found.low, number(row, 1), row);
        close(found.high, number(row, 2), row);
    }
    for row in rows(&values, "clustered") {
        let found = cluster_interval(&tasks(&row[0])).unwrap();
        close(found.value, number(row, 1), row);
        close(found.low, number(row, 2), row);
        close(found.high, number(row, 3), row);
    }
    for row in rows(&values, "pass_k") {
        let (tasks, k) = (tasks(&row[0]), count(&row[1]));
        close(pass_at_k(&tasks, k).unwrap(), number(row, 2), row);
        close(pass_hat_k(&tasks, k).unwrap(), number(row, 3), row);
    }
}

// Two bootstraps draw other samples, and the effect is an approximation of the noncentral t.
#[test]
fn approximations_are_close_to_those_of_statsmodels() {
    let values = reference_values();
    for row in rows(&values, "bootstrap") {
        let found = bootstrap(&numbers(&row[0]), 10_000, 7).unwrap();
        close(found.value, number(row, 1), row);
        for (bound, expected) in [(found.low, number(row, 2)), (found.high, number(row, 3))] {
            assert!((bound - expected).abs() < 0.03, "{bound} {expected}: {row}");
        }
    }
    for row in rows(&values, "effect") {
        let tasks = usize::try_from(count(&row[0])).unwrap();
        let ratio = minimum_detectable_effect(1.0, tasks) / number(row, 1);
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}: {row}");
    }
}
