//! The ledger of the evaluation: claims, leases, fences, bookings, and a model of all of them.

use std::collections::BTreeMap;

use ostler_core::event::Timestamp;
use ostler_core::usage::{Tokens, Usage};
use ostler_store::{
    AttemptKey, AttemptState, Booking, Claim, ClaimRequest, ClaimResult, Finish, FinishResult,
    HeartbeatResult, Ledger, NewRun, Reservation, Store, TrialName, TrialState, Worker,
};
use proptest::prelude::*;

const LEASE: i64 = 1_000;

fn worker(name: &str) -> Worker {
    Worker {
        name: name.to_owned(),
        pid: Some(std::process::id()),
    }
}

fn new_run(run: &str, count: u32, budget_usd: Option<f64>) -> NewRun {
    let trials = (1..=count).map(|repetition| TrialName {
        case: "case".to_owned(),
        contender: "one".to_owned(),
        repetition,
    });
    NewRun {
        run: run.to_owned(),
        suite: "suite".to_owned(),
        plan: "{}".to_owned(),
        artifacts: "/artifacts".into(),
        at: Timestamp(1),
        budget_usd,
        trials: trials.collect(),
    }
}

fn claim_with(store: &Store, now: i64, reservation: Reservation) -> ClaimResult {
    let request = ClaimRequest {
        run: "r",
        worker: &worker("w"),
        now: Timestamp(now),
        lease_until: Timestamp(now + LEASE),
    };
    Ledger::new(store).claim(request, reservation).unwrap()
}

fn claim(store: &Store, now: i64) -> ClaimResult {
    claim_with(store, now, Reservation::Share(1))
}

fn claimed(store: &Store, now: i64) -> Claim {
    match claim(store, now) {
        ClaimResult::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn key(claim: &Claim) -> AttemptKey<'static> {
    AttemptKey {
        run: "r",
        position: claim.position,
        fence: claim.fence,
    }
}

fn booking(tokens: u64) -> Booking {
    let tokens = Tokens {
        output: tokens,
        ..Tokens::default()
    };
    Booking {
        usage: Some(Usage::for_turn(None, tokens).reported(tokens.output as f64 / 100.0)),
        session: Some("s".to_owned()),
        ..Booking::default()
    }
}

fn accept(store: &Store, claim: &Claim, now: i64, tokens: u64) -> FinishResult {
    let finish = Finish::Accept("\"done\"");
    Ledger::new(store)
        .finish(key(claim), Timestamp(now), &booking(tokens), finish)
        .unwrap()
}

fn store_with(count: u32, budget: Option<f64>) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    Ledger::new(&store)
        .create(&new_run("r", count, budget))
        .unwrap();
    (dir, store)
}

#[test]
fn a_trial_is_claimed_once_and_finished_once() {
    let (_dir, store) = store_with(2, None);
    let (first, second) = (claimed(&store, 10), claimed(&store, 10));
    assert_eq!((first.position, second.position), (0, 1));
    assert_eq!(claim(&store, 20), ClaimResult::Wait(Timestamp(1_020)));
    assert_eq!(accept(&store, &first, 30, 5), FinishResult::Recorded);
    assert_eq!(accept(&store, &first, 31, 5), FinishResult::Late);
    assert_eq!(accept(&store, &second, 40, 7), FinishResult::Recorded);
    assert_eq!(claim(&store, 50), ClaimResult::Complete);
    let run = Ledger::new(&store).look_up("r").unwrap().unwrap();
    assert_eq!((run.trials, run.done, run.tokens), (2, 2, Some(12)));
    assert!((run.cost_usd.unwrap() - 0.12).abs() < 1e-9);
    assert_eq!(claim_unknown(&store), ClaimResult::Complete);
}

fn claim_unknown(store: &Store) -> ClaimResult {
    let request = ClaimRequest {
        run: "unknown",
        worker: &worker("w"),
        now: Timestamp(1),
        lease_until: Timestamp(2),
    };
    let ledger = Ledger::new(store);
    ledger.claim(request, Reservation::Share(1)).unwrap()
}

