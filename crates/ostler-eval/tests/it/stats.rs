//! Statistics against known values, printed by `tests/known_values.py` (scipy 1.17, statsmodels
//! 0.15).

use ostler_eval::stats::{
    Figures, TaskCount, bootstrap, cluster_interval, compare, counts, flaky_tasks, inverse_normal,
    mcnemar_exact, minimum_detectable_effect, paired_difference, pass_at_k, pass_hat_k,
    student_t_quantile, wilson,
};
use proptest::prelude::*;

use crate::results::run;

fn close(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found} is not {expected}"
    );
}

fn tasks(counts: &[(u64, u64)]) -> Vec<TaskCount> {
    let of = |(passed, trials): &(u64, u64)| TaskCount {
        trials: *trials,
        passed: *passed,
    };
    counts.iter().map(of).collect()
}

#[test]
fn wilson_is_that_of_statsmodels() {
    for (k, n, low, high) in [
        (0, 10, 0.0, 0.27753279986288926),
        (1, 10, 0.017876213095072924, 0.40415002679523854),
        (7, 10, 0.39677814746114537, 0.8922087325936989),
        (10, 10, 0.7224672001371106, 1.0),
        (3, 5, 0.2307242812760129, 0.8823792257673522),
        (50, 100, 0.4038315303659956, 0.5961684696340044),
        (799, 1000, 0.7730388134679094, 0.8226727849577289),
    ] {
        let found = wilson(k, n).unwrap();
        close(found.low, low, 1e-12);
        close(found.high, high, 1e-12);
    }
    assert_eq!(wilson(0, 0), None);
}

#[test]
fn quantiles_are_those_of_scipy() {
    for (df, expected) in [
        (1.0, 12.706204736174694),
        (2.0, 4.302652729749462),
        (4.0, 2.7764451051977934),
        (9.0, 2.262157162798205),
        (29.0, 2.045229642132703),
        (99.0, 1.9842169515864174),
        (1000.0, 1.9623390808264083),
    ] {
        close(student_t_quantile(0.975, df), expected, 1e-9);
        close(student_t_quantile(0.025, df), -expected, 1e-9);
    }
    for (p, expected) in [
        (0.001, -3.090232306167813),
        (0.01, -2.3263478740408408),
        (0.025, -1.9599639845400545),
        (0.5, 0.0),
        (0.8, 0.8416212335729143),
        (0.9, 1.2815515655446004),
        (0.975, 1.959963984540054),
        (0.999, 3.090232306167813),
    ] {
        close(inverse_normal(p), expected, 1e-12);
    }
}

#[test]
fn intervals_are_clustered_by_task() {
    // Standard errors of an OLS fit with clusters; 0.1943… and 0.2422…
    for (counts, low, high) in [
        (
            &[(3, 3), (0, 3), (2, 3), (1, 3), (3, 3)][..],
            0.17833509732894542,
            0.912023700070115,
        ),
        (
            &[(2, 2), (3, 4), (1, 1), (0, 3)][..],
            0.10921976069337425,
            0.9483221967447812,
        ),
    ] {
        let found = cluster_interval(&tasks(counts)).unwrap();
        close(found.value, 0.6, 1e-12);
        close(found.low, low, 1e-9);
        close(found.high, high, 1e-9);
        // Wider than if the repetitions were independent.
        let naive = wilson(9, 15).unwrap();
        assert!(found.high - found.low > naive.high - naive.low);
    }
    // One trial each: Wilson.
    let single = cluster_interval(&tasks(&[(1, 1), (0, 1), (1, 1), (1, 1), (0, 1)])).unwrap();
    assert_eq!(Some(single), wilson(3, 5));
    // Tasks that all pass are worth as many trials as there are tasks, not certainty.
    let all = cluster_interval(&tasks(&[(5, 5); 4])).unwrap();
    assert_eq!(Some(all), wilson(4, 4));
    assert_eq!(cluster_interval(&[]), None);
}

