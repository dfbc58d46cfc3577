//! Slow tests: limits of an execution, and a runner that is killed at random moments and resumed.

mod adapter;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::runner::{Observer, RunEnd, RunEvent};
use ostler_eval::trial::TrialResult;
use ostler_store::{AttemptState, Ledger, Store, TrialState};
use tokio::sync::watch;

use crate::rig::{ANSWER, COST, Rig, shell};

/// Variable that makes [`runner_process`] a runner in that directory.
const DIRECTORY: &str = "EVAL_TEST_RIG";
/// Number of trials.
const TRIALS: u32 = 8;

struct Nothing;

impl Observer for Nothing {
    fn on(&self, _: RunEvent) {}
}

/// Works on the run in the directory of the environment variable; without one, it does nothing.
#[tokio::test]
async fn runner_process() {
    let Some(dir) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let rig = Rig::open(Path::new(&dir));
    let end = run(&rig).await;
    assert_eq!(end, RunEnd::Complete);
    fs::write(rig.path("complete"), "").unwrap();
}

async fn run(rig: &Rig) -> RunEnd {
    // The stand-in's own books: the attempt's directory, for each answer.
    let spent = rig.path("spent");
    let mut agent = rig.agent_with(
        &format!(
            "sleep 0.1\nbasename \"$(dirname \"$PWD\")\" >> {}",
            spent.display()
        ),
        "fake-agent.script",
        ANSWER,
    );
    agent.host = agent.host.with_log(rig.store());
    let suite = rig.suite(vec![rig.case(vec![shell("true")])], TRIALS);
    let mut runner = rig.runner(Arc::new(agent), &suite, Arc::new(Nothing));
    runner.services.options.isolation = Some(ostler_eval::case::Isolation::Directory);
    let (_stop, cancelled) = watch::channel(false);
    Arc::new(runner).run(cancelled).await.unwrap()
}

fn start(rig: &Rig) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "slow::runner_process", "--nocapture"])
        .env(DIRECTORY, rig.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Number of kills.
const KILLS: u32 = 30;
/// Variable that repeats the moments of an earlier test.
const SEED: &str = "CHAOS_SEED";

/// Random moments, from a seed that is printed if the test fails.
struct Moments(u64);

impl Moments {
    #[expect(clippy::print_stdout, reason = "the seed of a failed test repeats it")]
    fn new() -> Self {
        let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| crate::rig::now().0.unsigned_abs());
        println!("repeat with {SEED}={seed}");
        Self(seed)
    }

    /// Returns a moment in the life of the runner: between its start and the third trial.
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis(100 + (mixed ^ (mixed >> 31)) % 1_000)
    }
}

// Every trial has exactly one accepted attempt. The ledger has what the stand-in spent, attempt by
// attempt, apart from attempts that were killed between the answer and its report; the trial's
// result names them.
#[test]
fn a_killed_runner_is_resumed_without_losing_or_repeating_a_trial() {
    let (mut moments, mut all_kills, mut all_unbooked) = (Moments::new(), 0_u32, 0_u32);
    // A run that is complete is followed by another, until all moments have been tried.
    while all_kills < KILLS {
        let rig = Rig::new();
        let mut kills = 0_u32;
        while all_kills + kills < KILLS && !rig.path("complete").exists() {
            let mut child = start(&rig);
            std::thread::sleep(moments.next());
            let is_over = child.try_wait().unwrap().is_some();
            let _ = child.kill(); // SIGKILL
            let _ = child.wait();
            kills += u32::from(!is_over);
        }
        if !rig.path("complete").exists() {
            assert!(start(&rig).wait().unwrap().success());
        }
        all_unbooked += check_books(&rig);
        all_kills += kills;
    }
    // A kill hits at most the attempts of the two jobs between an answer and its report, which is
    // a short time.
    assert!(all_unbooked <= all_kills, "{all_unbooked} of {all_kills}");
}

/// Compares the ledger with the stand-in's own books. Returns the number of answers that are not
/// booked, but named.
fn check_books(rig: &Rig) -> u32 {
    let store = Store::open(&rig.path("state")).unwrap();
    let ledger = Ledger::new(&store);
    let trials = ledger.trials("run").unwrap();
    let spent = fs::read_to_string(rig.path("spent")).unwrap();
    let mut spent: Vec<&str> = spent.lines().collect();
    let (mut booked, mut unbooked) = (0_u32, 0_u32);
    for trial in &trials {
        assert_eq!(trial.state, TrialState::Done);
        let result: TrialResult = serde_json::from_str(trial.result.as_ref().unwrap()).unwrap();
        let key = format!(
            "{}/{}/{}",
            result.key.case, result.key.contender, result.key.repetition
        );
        let hash = &ostler_eval::identity::sha256(&key)[..12];
        let accepted = trial.attempts.iter();
        let accepted = accepted.filter(|it| it.state == AttemptState::Accepted);
        assert_eq!(accepted.count(), 1, "{trial:?}");
        for attempt in &trial.attempts {
            let name = format!("run-{hash}-{}", attempt.fence);
            let answers = spent.extract_if(.., |line| *line == name).count();
            let cost = attempt.usage.as_ref().and_then(|usage| usage.cost_usd);
            let is_named = result.unmetered_attempts.contains(&attempt.fence);
            match (answers, cost) {
                (1, Some(cost)) => {
                    assert!((cost - COST).abs() < 1e-9, "{attempt:?}");
                    booked += 1;
                }
                (1, None) => {
                    assert!(
                        is_named && attempt.state == AttemptState::Lost,
                        "{attempt:?}"
                    );
                    unbooked += 1;
                }
                (0, None) => assert_eq!(attempt.state, AttemptState::Lost, "{attempt:?}"),
                other => panic!("{other:?}: {attempt:?}"),
            }
        }
    }
    assert_eq!(spent, [""; 0], "every answer belongs to an attempt");
    assert_eq!(u32::try_from(trials.len()).unwrap(), TRIALS);
    let cost = ledger.run("run").unwrap().unwrap().cost_usd.unwrap();
    assert!((cost - f64::from(booked) * COST).abs() < 1e-9);
    unbooked
}
