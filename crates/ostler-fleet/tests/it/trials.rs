//! Trials on workers: the same results as on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use ostler_eval::runner::RunEnd;
use ostler_eval::trial::{TrialResult, Verdict};
use ostler_store::{AttemptState, Ledger, Store};
use ostler_testkit::nats::NatsServer;
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{COST, Collected, PATIENCE, Rig, check_books, has_server, here, now, until};

fn results(store: &Store, run: &str) -> BTreeMap<String, TrialResult> {
    let trials = Ledger::new(store).trials(run).unwrap();
    trials
        .into_iter()
        .map(|trial| {
            let result: TrialResult = serde_json::from_str(&trial.result.unwrap()).unwrap();
            (format!("{:?}", trial.name), result)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_on_a_worker_looks_as_if_it_ran_here() {
    if !has_server("a_trial_on_a_worker_looks_as_if_it_ran_here") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let runner = rig.runner("run", &rig.plain_suite(1), place.clone());
    let (_stop, cancelled) = watch::channel(false);
    let end = Arc::new(runner).run(cancelled).await.unwrap();
    assert_eq!((end, worker.finish().await), (RunEnd::Complete, 1));

    let trials = check_books(&rig, "run");
    let attempt = &trials[0].attempts[0];
    assert!(attempt.worker.starts_with("w1/"), "{attempt:?}");
    let store = rig.store();
    let result = results(&store, "run").into_values().next().unwrap();
    assert_eq!(result.verdict, Verdict::Passed, "{result:?}");
    // The artifacts are here.
    let dir = rig.path("artifacts/run");
    assert!(result.artifacts.starts_with(&dir), "{result:?}");
    let diff = fs::read_to_string(result.artifacts.join("diff.patch")).unwrap();
    assert!(diff.contains("+changed"), "{diff}");
    let session = result.session.unwrap();
    let row = store.session(&session).unwrap().unwrap();
    assert_eq!(row.agent, "claude");
    // Nothing is left at the worker.
    let left = fs::read_dir(rig.path("workers/w1/spool")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_give_the_same_results_as_this_machine() {
    if !has_server("two_workers_give_the_same_results_as_this_machine") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let cases = || {
        vec![
            rig.case("good", "grep -q changed file.txt"),
            rig.case("bad", "grep -q missing file.txt"),
        ]
    };
    let suite = rig.suite(cases(), 3);
    let (_stop, cancelled) = watch::channel(false);
    let local = rig.runner("local", &suite, here());
    let end = Arc::new(local).run(cancelled.clone()).await.unwrap();
    assert_eq!(end, RunEnd::Complete);

    let place = rig.place(&server.url(), "remote", PATIENCE).await;
    let mut workers = Vec::new();
    for name in ["w1", "w2"] {
        workers.push(rig.worker(&server.url(), rig.worker_options(name)).await);
    }
    // Each worker runs one attempt at a time: two that wait at the gate are on two workers.
    let before = rig.lines("started");
    rig.hold("agent");
    let remote = Arc::new(rig.runner("remote", &suite, place));
    let running = tokio::spawn(remote.run(cancelled));
    until("two attempts at once", || {
        rig.lines("started") >= before + 2
    })
    .await;
    rig.release("agent");
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    for worker in workers {
        assert!(worker.finish().await > 0);
    }

    let store = rig.store();
    let table = |run: &str| -> BTreeMap<String, _> {
        let all = results(&store, run).into_iter();
        all.map(|(name, it)| {
            let usage = it.usage.cost_usd;
            let identity = (it.identity.case_hash, it.identity.commit);
            (
                name,
                (
                    it.verdict,
                    it.score,
                    it.message,
                    it.diff_files,
                    usage,
                    identity,
                ),
            )
        })
        .collect()
    };
    let (here, there) = (table("local"), table("remote"));
    assert_eq!((here.len(), &here), (6, &there));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_workers_waits_for_one() {
    if !has_server("a_run_without_workers_waits_for_one") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let collected = Arc::new(Collected::default());
    let mut runner = rig.runner("run", &rig.plain_suite(1), place);
    runner.observer = collected.clone();
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(Arc::new(runner).run(cancelled));
    until("the run waits", || !collected.waiting().is_empty()).await;
    // Nothing is fed ahead of the capacity.
    let store = rig.store();
    let trials = Ledger::new(&store).trials("run").unwrap();
    assert!(trials[0].attempts.is_empty(), "{trials:?}");
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_trials_are_queued_than_the_budget_covers() {
    if !has_server("no_more_trials_are_queued_than_the_budget_covers") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let mut case = rig.case("case", "true");
    case.limits.max_budget_usd = Some(COST);
    let mut suite = rig.suite(vec![case], 6);
    suite.budget_usd = Some(3.5 * COST);
    let mut options = rig.worker_options("w1");
    options.capacity = 6;
    let worker = rig.worker(&server.url(), options).await;
    rig.hold("agent");
    let runner = Arc::new(rig.runner("run", &suite, place));
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    until("three have started", || rig.lines("started") == 3).await;
    let store = rig.store();
    let ledger = Ledger::new(&store);
    let attempts = || -> usize {
        let trials = ledger.trials("run").unwrap();
        trials.iter().map(|trial| trial.attempts.len()).sum()
    };
    assert_eq!(attempts(), 3, "what runs may cost the rest");
    rig.release("agent");
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::BudgetReached);
    assert_eq!((worker.finish().await, rig.lines("spent")), (3, 3));
    let cost = ledger.run("run").unwrap().unwrap().cost_usd.unwrap();
    assert_eq!(attempts(), 3);
    assert!((cost - 3.0 * COST).abs() < 1e-9, "{cost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_is_parked_until_the_limit_of_its_worker_ends() {
    if !has_server("a_trial_is_parked_until_the_limit_of_its_worker_ends") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let resets_at = now().0 / 1000 + 3600;
    let limit = json!({
        "type": "rate_limit_event", "session_id": "$SESSION", "rate_limit_info": {
            "status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour",
        },
    });
    let end = json!({
        "type": "result", "session_id": "$SESSION", "subtype": "success", "is_error": true,
        "result": "usage limit reached", "terminal_reason": "api_error", "api_error_status": 429,
        "stop_reason": null, "num_turns": 1, "duration_ms": 1, "total_cost_usd": 0,
    });
    let script = format!("read\ninit\nprint {limit}\nprint {end}\n");
    fs::write(rig.path("agent.script"), script).unwrap();
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place));
    let (stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    let store = rig.store();
    let trial = || Ledger::new(&store).trial("run", 0).unwrap().unwrap();
    let is_retried = || {
        let attempts = trial().attempts;
        let mut states = attempts.iter().map(|it| it.state);
        states.any(|it| it == AttemptState::Retried)
    };
    until("the attempt has met the limit", is_retried).await;
    assert_eq!(trial().not_before.0, resets_at * 1000, "{:?}", trial());
    stop.send_replace(true);
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Interrupted);
    assert_eq!((worker.finish().await, rig.lines("started")), (1, 1));
}
