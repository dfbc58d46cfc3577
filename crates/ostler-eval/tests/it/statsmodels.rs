//! The statistics against statsmodels and SciPy, on many random inputs.

use std::process::Command;

use ostler_eval::stats::{
    TaskCount, cluster_interval, inverse_normal, mcnemar_exact, paired_difference,
    student_t_quantile, wilson,
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

#[test]
fn statistics_are_those_of_statsmodels() {
    let python = std::env::var_os("OSTLER_TEST_STATSMODELS")
        .expect("run `cargo xtask test --with-statsmodels`");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference_values.py");
    let done = Command::new(python).arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    let values: Value = serde_json::from_slice(&done.stdout).unwrap();
    let number = |row: &Value, at: usize| row[at].as_f64().unwrap();
    let count = |value: &Value| value.as_u64().unwrap();
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
        let differences = row[0].as_array().unwrap().iter();
        let differences: Vec<f64> = differences.map(|it| it.as_f64().unwrap()).collect();
        let found = paired_difference(&differences).unwrap().difference;
        close(found.low, number(row, 1), row);
        close(found.high, number(row, 2), row);
    }
    for row in rows(&values, "clustered") {
        let tasks = row[0].as_array().unwrap().iter().map(|task| TaskCount {
            passed: count(&task[0]),
            trials: count(&task[1]),
        });
        let found = cluster_interval(&tasks.collect::<Vec<_>>()).unwrap();
        close(found.value, number(row, 1), row);
        close(found.low, number(row, 2), row);
        close(found.high, number(row, 3), row);
    }
}
