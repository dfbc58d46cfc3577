//! Remote attempts in the ledger: what an owner finds after a restart, and trials that are lost
//! again and again.

use std::sync::Arc;

use ostler_core::event::Timestamp;
use ostler_eval::place::{AttemptFuture, Place, Placement};
use ostler_eval::run_trial::{Attempt, Disposition, unplaced};
use ostler_eval::runner::{RunEnd, Runner};
use ostler_eval::trial::{Blame, TrialResult};
use ostler_store::{
    AttemptKey, AttemptState, Booking, ClaimRequest, ClaimResult, Ledger, Reservation, Store,
};
use tokio::sync::watch;

use crate::rig::{PATIENCE, Rig, now};

/// A fleet whose attempts end at once.
struct Instant;

impl Place for Instant {
    fn is_remote(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, placement: Placement<'a>) -> AttemptFuture<'a> {
        Box::pin(async move {
            Attempt {
                result: unplaced(placement.request, now(), "done".to_owned()),
                disposition: Disposition::Accept,
            }
        })
    }
}

/// Claims the next trial of the run for a worker, with a lease that has ended.
fn claim(store: &Store, runner: &Runner) -> u64 {
    let ledger = Ledger::new(store);
    let request = ClaimRequest {
        run: "run",
        worker: &runner.options.worker,
        now: Timestamp(now().0 - 10_000),
        lease_until: Timestamp(now().0 - 5_000),
    };
    let claimed = ledger.claim(request, Reservation::Share(1)).unwrap();
    let ClaimResult::Claimed(claim) = claimed else {
        panic!("{claimed:?}");
    };
    let key = AttemptKey {
        run: "run",
        position: claim.position,
        fence: claim.fence,
    };
    assert!(ledger.assign(key, "fleet", "w1/x").unwrap());
    claim.fence
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_was_away_for_longer_than_a_lease_adopts_its_attempts() {
    let rig = Rig::new();
    let mut runner = rig.runner("run", &rig.plain_suite(2), Arc::new(Instant));
    runner.options.heartbeat = PATIENCE; // only the adoption itself renews the lease
    let store = rig.store();
    claim(&store, &runner);
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        Arc::new(runner).run(cancelled).await.unwrap(),
        RunEnd::Complete
    );
    for trial in Ledger::new(&store).trials("run").unwrap() {
        let states: Vec<_> = trial.attempts.iter().map(|it| it.state).collect();
        assert_eq!(states, [AttemptState::Accepted], "{trial:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_is_lost_again_and_again_is_given_up() {
    let rig = Rig::new();
    let runner = rig.runner("run", &rig.plain_suite(1), Arc::new(Instant));
    let store = rig.store();
    let ledger = Ledger::new(&store);
    let most = runner.options.retry.max_losses;
    for _ in 0..most {
        let key = AttemptKey {
            run: "run",
            position: 0,
            fence: claim(&store, &runner),
        };
        ledger.lose(key, now(), &Booking::default()).unwrap();
    }
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(
        Arc::new(runner).run(cancelled).await.unwrap(),
        RunEnd::Complete
    );
    let trial = ledger.trial("run", 0).unwrap().unwrap();
    let result: TrialResult = serde_json::from_str(&trial.result.unwrap()).unwrap();
    let message = result.message.unwrap();
    assert!(message.contains("5 attempts were lost"), "{message}");
    assert_eq!(result.blame, Some(Blame::Infrastructure));
}
