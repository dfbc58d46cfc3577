//! Runs: several trials at once, retries, budgets, cancelling and resuming.

use std::fs;
use std::sync::{Arc, Mutex};

use ostler::event::Timestamp;
use ostler::{Cause, Usage};
use ostler_core::usage::Scope;
use ostler_eval::evaluators::judge::{JudgeBackend, JudgeFuture, JudgeReply, JudgeRequest};
use ostler_eval::run_trial::{Phase, regrade};
use ostler_eval::runner::{Observer, RunEnd, RunEvent, Runner, is_scored};
use ostler_eval::trial::{Blame, TrialResult, Verdict};
use ostler_store::{
    AttemptKey, AttemptState, Booking, ClaimRequest, ClaimResult, Ledger, Reservation, TrialState,
};
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{ANSWER, COST, Collected, Rig, evaluator, shell};

fn result(text: &str) -> TrialResult {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_run_works_on_every_trial_and_books_each_attempt_once() {
    let rig = Rig::new();
    let agent = Arc::new(rig.agent("echo x > x", ANSWER));
    let mut other = rig.case(vec![shell("false")]);
    other.name = "other/case".to_owned();
    let suite = rig.suite(vec![rig.case(vec![shell("test -e x")]), other], 2);
    let seen = Arc::new(Collected::default());
    let runner = Arc::new(rig.runner(agent.clone(), &suite, seen.clone()));
    let (_stop, cancelled) = watch::channel(false);
    let end = runner.clone().run(cancelled.clone()).await.unwrap();
    assert_eq!(end, RunEnd::Complete);
    let ledger = Ledger::new(&runner.store);
    let row = ledger.run("run").unwrap().unwrap();
    assert_eq!((row.trials, row.done), (4, 4));
    assert!((row.cost_usd.unwrap() - 4.0 * COST).abs() < 1e-9);
    for trial in ledger.trials("run").unwrap() {
        assert_eq!(trial.attempts.len(), 1);
        let result = result(trial.result.as_deref().unwrap());
        let wanted = if trial.name.case == "case" {
            Verdict::Passed
        } else {
            Verdict::Failed
        };
        assert_eq!(result.verdict, wanted);
        assert!(is_scored(&result) && result.artifacts.join("diff.patch").exists());
    }
    assert_eq!(
        seen.count(|event| matches!(event, RunEvent::Finished(_))),
        4
    );
    assert!(seen.count(|event| matches!(event, RunEvent::Spent { .. })) >= 4);
    let working = |event: &RunEvent| {
        matches!(
            event,
            RunEvent::Entered {
                phase: Phase::Working,
                ..
            }
        )
    };
    assert_eq!(seen.count(working), 4);
    // Nothing is left to do for a second runner.
    let again = Arc::new(rig.runner(agent, &suite, seen.clone()));
    assert_eq!(again.run(cancelled).await.unwrap(), RunEnd::Complete);
    assert_eq!(
        seen.count(|event| matches!(event, RunEvent::Started { .. })),
        4
    );
}

// A failure of the provider is retried by policy, and never counts against the agent.
#[tokio::test]
async fn infrastructure_failures_are_retried_and_not_scored() {
    let rig = Rig::new();
    let script = rig.path("script.toml");
    fs::write(
        &script,
        "[[reply]]\nrepeat = true\nerror = { status = 503, message = \"busy\" }\n",
    )
    .unwrap();
    let mut case = rig.case(vec![shell("true")]);
    let mut contender = case.agent.take().unwrap();
    contender.agent = "scripted".to_owned();
    contender
        .settings
        .insert("script".to_owned(), json!(script.to_str().unwrap()));
    case.agent = Some(contender);
    let suite = rig.suite(vec![case], 1);
    let seen = Arc::new(Collected::default());
    let runner = Arc::new(rig.runner(Arc::new(rig.agent("", ANSWER)), &suite, seen.clone()));
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        runner.clone().run(cancelled).await.unwrap(),
        RunEnd::Complete
    );
    let trial = Ledger::new(&runner.store).trial("run", 0).unwrap().unwrap();
    let states: Vec<_> = trial.attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(
        states,
        [
            AttemptState::Retried,
            AttemptState::Retried,
            AttemptState::Accepted
        ]
    );
    let result = result(trial.result.as_deref().unwrap());
    assert_eq!(
        (result.verdict, result.blame),
        (Verdict::Errored, Some(Blame::Infrastructure))
    );
    assert!(!is_scored(&result) && result.evaluations.is_empty());
    assert_eq!(result.attempts, 3);
}