#[test]
fn pass_at_k_is_unbiased() {
    for (n, c, k, at, hat) in [
        (5, 2, 1, 0.4, 0.4),
        (5, 2, 2, 0.7, 0.1),
        (5, 2, 3, 0.9, 0.0),
        (10, 3, 5, 0.9166666666666666, 0.0),
        (4, 4, 2, 1.0, 1.0),
        (4, 0, 4, 0.0, 0.0),
        (5, 4, 3, 1.0, 0.4),
    ] {
        close(pass_at_k(&tasks(&[(c, n)]), k).unwrap(), at, 1e-12);
        close(pass_hat_k(&tasks(&[(c, n)]), k).unwrap(), hat, 1e-12);
    }
    close(
        pass_at_k(&tasks(&[(2, 5), (5, 5)]), 2).unwrap(),
        0.85,
        1e-12,
    );
    // A task with too few trials is not left out.
    assert_eq!(pass_at_k(&tasks(&[(2, 5), (5, 5), (0, 1)]), 2), None);
    assert_eq!(pass_at_k(&tasks(&[(1, 2)]), 3), None);
    assert_eq!(pass_at_k(&tasks(&[(1, 2)]), 0), None);
}

#[test]
fn mcnemar_is_exact() {
    for (b, c, p) in [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 1, 0.21875),
        (10, 2, 0.03857421875),
        (8, 8, 1.0),
        (25, 10, 0.016673847800120715),
    ] {
        close(mcnemar_exact(b, c), p, 1e-12);
        close(mcnemar_exact(c, b), p, 1e-12);
    }
    assert!(mcnemar_exact(2000, 1000).is_finite());
}

#[test]
fn a_paired_difference_has_an_interval() {
    let differences = [0.5, 0.0, 0.0, 0.25, 0.25, 0.0];
    let found = paired_difference(&differences).unwrap();
    close(found.difference.value, 1.0 / 6.0, 1e-12);
    close(found.difference.low, -0.047548486303026244, 1e-9);
    close(found.difference.high, 0.3808818196363596, 1e-9);
    close(found.standard_error, 0.08333333333333334, 1e-12);
    close(
        minimum_detectable_effect(found.standard_error, differences.len()),
        // scipy: (t.ppf(0.975, 5) + t.ppf(0.8, 5)) / 12
        0.2908438013231,
        1e-9,
    );
    assert_eq!(paired_difference(&[0.5]), None);
    // Ten tasks without a difference leave a share of up to 26 % open.
    let equal = paired_difference(&[0.0; 10]).unwrap().difference;
    close(equal.high, 0.2588655508930524, 1e-12);
}

/// The interval and the test agree on whether a difference is significant.
#[test]
fn the_interval_agrees_with_mcnemar() {
    for (gained, lost, tied) in (0..14_u64)
        .flat_map(|gained| (0..14_u64).map(move |lost| (gained, lost)))
        .flat_map(|(gained, lost)| [0, 1, 5, 40].map(|tied| (gained, lost, tied)))
        .filter(|(gained, lost, tied)| gained + lost + tied > 1)
    {
        let mut differences = vec![1.0; gained as usize];
        differences.resize(differences.len() + lost as usize, -1.0);
        differences.resize(differences.len() + tied as usize, 0.0);
        let found = paired_difference(&differences).unwrap().difference;
        assert!(found.low <= found.value && found.value <= found.high);
        let excludes_zero = found.low > 0.0 || found.high < 0.0;
        assert_eq!(
            excludes_zero,
            mcnemar_exact(lost, gained) < 0.05,
            "{gained} gained, {lost} lost, {tied} tied: {found:?}"
        );
    }
    // Two tasks that were both gained prove little: 2 · 0.025^(1/2) − 1.
    let two = paired_difference(&[1.0, 1.0]).unwrap().difference;
    close(two.low, 2.0 * 0.025_f64.sqrt() - 1.0, 1e-12);
    close(two.high, 1.0, 1e-12);
}

#[test]
fn a_bootstrap_depends_on_its_seed_only() {
    let values = [0.5, 0.0, 0.0, 0.25, 0.25, 0.0, 1.0, -0.5];
    let one = bootstrap(&values, 10_000, 1).unwrap();
    assert_eq!(Some(one), bootstrap(&values, 10_000, 1));
    assert_ne!(bootstrap(&values, 25, 1), bootstrap(&values, 25, 2));
    assert!(one.low < one.value && one.value < one.high);
    // numpy with 10,000 samples: −0.09375 to 0.46875, within the spread of seeds.
    close(one.low, -0.09375, 0.04);
    close(one.high, 0.46875, 0.04);
}

