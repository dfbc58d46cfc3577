//! Results of trials for tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::outcome::Cause;
use ostler_core::usage::{Scope, Tokens, Usage};
use ostler_eval::case::{Contender, Isolation};
use ostler_eval::report::RunReport;
use ostler_eval::trial::{Blame, Evaluation, TrialIdentity, TrialKey, TrialResult, Verdict};

pub(crate) fn contender(label: &str) -> Contender {
    Contender {
        label: label.to_owned(),
        agent: "alpha".to_owned(),
        model: Some("m1".to_owned()),
        settings: BTreeMap::new(),
        prompt: None,
        instructions: None,
    }
}

pub(crate) fn key(case: &str, contender: &str, repetition: u32) -> TrialKey {
    TrialKey {
        case: case.to_owned(),
        contender: contender.to_owned(),
        repetition,
    }
}

/// A trial that passed (`p`), failed (`f`), timed out (`t`), broke (`i`), was cancelled (`c`), was
/// not judged (`e`) or was skipped (`s`).
pub(crate) fn trial(case: &str, label: &str, repetition: u32, kind: char) -> TrialResult {
    let (verdict, blame, cause) = match kind {
        'p' => (Verdict::Passed, None, Cause::Completed),
        'f' => (Verdict::Failed, Some(Blame::Agent), Cause::Completed),
        't' => (Verdict::Failed, Some(Blame::Limit), Cause::WallLimit),
        'i' => (
            Verdict::Errored,
            Some(Blame::Infrastructure),
            Cause::Network,
        ),
        'c' => (Verdict::Errored, Some(Blame::Cancelled), Cause::Stopped),
        'e' => (Verdict::Errored, Some(Blame::Evaluator), Cause::Completed),
        _ => (Verdict::Skipped, None, Cause::Completed),
    };
    let judged = matches!(kind, 'p' | 'f' | 'e');
    let tokens = Tokens {
        input: 1000,
        cache_read: 200,
        cache_write: 0,
        output: 50,
        reasoning: None,
    };
    let evaluation = Evaluation {
        name: "command:tests".to_owned(),
        kind: "command".to_owned(),
        verdict,
        reason: (kind != 'p').then(|| "2 of 5 tests failed".to_owned()),
        score: Some(if kind == 'p' { 1.0 } else { 0.6 }),
        metrics: [
            ("tests".to_owned(), 5.into()),
            ("ratio".to_owned(), 0.6.into()),
        ]
        .into(),
        artifacts: vec![PathBuf::from("tests.log")],
        weight: 1.0,
        required: true,
        duration_ms: 1234,
    };
    TrialResult {
        key: key(case, label, repetition),
        identity: TrialIdentity {
            case: case.to_owned(),
            case_hash: "c".repeat(8),
            commit: "0123abc".to_owned(),
            agent: "alpha".to_owned(),
            agent_version: Some("1.2.3".to_owned()),
            model: Some("m1".to_owned()),
            reported_model: Some("m1-2026".to_owned()),
            prompt_hash: "p".repeat(8),
            settings_hash: "s".repeat(8),
            isolation: Isolation::Sandbox,
            ostler: "0.1.0".to_owned(),
        },
        verdict,
        blame,
        cause: Some(cause),
        message: None,
        score: judged.then_some(if kind == 'p' { 1.0 } else { 0.6 }),
        evaluations: if judged { vec![evaluation] } else { Vec::new() },
        usage: Usage {
            scope: Scope::Session,
            ..Usage::for_turn(Some("m1".to_owned()), tokens)
        }
        .reported(0.02),
        attempts: 1,
        session: Some("s1".to_owned()),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        completed_at: "2026-01-02T03:05:05Z".to_owned(),
        agent_ms: 12_000 + u64::from(repetition) * 1000,
        working_ms: Some(10_000),
        diff_files: 1,
        artifacts: PathBuf::from(".ostler/eval/r1").join(case),
        replayed: false,
        metered: true,
        unmetered_attempts: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A run: case, label, and one letter per repetition (`.` for a missing one).
pub(crate) fn run(rows: &[(&str, &str, &str)]) -> RunReport {
    let mut report = RunReport {
        run: "r1".to_owned(),
        suite: "demo".to_owned(),
        contenders: Vec::new(),
        trials: Vec::new(),
        planned: Vec::new(),
        cancelled: Vec::new(),
        seed: 7,
        started_at: Some("2026-01-02T03:04:05Z".to_owned()),
    };
    for (case, label, kinds) in rows {
        if report.contender(label).is_none() {
            report.contenders.push(contender(label));
        }
        for (kind, repetition) in kinds.chars().zip(1..) {
            report.planned.push(key(case, label, repetition));
            if kind != '.' {
                report.trials.push(trial(case, label, repetition, kind));
            }
        }
    }
    report
}