#[tokio::test]
async fn a_budget_ends_a_run_before_it_is_exceeded() {
    let rig = Rig::new();
    let mut suite = rig.suite(vec![rig.case(Vec::new())], 9);
    suite.budget_usd = Some(3.5 * COST);
    let mut runner = rig.runner(
        Arc::new(rig.agent("", ANSWER)),
        &suite,
        Arc::new(Collected::default()),
    );
    runner.options.jobs = 1;
    let runner = Arc::new(runner);
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        runner.clone().run(cancelled).await.unwrap(),
        RunEnd::BudgetReached
    );
    let row = Ledger::new(&runner.store).run("run").unwrap().unwrap();
    assert_eq!(row.done, 3);
    assert!(row.cost_usd.unwrap() <= suite.budget_usd.unwrap());
}

/// A judge that costs ten times as much as the agent.
struct DearJudge;

impl JudgeBackend for DearJudge {
    fn ask<'a>(&'a self, _: &'a JudgeRequest) -> JudgeFuture<'a> {
        Box::pin(async {
            let usage = Usage::unknown(Scope::Session).reported(10.0 * COST);
            Ok(JudgeReply {
                text: "no answer".to_owned(),
                structured: None,
                usage: Some(usage),
            })
        })
    }
}

// Judges are paid for by the run, also if their answers cannot be used. They are no cost of the
// agent.
#[tokio::test]
async fn judges_count_for_the_budget_of_the_run() {
    let rig = Rig::new();
    let mut judge = evaluator(
        "judge",
        json!({"model": "m", "assertions": {"a": "It holds."}}),
    );
    judge.required = false;
    let mut suite = rig.suite(vec![rig.case(vec![shell("true"), judge])], 9);
    suite.budget_usd = Some(25.0 * COST);
    let agent = Arc::new(rig.agent("", ANSWER));
    let mut runner = rig.runner(agent, &suite, Arc::new(Collected::default()));
    runner.options.jobs = 1;
    let evaluators = runner.services.evaluators;
    runner.services.evaluators = evaluators.with_judges(Arc::new(DearJudge));
    let runner = Arc::new(runner);
    let (_stop, cancelled) = watch::channel(false);
    let end = runner.clone().run(cancelled).await.unwrap();
    assert_eq!(end, RunEnd::BudgetReached);
    let ledger = Ledger::new(&runner.store);
    let row = ledger.run("run").unwrap().unwrap();
    assert_eq!(row.done, 2);
    assert!(
        (row.cost_usd.unwrap() - 22.0 * COST).abs() < 1e-9,
        "{row:?}"
    );
    let trial = ledger.trial("run", 0).unwrap().unwrap();
    let result = result(trial.result.as_deref().unwrap());
    assert!((result.usage.cost_usd.unwrap() - COST).abs() < 1e-9);
}

#[tokio::test]
async fn fail_fast_starts_nothing_after_a_failure() {
    let rig = Rig::new();
    let suite = rig.suite(vec![rig.case(vec![shell("false")])], 5);
    let mut runner = rig.runner(
        Arc::new(rig.agent("", ANSWER)),
        &suite,
        Arc::new(Collected::default()),
    );
    (runner.options.jobs, runner.options.fail_fast) = (1, true);
    let runner = Arc::new(runner);
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        runner.clone().run(cancelled).await.unwrap(),
        RunEnd::FailedFast
    );
    assert_eq!(
        Ledger::new(&runner.store).run("run").unwrap().unwrap().done,
        1
    );
}

/// Cancels the run once an agent has reported usage.
struct CancelOnSpend(Mutex<Option<watch::Sender<bool>>>);