#[test]
fn figures_of_values() {
    // numpy.percentile, linear.
    let found = Figures::of([4.0, 1.0, 10.0, 2.0, 3.0]).unwrap();
    assert_eq!(
        (found.known, found.mean, found.median, found.sum),
        (5, 4.0, 3.0, 20.0)
    );
    close(found.p95, 8.8, 1e-12);
    let found = Figures::of([3.0, 1.0, 2.0, 8.0]).unwrap();
    close(found.median, 2.5, 1e-12);
    close(found.p95, 7.25, 1e-12);
    assert_eq!(Figures::of([]), None);
}

// Catalogue 26: a crashed evaluator is neither skipped nor a success.
#[test]
fn denominators_tell_apart_what_counts() {
    let report = run(&[("a", "x", "pfti"), ("b", "x", "ces."), ("c", "x", "pppp")]);
    let summary = &report.summaries()[0];
    let counts = summary.counts;
    assert_eq!((counts.planned, counts.scored, counts.passed), (12, 8, 5));
    assert_eq!(
        (counts.timeouts, counts.infrastructure, counts.cancelled),
        (1, 1, 1)
    );
    assert_eq!(
        (counts.skipped, counts.missing, counts.evaluator_errors),
        (1, 1, 1)
    );
    assert_eq!(summary.tasks, 3);
    close(summary.pass_at_1.unwrap().value, 5.0 / 8.0, 1e-12);
    assert_eq!(summary.flaky, ["a"]);
    // Cost includes what infrastructure wasted; tokens are by kind.
    close(summary.cost_usd.unwrap().sum, 11.0 * 0.02, 1e-12);
    close(summary.cost_per_solved.unwrap(), 11.0 * 0.02 / 2.0, 1e-12);
    assert_eq!(summary.tokens.total.unwrap().sum as u64, 11 * 1250);
    assert_eq!(summary.tokens.reasoning, None);
    assert!(!summary.cost_is_partial);
}

#[test]
fn an_unknown_cost_makes_the_sum_a_lower_bound() {
    let mut report = run(&[("a", "x", "pp")]);
    report.trials[0].usage = ostler_core::usage::Usage::unknown(ostler_core::usage::Scope::Session);
    let summary = &report.summaries()[0];
    assert!(summary.cost_is_partial);
    assert_eq!(summary.cost_usd.unwrap().known, 1);
}

#[test]
fn a_comparison_lists_flips() {
    let before = run(&[
        ("a", "x", "p"),
        ("b", "x", "f"),
        ("c", "x", "p"),
        ("only", "x", "p"),
    ]);
    let after = run(&[("a", "x", "f"), ("b", "x", "p"), ("c", "x", "p")]);
    let (one, other) = (counts(&before.trials, "x"), counts(&after.trials, "x"));
    let found = compare(&one, &other, 1).unwrap();
    assert_eq!(
        (found.tasks, found.unmatched.as_slice()),
        (3, &["only".to_owned()][..])
    );
    assert_eq!(found.gained[0].case, "b");
    assert_eq!(found.lost[0].case, "a");
    assert_eq!(found.mcnemar_p, Some(1.0));
    close(found.after - found.before, 0.0, 1e-12);
    assert!(compare(&one, &std::collections::BTreeMap::new(), 1).is_none());
    assert!(flaky_tasks(&one).is_empty());
    let twice = run(&[("a", "x", "pf")]);
    assert_eq!(
        compare(&one, &counts(&twice.trials, "x"), 1)
            .unwrap()
            .mcnemar_p,
        None
    );
}

proptest! {
    #[test]
    fn intervals_hold_their_estimate(
        counts in proptest::collection::vec((0u64..6, 1u64..6), 1..12),
    ) {
        let counts: Vec<(u64, u64)> = counts.iter().map(|(c, n)| (*c.min(n), *n)).collect();
        let found = cluster_interval(&tasks(&counts)).unwrap();
        prop_assert!(0.0 <= found.low && found.low <= found.value);
        prop_assert!(found.value <= found.high && found.high <= 1.0);
    }

    #[test]
    fn pass_at_k_rises_and_pass_hat_k_falls(c in 0u64..10, more in 0u64..10, k in 1u64..9) {
        let task = tasks(&[(c, c + more + 10)]);
        prop_assert!(pass_at_k(&task, k).unwrap() <= pass_at_k(&task, k + 1).unwrap() + 1e-12);
        prop_assert!(pass_hat_k(&task, k).unwrap() + 1e-12 >= pass_hat_k(&task, k + 1).unwrap());
    }
}
