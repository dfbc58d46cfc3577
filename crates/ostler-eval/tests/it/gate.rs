//! Gates: requirements on figures, and regressions against a baseline.

use ostler_eval::gate::{Gate, Metric, Operator, Requirement, check, parse_regression};

use crate::results::run;

fn require(text: &str) -> Requirement {
    text.parse().unwrap()
}

#[test]
fn requirements_are_read() {
    for (text, metric, operator, value, contender) in [
        (
            "pass@1 >= 0.8",
            Metric::PassAt(1),
            Operator::AtLeast,
            0.8,
            None,
        ),
        ("pass@3>80%", Metric::PassAt(3), Operator::Above, 0.8, None),
        (
            "pass^2 >= .5",
            Metric::PassHat(2),
            Operator::AtLeast,
            0.5,
            None,
        ),
        ("cost_usd <= 2", Metric::Cost, Operator::AtMost, 2.0, None),
        (
            "wall_p95 < 60",
            Metric::WallP95,
            Operator::Below,
            60.0,
            None,
        ),
        (
            "infrastructure == 0",
            Metric::Infrastructure,
            Operator::Equal,
            0.0,
            None,
        ),
        (
            "pass@1[a/b >=] >= 1",
            Metric::PassAt(1),
            Operator::AtLeast,
            1.0,
            Some("a/b >="),
        ),
    ] {
        let found = require(text);
        assert_eq!(
            (found.metric, found.operator, found.value),
            (metric, operator, value)
        );
        assert_eq!(found.contender.as_deref(), contender);
    }
    for (text, part) in [
        ("pass@1", "no operator"),
        ("pas@1 >= 1", "did you mean pass@1"),
        ("pass@0 >= 1", "is not a figure"),
        ("pass@1 >= many", "is not a number"),
        ("pass@1 >= NaN", "is not a number"),
    ] {
        let error = text.parse::<Requirement>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn regressions_are_read() {
    for (text, value) in [
        ("2pp", 0.02),
        ("2 pp", 0.02),
        ("2%", 0.02),
        ("0.02", 0.02),
        ("0", 0.0),
    ] {
        assert!(
            (parse_regression(text).unwrap() - value).abs() < 1e-12,
            "{text}"
        );
    }
    for text in ["-1pp", "200pp", "x", ""] {
        assert!(parse_regression(text).is_err(), "{text}");
    }
}

fn met(gate: &Gate<'_>, rows: &[(&str, &str, &str)]) -> Vec<bool> {
    let checks = check(gate, &run(rows));
    checks.iter().map(|it| it.met).collect()
}

#[test]
fn every_contender_must_meet_a_requirement() {
    let rows = [
        ("a", "x", "pp"),
        ("b", "x", "pp"),
        ("a", "y", "pp"),
        ("b", "y", "pf"),
    ];
    let gate = |text: &str| Gate {
        requirements: vec![require(text)],
        ..Gate::default()
    };
    assert_eq!(met(&gate("pass@1 >= 0.8"), &rows), [true, false]);
    assert_eq!(met(&gate("pass@1[x] >= 0.8"), &rows), [true]);
    assert_eq!(met(&gate("pass@1[z] >= 0"), &rows), [false]);
    assert_eq!(met(&gate("pass@2 >= 1"), &rows), [true, true]);
    assert_eq!(met(&gate("pass^2 >= 1"), &rows), [true, false]);
    // Unknown is not met.
    assert_eq!(met(&gate("pass@3 >= 0"), &rows), [false, false]);
    assert_eq!(
        met(&gate("pass@1 >= 0"), &[("a", "x", "i")]),
        [false, false]
    );
}

// Tasks with too few trials, without a scored trial or without a result are not left out.
#[test]
fn a_gate_does_not_pass_on_what_is_missing() {
    let gate = |text: &str| Gate {
        requirements: vec![require(text)],
        ..Gate::default()
    };
    let rows = [("a", "x", "pp"), ("b", "x", "pi")];
    let checks = check(&gate("pass@2 >= 1"), &run(&rows));
    assert!(!checks[0].met && checks[0].found.contains("1 of 2 tasks have fewer than 2"));
    assert_eq!(met(&gate("pass@1 >= 1"), &rows), [true]);
    let rows = [("a", "x", "pp"), ("b", "x", "ii")];
    assert_eq!(met(&gate("pass@1 >= 1"), &rows), [true, false]);
    let rows = [("a", "x", "pp"), ("b", "x", "p.")];
    let checks = check(&gate("pass@1 >= 1"), &run(&rows));
    assert!(!checks[1].met && checks[1].found.contains("1 of 4 have none"));
}

// Catalogue 26: an evaluator that crashed fails a gate unless told otherwise.
#[test]
fn a_crashed_evaluator_fails_the_gate() {
    let rows = [("a", "x", "pe")];
    let gate = Gate {
        requirements: vec![require("pass@1 >= 0.5")],
        ..Gate::default()
    };
    assert_eq!(met(&gate, &rows), [true, false]);
    let gate = Gate {
        allow_errors: true,
        ..gate
    };
    assert_eq!(met(&gate, &rows), [true]);
}

#[test]
fn a_regression_is_measured_on_common_tasks() {
    let baseline = run(&[("a", "x", "pp"), ("b", "x", "pp"), ("gone", "x", "ff")]);
    let gate = |max_regression| Gate {
        baseline: Some(&baseline.trials),
        max_regression,
        allow_unmatched: true,
        ..Gate::default()
    };
    let rows = [("a", "x", "pp"), ("b", "x", "pf"), ("new", "x", "ff")];
    assert_eq!(met(&gate(0.02), &rows), [false]);
    assert_eq!(met(&gate(0.25), &rows), [true]);
    let strict = Gate {
        allow_unmatched: false,
        ..gate(0.25)
    };
    let checks = check(&strict, &run(&rows));
    assert!(!checks[0].met && checks[0].found.contains("only in the baseline: gone"));
    let checks = check(&gate(0.02), &run(&rows));
    assert!(
        checks[0].found.starts_with("-25.0pp on 2 tasks"),
        "{}",
        checks[0].found
    );
    assert_eq!(met(&gate(0.02), &[("other", "x", "p")]), [false]);
}

#[test]
fn a_lower_bound_does_not_prove_a_cost() {
    let mut report = run(&[("a", "x", "pp")]);
    report.trials[0].usage = ostler_core::usage::Usage::unknown(ostler_core::usage::Scope::Session);
    let gate = Gate {
        requirements: vec![require("cost_usd <= 100")],
        ..Gate::default()
    };
    assert!(!check(&gate, &report)[0].met);
}