impl Observer for CancelOnSpend {
    fn on(&self, event: RunEvent) {
        if let RunEvent::Spent { .. } = event
            && let Some(stop) = self.0.lock().unwrap().take()
        {
            stop.send_replace(true);
        }
    }
}

#[tokio::test]
async fn a_cancelled_attempt_is_booked_and_a_resumed_run_completes() {
    let rig = Rig::new();
    let suite = rig.suite(vec![rig.case(vec![shell("true")])], 2);
    let (stop, cancelled) = watch::channel(false);
    let observer = Arc::new(CancelOnSpend(Mutex::new(Some(stop))));
    // It has answered, and works on.
    let agent = rig.agent("", "read\ninit\ntext a\nresult a\nread-until-eof\nhang\n");
    let mut runner = rig.runner(Arc::new(agent), &suite, observer);
    runner.options.jobs = 1;
    let runner = Arc::new(runner);
    assert_eq!(
        runner.clone().run(cancelled).await.unwrap(),
        RunEnd::Interrupted
    );
    let ledger = Ledger::new(&runner.store);
    let trial = ledger.trial("run", 0).unwrap().unwrap();
    assert_eq!(trial.state, TrialState::Pending, "{trial:?}");
    assert_eq!(trial.attempts[0].state, AttemptState::Cancelled);
    let row = ledger.run("run").unwrap().unwrap();
    assert!((row.cost_usd.unwrap() - COST).abs() < 1e-9 && row.done == 0);
    let runner = Arc::new(rig.runner(
        Arc::new(rig.agent("", ANSWER)),
        &suite,
        Arc::new(Collected::default()),
    ));
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        runner.clone().run(cancelled).await.unwrap(),
        RunEnd::Complete
    );
    let ledger = Ledger::new(&runner.store);
    let row = ledger.run("run").unwrap().unwrap();
    assert_eq!(row.done, 2);
    assert!(
        (row.cost_usd.unwrap() - 3.0 * COST).abs() < 1e-9,
        "every attempt is booked once"
    );
    let trial = ledger.trial("run", 0).unwrap().unwrap();
    let result = result(trial.result.as_deref().unwrap());
    assert_eq!((result.attempts, result.cause), (2, Some(Cause::Completed)));
    assert!(
        (result.usage.cost_usd.unwrap() - 2.0 * COST).abs() < 1e-9,
        "of both attempts"
    );
}

/// Claims the only trial for a process that is gone, whose agent's session is this one.
fn lose_an_attempt(runner: &Runner, session: Option<String>) {
    let ledger = Ledger::new(&runner.store);
    let (now, lease_until) = (Timestamp(1), Timestamp(2));
    let request = ClaimRequest {
        run: "run",
        worker: &runner.options.worker,
        now,
        lease_until,
    };
    let claim = ledger.claim(request, Reservation::Share(1)).unwrap();
    assert!(matches!(claim, ClaimResult::Claimed(_)), "{claim:?}");
    let key = AttemptKey {
        run: "run",
        position: 0,
        fence: 1,
    };
    let booking = Booking {
        session,
        ..Booking::default()
    };
    ledger.heartbeat(key, lease_until, &booking).unwrap();
}

/// What is left of an attempt that was lost.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trace {
    /// Its session is stored.
    Session,
    /// Its raw output was written, and nothing made of it.
    RawOutput,
    /// The beginning of its raw output was written.
    HalfOfRawOutput,
    Nothing,
}

