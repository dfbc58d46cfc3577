//! Late attempts of a run: their results came after their lease, and do not count.

use std::fmt::Write;

use ostler_store::{AttemptState, Ledger, Store, TrialRow};
use serde_json::{Value, json};

use crate::fault::Result;
use crate::output;

/// A late attempt.
pub(super) struct LateAttempt {
    trial: String,
    number: u64,
    worker: String,
    cost_usd: Option<f64>,
    session: Option<String>,
}

/// Returns the late attempts of a run.
pub(super) fn of_run(store: &Store, run: &str) -> Result<Vec<LateAttempt>> {
    let trials = Ledger::new(store).trials(run)?;
    Ok(trials.iter().flat_map(of_trial).collect())
}

fn of_trial(trial: &TrialRow) -> Vec<LateAttempt> {
    let name = &trial.name;
    let late = trial.attempts.iter();
    let late = late.filter(|attempt| attempt.state == AttemptState::Late);
    let shown = late.map(|attempt| LateAttempt {
        trial: format!("{}/{}/{}", name.case, name.contender, name.repetition),
        number: attempt.fence,
        // The rest is the id of the worker's process.
        worker: attempt
            .worker
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned(),
        cost_usd: attempt.usage.as_ref().and_then(|usage| usage.cost_usd),
        session: attempt.session.clone(),
    });
    shown.collect()
}

/// Returns the late attempts as lines at the end of a report.
pub(super) fn lines(late: &[LateAttempt]) -> String {
    let mut text = String::new();
    for attempt in late {
        let (trial, worker) = (output::name(&attempt.trial), output::name(&attempt.worker));
        let number = attempt.number;
        let cost = attempt.cost_usd;
        let cost = cost.map_or_else(String::new, |cost| format!(", ${cost:.2}"));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "late, and not counted: {trial}, attempt {number} on {worker}{cost}"
        );
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{text}"),
    }
}

/// Adds the late attempts to a report in JSON.
pub(super) fn add_to(report: &mut Value, late: &[LateAttempt]) {
    let shown = late.iter().map(|attempt| {
        json!({
            "trial": attempt.trial,
            "attempt": attempt.number,
            "worker": attempt.worker,
            "cost_usd": attempt.cost_usd,
            "session": attempt.session,
        })
    });
    if !late.is_empty() {
        report["late"] = shown.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_attempts_are_named_with_worker_and_cost() {
        let late = [LateAttempt {
            trial: "case/one/1".to_owned(),
            number: 2,
            worker: "w1".to_owned(),
            cost_usd: Some(0.5),
            session: None,
        }];
        assert_eq!(
            lines(&late),
            "\nlate, and not counted: case/one/1, attempt 2 on w1, $0.50\n"
        );
        assert_eq!(lines(&[]), "");
        let mut report = json!({});
        add_to(&mut report, &[]);
        assert_eq!(report, json!({}));
        add_to(&mut report, &late);
        assert_eq!(report["late"][0]["worker"], "w1");
    }
}