#[test]
fn a_lost_attempt_is_claimed_again_and_its_late_result_is_stored_but_does_not_count() {
    let (_dir, store) = store_with(1, None);
    let first = claimed(&store, 0);
    let second = claimed(&store, LEASE + 1);
    assert_eq!((first.fence, second.fence), (1, 2));
    let ledger = Ledger::new(&store);
    // It was spent, although the attempt is lost.
    let beat = ledger
        .heartbeat(key(&first), Timestamp(9_999), &booking(3))
        .unwrap();
    assert_eq!(beat, HeartbeatResult::Lost);
    assert_eq!(accept(&store, &first, 1_500, 4), FinishResult::Late);
    assert_eq!(accept(&store, &second, 1_600, 5), FinishResult::Recorded);
    let trial = ledger.trial("r", 0).unwrap().unwrap();
    let states: Vec<_> = trial.attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [AttemptState::Late, AttemptState::Accepted]);
    assert_eq!(trial.state, TrialState::Done);
    assert_eq!(ledger.run("r").unwrap().unwrap().tokens, Some(9));
}

#[test]
fn the_attempt_of_a_dead_process_is_lost_at_once() {
    let (_dir, store) = store_with(1, None);
    let request = ClaimRequest {
        run: "r",
        worker: &Worker {
            name: "dead".to_owned(),
            pid: Some(u32::MAX),
        },
        now: Timestamp(1),
        lease_until: Timestamp(1_000_000),
    };
    let ledger = Ledger::new(&store);
    ledger.claim(request, Reservation::Share(1)).unwrap();
    assert_eq!(claimed(&store, 2).fence, 2);
}

#[test]
fn a_heartbeat_extends_the_lease_and_books_a_cumulative_value() {
    let (_dir, store) = store_with(1, None);
    let attempt = claimed(&store, 0);
    let ledger = Ledger::new(&store);
    for (tokens, wanted) in [(5, 5), (5, 5), (8, 8), (2, 8)] {
        let beat = ledger.heartbeat(key(&attempt), Timestamp(5_000), &booking(tokens));
        assert_eq!(beat.unwrap(), HeartbeatResult::Extended);
        assert_eq!(ledger.run("r").unwrap().unwrap().tokens, Some(wanted));
    }
    assert_eq!(claim(&store, 4_000), ClaimResult::Wait(Timestamp(5_000)));
    ledger.cancel("r", Timestamp(4_500)).unwrap();
    let beat = ledger
        .heartbeat(key(&attempt), Timestamp(6_000), &booking(9))
        .unwrap();
    assert_eq!(beat, HeartbeatResult::Cancelled);
    assert_eq!(claim(&store, 4_600), ClaimResult::Cancelled);
    let cancel = Finish::Cancel("null");
    ledger
        .finish(key(&attempt), Timestamp(4_700), &booking(9), cancel)
        .unwrap();
    ledger.reopen("r").unwrap();
    assert_eq!(claimed(&store, 4_800).fence, 2);
    assert_eq!(ledger.run("r").unwrap().unwrap().tokens, Some(9));
}

#[test]
fn a_retry_waits_for_its_time_and_counts() {
    let (_dir, store) = store_with(1, None);
    let first = claimed(&store, 0);
    let ledger = Ledger::new(&store);
    let retry = Finish::Retry("\"rate limit\"", Timestamp(700));
    ledger
        .finish(key(&first), Timestamp(100), &Booking::default(), retry)
        .unwrap();
    assert_eq!(claim(&store, 699), ClaimResult::Wait(Timestamp(700)));
    let second = claimed(&store, 700);
    assert_eq!((second.fence, second.retries), (2, 1));
}

