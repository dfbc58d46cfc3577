//! The report as JUnit XML, for CI systems: one test suite per contender, one test per trial.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::RunReport;
use super::format::{outcome, reason};
use crate::trial::{Blame, TrialResult, Verdict};

/// Returns the report as JUnit XML.
///
/// # Errors
/// The document cannot be written, which no content causes.
pub fn junit(report: &RunReport) -> Result<String, SerializeError> {
    let mut document = Report::new(report.suite.as_str());
    let trials = report.ordered();
    for contender in &report.contenders {
        let mut suite = TestSuite::new(contender.label.as_str());
        suite.add_property(("agent", contender.agent.as_str()));
        if let Some(model) = &contender.model {
            suite.add_property(("model", model.as_str()));
        }
        suite.add_property(("run", report.run.as_str()));
        let own = trials
            .iter()
            .filter(|it| it.key.contender == contender.label);
        let many = own.clone().any(|it| it.key.repetition > 1);
        let total: u64 = own.clone().map(|it| it.agent_ms).sum();
        suite.set_time(Duration::from_millis(total));
        suite.add_test_cases(own.map(|trial| test_case(trial, many)));
        let done = |key: &&crate::trial::TrialKey| !trials.iter().any(|it| it.key == **key);
        let planned = report
            .planned
            .iter()
            .filter(|it| it.contender == contender.label);
        for key in planned.filter(done) {
            let mut status = TestCaseStatus::skipped();
            status.set_message("the trial has no result");
            let mut case = TestCase::new(name(&key.case, key.repetition, many), status);
            case.set_classname(contender.label.as_str());
            suite.add_test_case(case);
        }
        document.add_test_suite(suite);
    }
    document.to_string()
}

fn name(case: &str, repetition: u32, many: bool) -> String {
    if many {
        format!("{case} #{repetition}")
    } else {
        case.to_owned()
    }
}

fn test_case(trial: &TrialResult, many: bool) -> TestCase {
    let key = &trial.key;
    let name = name(&key.case, key.repetition, many);
    let mut case = TestCase::new(name, status(trial));
    case.set_classname(key.contender.as_str());
    case.set_time(Duration::from_millis(trial.agent_ms));
    case.add_property(("artifacts", trial.artifacts.display().to_string().as_str()));
    case.add_property(("attempts", trial.attempts.to_string().as_str()));
    if let Some(cost) = trial.usage.cost_usd {
        case.add_property(("cost_usd", cost.to_string().as_str()));
    }
    if let Some(session) = &trial.session {
        case.add_property(("session", session.as_str()));
    }
    case
}

/// A trial that failed is a failure; what says nothing about the agent is an error or skipped.
fn status(trial: &TrialResult) -> TestCaseStatus {
    let mut status = match (trial.verdict, trial.blame) {
        (Verdict::Passed, _) => return TestCaseStatus::success(),
        (Verdict::Skipped, _) | (_, Some(Blame::Cancelled)) => TestCaseStatus::skipped(),
        (_, Some(Blame::Infrastructure)) | (Verdict::Errored, _) => {
            TestCaseStatus::non_success(NonSuccessKind::Error)
        }
        (Verdict::Failed, _) => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    let why = reason(trial).unwrap_or_else(|| outcome(trial).to_owned());
    status.set_message(why);
    status.set_type(outcome(trial));
    let lines: Vec<String> = trial
        .evaluations
        .iter()
        .map(|it| {
            let reason = it.reason.as_deref().unwrap_or_default();
            format!("{} ({}): {:?} {reason}", it.name, it.kind, it.verdict)
        })
        .collect();
    if !lines.is_empty() && !matches!(status, TestCaseStatus::Skipped { .. }) {
        status.set_description(lines.join("\n"));
    }
    status
}