// Usage that had reached this machine and was not yet booked when the runner was killed is booked
// from the logs. An attempt that was lost in the middle of its work is named.
#[tokio::test]
async fn the_usage_of_a_lost_attempt_is_booked_or_named_as_unknown() {
    for (trace, answers) in [
        (Trace::Session, 2.0),
        (Trace::RawOutput, 2.0),
        (Trace::HalfOfRawOutput, 1.0),
        (Trace::Nothing, 1.0),
    ] {
        let rig = Rig::new();
        let mut agent = rig.agent("", ANSWER);
        agent.host = agent.host.with_log(rig.store());
        let services = rig.services(Arc::new(agent.clone()));
        let case = rig.case(vec![shell("true")]);
        let earlier = rig.trial_with(&services, case.clone()).await.result;
        if matches!(trace, Trace::RawOutput | Trace::HalfOfRawOutput) {
            let of_attempt = rig.path("artifacts/case/one/1/attempt-1/claude-logs");
            fs::create_dir_all(&of_attempt).unwrap();
            let mut logs = fs::read_dir(rig.path("artifacts/claude-logs")).unwrap();
            let mut text = fs::read_to_string(logs.next().unwrap().unwrap().path()).unwrap();
            if trace == Trace::HalfOfRawOutput {
                text.truncate(text.find("{\"type\":\"result\"").unwrap());
            }
            fs::write(of_attempt.join("terminal-output.log"), text).unwrap();
        }
        let suite = rig.suite(vec![case], 1);
        let runner = rig.runner(Arc::new(agent), &suite, Arc::new(Collected::default()));
        lose_an_attempt(&runner, earlier.session.filter(|_| trace == Trace::Session));
        let (_stop, cancelled) = watch::channel(false);
        let runner = Arc::new(runner);
        let end = runner.clone().run(cancelled).await.unwrap();
        assert_eq!(end, RunEnd::Complete);
        let trial = Ledger::new(&runner.store).trial("run", 0).unwrap().unwrap();
        assert_eq!(trial.attempts[0].state, AttemptState::Lost);
        let result = result(trial.result.as_deref().unwrap());
        let named = if answers > 1.0 { vec![] } else { vec![1] };
        assert_eq!(result.unmetered_attempts, named, "{trace:?}");
        let cost = result.usage.cost_usd.unwrap();
        assert!((cost - answers * COST).abs() < 1e-9, "{trace:?}: {cost}");
        let row = Ledger::new(&runner.store).run("run").unwrap().unwrap();
        assert!((row.cost_usd.unwrap() - answers * COST).abs() < 1e-9);
    }
}

#[tokio::test]
async fn two_processes_can_work_on_one_run() {
    let rig = Rig::new();
    let suite = rig.suite(vec![rig.case(vec![shell("true")])], 4);
    let agent = Arc::new(rig.agent("", ANSWER));
    let one = Arc::new(rig.runner(agent.clone(), &suite, Arc::new(Collected::default())));
    let two = Arc::new(rig.runner(agent, &suite, Arc::new(Collected::default())));
    let (_stop, cancelled) = watch::channel(false);
    let ends = tokio::join!(one.clone().run(cancelled.clone()), two.run(cancelled));
    assert_eq!(
        (ends.0.unwrap(), ends.1.unwrap()),
        (RunEnd::Complete, RunEnd::Complete)
    );
    let trials = Ledger::new(&one.store).trials("run").unwrap();
    assert!(
        trials
            .iter()
            .all(|trial| trial.attempts.len() == 1 && trial.state == TrialState::Done)
    );
}

#[tokio::test]
async fn a_regrade_judges_the_stored_changes_without_the_agent() {
    let rig = Rig::new();
    let agent = rig.agent(
        "echo fixed > answer.txt; printf '\\000x' > b.bin; rm file.txt",
        ANSWER,
    );
    let services = rig.services(Arc::new(agent));
    let case = rig.case(vec![shell("false")]);
    let old = rig.trial_with(&services, case.clone()).await.result;
    assert_eq!(old.verdict, Verdict::Failed);
    let mut case = case;
    case.evaluators = vec![shell(
        "grep -q fixed answer.txt && test -s b.bin && ! test -e file.txt",
    )];
    fs::remove_file(rig.path("agent.sh")).unwrap(); // it is not started again
    let new = regrade(&rig.request(case), &services, &old).await.unwrap();
    assert_eq!(new.verdict, Verdict::Passed, "{new:#?}");
    assert_eq!((new.session, new.diff_files), (old.session, old.diff_files));
    assert_ne!(new.identity.case_hash, old.identity.case_hash);
}