#[test]
fn a_budget_covers_what_is_spent_and_reserved() {
    let (_dir, store) = store_with(9, Some(1.0));
    let limit = Reservation::Limit(0.4);
    let ClaimResult::Claimed(first) = claim_with(&store, 0, limit) else {
        panic!()
    };
    let ClaimResult::Claimed(second) = claim_with(&store, 0, limit) else {
        panic!()
    };
    assert!(
        matches!(claim_with(&store, 0, limit), ClaimResult::Wait(_)),
        "0.8 are reserved"
    );
    accept(&store, &first, 1, 10); // 0.10
    let ClaimResult::Claimed(third) = claim_with(&store, 2, limit) else {
        panic!()
    };
    accept(&store, &second, 3, 40);
    accept(&store, &third, 3, 40);
    assert_eq!(
        claim_with(&store, 4, limit),
        ClaimResult::BudgetReached,
        "0.1 are left"
    );
    let share = Reservation::Share(1);
    assert_eq!(
        claim_with(&store, 4, share),
        ClaimResult::BudgetReached,
        "others cost 0.4"
    );
}

#[test]
fn a_share_divides_what_is_left() {
    let (_dir, store) = store_with(9, Some(1.0));
    let ClaimResult::Claimed(one) = claim_with(&store, 0, Reservation::Share(2)) else {
        panic!()
    };
    let ClaimResult::Claimed(two) = claim_with(&store, 0, Reservation::Share(1)) else {
        panic!()
    };
    assert_eq!((one.reserved_usd, two.reserved_usd), (Some(0.5), Some(0.5)));
}

#[test]
fn a_regrade_replaces_the_result_and_leaves_the_attempt() {
    let (_dir, store) = store_with(1, None);
    let ledger = Ledger::new(&store);
    assert!(
        !ledger.regrade("r", 0, Timestamp(1), "1").unwrap(),
        "it is not done"
    );
    let attempt = claimed(&store, 0);
    accept(&store, &attempt, 1, 1);
    assert!(ledger.regrade("r", 0, Timestamp(2), "\"again\"").unwrap());
    let trial = ledger.trial("r", 0).unwrap().unwrap();
    assert_eq!(trial.result.as_deref(), Some("\"again\""));
    assert_eq!(trial.attempts[0].result.as_deref(), Some("\"done\""));
}

#[test]
fn runs_are_found_by_an_unambiguous_prefix() {
    let (_dir, store) = store_with(1, None);
    let ledger = Ledger::new(&store);
    ledger.create(&new_run("rest", 1, None)).unwrap();
    assert!(
        ledger.create(&new_run("rest", 1, None)).is_err(),
        "the name exists"
    );
    assert_eq!(ledger.look_up("re").unwrap().unwrap().run, "rest");
    assert_eq!(ledger.look_up("r").unwrap().unwrap().run, "r");
    assert!(ledger.look_up("x").unwrap().is_none());
    assert_eq!(ledger.runs().unwrap().len(), 2);
}

/// A step of the model test.
#[derive(Debug, Clone)]
enum Step {
    Claim,
    Beat(usize, u64),
    Accept(usize),
    Retry(usize, i64),
    Cancel(usize),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Claim),
        3 => (0..6_usize, 0..50_u64).prop_map(|(which, tokens)| Step::Beat(which, tokens)),
        3 => (0..6_usize).prop_map(Step::Accept),
        1 => (0..6_usize, 0..2_000_i64).prop_map(|(which, delay)| Step::Retry(which, delay)),
        1 => (0..6_usize).prop_map(Step::Cancel),
        2 => (1..1_500_i64).prop_map(Step::Pass),
    ]
}

/// What the model knows of an attempt.
#[derive(Debug, Clone)]
struct ModelAttempt {
    claim: Claim,
    lease: i64,
    state: AttemptState,
    tokens: u64,
}

#[derive(Debug, Default)]
struct Model {
    now: i64,
    attempts: Vec<ModelAttempt>,
    /// Earliest time of the next attempt, by position.
    not_before: BTreeMap<u64, i64>,
}

impl Model {
    fn expire(&mut self) {
        let now = self.now;
        for attempt in &mut self.attempts {
            if attempt.state == AttemptState::Running && attempt.lease <= now {
                attempt.state = AttemptState::Lost;
            }
        }
    }

    fn claimable(&self, count: u64) -> Option<u64> {
        (0..count).find(|position| {
            let mut own = self
                .attempts
                .iter()
                .filter(|it| it.claim.position == *position);
            let blocks = [AttemptState::Running, AttemptState::Accepted];
            !own.any(|it| blocks.contains(&it.state))
                && self.not_before.get(position).copied().unwrap_or(0) <= self.now
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever workers do and when they die: a trial has at most one running and one accepted
    /// attempt, fences grow, and each attempt is booked once.
    #[test]
    fn the_ledger_behaves_like_its_model(steps in prop::collection::vec(step(), 1..60)) {
        let (_dir, store) = store_with(3, None);
        let ledger = Ledger::new(&store);
        let mut model = Model { now: 1, ..Model::default() };
        for step in steps {
            run_step(&store, &mut model, &step)?;
            for trial in ledger.trials("r").unwrap() {
                let is = |state: AttemptState| {
                    let attempts = trial.attempts.iter();
                    attempts.filter(move |it| it.state == state).count()
                };
                prop_assert!(is(AttemptState::Running) <= 1);
                prop_assert!(is(AttemptState::Accepted) <= 1);
                prop_assert_eq!(is(AttemptState::Accepted) == 1, trial.state == TrialState::Done);
                prop_assert!(trial.attempts.windows(2).all(|two| two[0].fence < two[1].fence));
            }
            let booked: u64 = model.attempts.iter().map(|attempt| attempt.tokens).sum();
            let run = ledger.run("r").unwrap().unwrap();
            prop_assert_eq!(run.tokens.unwrap_or(0), booked);
        }
    }
}

fn run_step(store: &Store, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    let ledger = Ledger::new(store);
    let now = Timestamp(model.now);
    let pick = |model: &Model, which: usize| {
        let count = model.attempts.len();
        (count > 0).then(|| which % count)
    };
    match *step {
        Step::Pass(time) => model.now += time,
        Step::Claim => {
            model.expire();
            let wanted = model.claimable(3);
            match claim(store, model.now) {
                ClaimResult::Claimed(claim) => {
                    prop_assert_eq!(Some(claim.position), wanted);
                    let lease = model.now + LEASE;
                    let (state, tokens) = (AttemptState::Running, 0);
                    model.attempts.push(ModelAttempt {
                        claim,
                        lease,
                        state,
                        tokens,
                    });
                }
                _ => prop_assert_eq!(None, wanted),
            }
        }
        Step::Beat(which, tokens) => {
            let Some(at) = pick(model, which) else {
                return Ok(());
            };
            let lease = model.now + LEASE;
            let attempt = &mut model.attempts[at];
            let beat = ledger.heartbeat(key(&attempt.claim), Timestamp(lease), &booking(tokens));
            attempt.tokens = attempt.tokens.max(tokens);
            let is_running = attempt.state == AttemptState::Running;
            prop_assert_eq!(beat.unwrap() == HeartbeatResult::Extended, is_running);
            if is_running {
                attempt.lease = attempt.lease.max(lease);
            }
        }
        Step::Accept(which) | Step::Retry(which, _) | Step::Cancel(which) => {
            let Some(at) = pick(model, which) else {
                return Ok(());
            };
            let attempt = &mut model.attempts[at];
            let (finish, state) = match *step {
                Step::Accept(_) => (Finish::Accept("1"), AttemptState::Accepted),
                Step::Retry(_, delay) => {
                    let next = Timestamp(now.0 + delay);
                    (Finish::Retry("2", next), AttemptState::Retried)
                }
                _ => (Finish::Cancel("3"), AttemptState::Cancelled),
            };
            let tokens = attempt.tokens;
            let done = ledger
                .finish(key(&attempt.claim), now, &booking(tokens), finish)
                .unwrap();
            let is_running = attempt.state == AttemptState::Running;
            prop_assert_eq!(done == FinishResult::Recorded, is_running);
            attempt.state = match attempt.state {
                AttemptState::Running => state,
                AttemptState::Lost => AttemptState::Late,
                other => other,
            };
            if let (true, Step::Retry(_, delay)) = (is_running, step) {
                model
                    .not_before
                    .insert(attempt.claim.position, now.0 + delay);
            }
        }
    }
    Ok(())
}
