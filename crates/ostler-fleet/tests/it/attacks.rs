//! Attacks: items that a worker must not run.

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_core::event::Timestamp;
use ostler_eval::runner::RunEnd;
use ostler_eval::trial::{Blame, TrialResult};
use ostler_fleet::item::{Item, Needs, PROTOCOL, TrialWork, Work, WorkKind};
use ostler_fleet::key::MemberKey;
use ostler_fleet::message::{ClaimMessage, ClaimReply, Decision};
use ostler_fleet::nats::Connection;
use ostler_fleet::policy::Policy;
use ostler_fleet::seal::{Purpose, seal};
use ostler_store::Ledger;
use ostler_testkit::nats::NatsServer;
use tokio::sync::watch;

use crate::rig::{PATIENCE, Rig, has_server, now, token, until};

pub(crate) fn needs() -> Needs {
    Needs {
        kind: WorkKind::Trial,
        agent: "claude".to_owned(),
        version: None,
        labels: BTreeSet::new(),
        isolation: None,
    }
}

fn item(rig: &Rig, id: &str) -> Item {
    let case = rig.case("case", "true");
    Item {
        protocol: PROTOCOL,
        id: id.to_owned(),
        owner: token("owner"),
        run: token("run"),
        attempt: token(id),
        fence: 1,
        not_after: Timestamp(now().0 + 60_000),
        needs: needs(),
        work: Work::Trial(Box::new(TrialWork {
            run: "run".to_owned(),
            contender: case.agent.clone().unwrap(),
            case: ostler_eval::case::Case {
                source: ostler_eval::case::Source::Empty,
                ..case
            },
            repetition: 1,
            cap_usd: None,
            isolation: None,
            share_login: false,
            attachments: Vec::new(),
        })),
    }
}

fn signed(key: &MemberKey, item: &Item) -> Vec<u8> {
    seal(key, Purpose::Item, &serde_json::to_vec(item).unwrap()).unwrap()
}

/// Publishes an item as anyone could on a server without permissions.
async fn publish(connection: &Connection, id: &str, payload: Vec<u8>) {
    let class = needs().class();
    connection.publish_item(&class, id, payload).await.unwrap();
}

/// What the worker says of the items.
const REFUSALS: [&str; 11] = [
    "it is not signed",
    "is not in the trust list",
    "its signature does not match",
    "expired: it expired",
    "costly: it may cost 1.5 USD, and 1 USD are left",
    "unlimited: it names no budget",
    "login: the policy of this worker does not allow its logins",
    "other-agent: it asks for \"claude\", but runs \"codex\"",
    "unconfined: the policy of this worker runs work in the sandbox only",
    "local: the policy of this worker does not allow /etc",
    "stale: its owner says that the attempt is over",
];

#[tokio::test(flavor = "multi_thread")]
async fn items_that_are_not_signed_expired_or_beyond_the_policy_are_refused_by_name() {
    let test = "items_that_are_not_signed_expired_or_beyond_the_policy_are_refused_by_name";
    if !has_server(test) {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let connection = rig.connect(&server.url(), "mallory").await;
    connection.create_class(&needs()).await.unwrap();
    let mut options = rig.worker_options("w1");
    options.policy = Policy {
        budget_usd_per_day: Some(1.0),
        sandbox_only: true,
        ..Policy::default()
    };
    let worker = rig.worker(&server.url(), options).await;
    let (ours, other) = (rig.key(), MemberKey::generate());
    let budgeted = |id: &str, change: &dyn Fn(&mut Item)| {
        let mut item = item(&rig, id);
        let Work::Trial(work) = &mut item.work else {
            panic!("a trial")
        };
        work.cap_usd = Some(0.5);
        change(&mut item);
        item
    };
    let trial = |change: &'static dyn Fn(&mut TrialWork)| {
        move |item: &mut Item| {
            let Work::Trial(work) = &mut item.work else {
                panic!("a trial")
            };
            change(work);
        }
    };
    let plain = serde_json::to_vec(&item(&rig, "unsigned")).unwrap();
    publish(&connection, "unsigned", plain).await;
    publish(
        &connection,
        "untrusted",
        signed(&other, &budgeted("untrusted", &|_| {})),
    )
    .await;
    let mut forged = signed(&ours, &budgeted("forged", &|_| {}));
    let last = forged.len() - 2;
    forged[last] ^= 1;
    publish(&connection, "forged", forged).await;
    let expired = budgeted("expired", &|item| item.not_after = Timestamp(1));
    publish(&connection, "expired", signed(&ours, &expired)).await;
    for (id, change) in [
        (
            "costly",
            &trial(&|work| work.cap_usd = Some(1.5)) as &dyn Fn(&mut Item),
        ),
        ("unlimited", &trial(&|work| work.cap_usd = None)),
        ("login", &trial(&|work| work.share_login = true)),
        (
            "other-agent",
            &trial(&|work| work.contender.agent = "codex".to_owned()),
        ),
        (
            "unconfined",
            &trial(&|work| work.isolation = Some(ostler_eval::case::Isolation::Directory)),
        ),
        (
            "local",
            &trial(&|work| {
                work.case.source = ostler_eval::case::Source::Repository {
                    url: "/etc".to_owned(),
                    branch: None,
                    commit: None,
                };
            }),
        ),
    ] {
        publish(&connection, id, signed(&ours, &budgeted(id, change))).await;
    }
    // A signed item that its owner knows nothing of: a replay after the attempt has ended.
    let stale = budgeted("stale", &|_| {});
    place_is_ready(&place);
    publish(&connection, "stale", signed(&ours, &stale)).await;
    let reasons = || -> Vec<String> {
        let workers = place.workers();
        let refused = workers.iter().flat_map(|beat| &beat.refused);
        refused
            .map(|it| format!("{}: {}", it.item, it.reason))
            .collect()
    };
    until("all items are refused", || {
        let reasons = reasons();
        let has = |text: &str| reasons.iter().any(|reason| reason.contains(text));
        REFUSALS.iter().all(|text| has(text))
    })
    .await;
    assert_eq!((worker.finish().await, rig.lines("started")), (0, 0));
}

/// The owner has no attempt: every claim is over.
fn place_is_ready(place: &ostler_fleet::owner::FleetPlace) {
    ostler_eval::place::Place::on_adopted(place);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_is_run_once_however_often_it_is_published() {
    if !has_server("an_item_is_run_once_however_often_it_is_published") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let connection = rig.connect(&server.url(), "mallory").await;
    // Whoever can read the queue has a copy of the signed item.
    let mut queue = connection
        .subscribe("ostler.work.*".to_owned())
        .await
        .unwrap();
    rig.hold("agent");
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place.clone()));
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    let first = rig.worker(&server.url(), rig.worker_options("w1")).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    let copied = queue.next().await.unwrap();
    let class = ostler_fleet::subject::last_token(&copied.subject).unwrap();
    let second = rig.worker(&server.url(), rig.worker_options("w2")).await;
    for copy in ["copy-1", "copy-2", "copy-3"] {
        let payload = copied.payload.to_vec();
        connection
            .publish_item(&class, copy, payload)
            .await
            .unwrap();
    }
    until("a copy is refused", || {
        let workers = place.workers();
        let mut refused = workers.iter().flat_map(|beat| &beat.refused);
        refused.any(|it| it.reason.contains("given the attempt to a worker already"))
    })
    .await;
    rig.release("agent");
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    // Nor later, on the worker that has run it.
    assert_eq!(second.finish().await, 0);
    let payload = copied.payload.to_vec();
    let published = connection.publish_item(&class, "copy-4", payload);
    published.await.unwrap();
    until("the replay is refused", || {
        let workers = place.workers();
        let mut refused = workers.iter().flat_map(|beat| &beat.refused);
        refused.any(|it| it.reason.contains("it is a replay"))
    })
    .await;
    assert_eq!(first.finish().await, 1);
    assert_eq!(rig.lines("started"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_every_worker_declines_says_why() {
    if !has_server("an_attempt_that_every_worker_declines_says_why") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let mut options = rig.worker_options("w1");
    options.policy.budget_usd_per_day = Some(1.0);
    let worker = rig.worker(&server.url(), options).await;
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place));
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(runner.run(cancelled).await.unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 0);
    let store = rig.store();
    let trials = Ledger::new(&store).trials("run").unwrap();
    let result = trials[0].result.as_deref().unwrap();
    let result: TrialResult = serde_json::from_str(result).unwrap();
    assert_eq!(result.blame, Some(Blame::Infrastructure));
    let message = result.message.unwrap();
    assert!(message.contains("w1: it names no budget"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_owner_did_not_sign_starts_nothing() {
    if !has_server("a_grant_that_the_owner_did_not_sign_starts_nothing") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let connection = rig.connect(&server.url(), "mallory").await;
    connection.create_streams(1).await.unwrap();
    connection.create_class(&needs()).await.unwrap();
    // A copy of a signed item, and a false owner that grants it.
    let claims = ostler_fleet::subject::claims_to(&token("owner"), &token("run"));
    let mut claims = connection.subscribe(claims).await.unwrap();
    publish(&connection, "old", signed(&rig.key(), &item(&rig, "old"))).await;
    // Another owner is trusted too, and is not the one that signed the item.
    let (key, other) = (MemberKey::generate(), MemberKey::generate());
    let mut options = rig.worker_options("w1");
    options.trusted.insert(other.public());
    let worker = rig.worker(&server.url(), options).await;
    for signer in [None, Some(&key), Some(&other)] {
        let claim = tokio::time::timeout(PATIENCE, claims.next()).await;
        let claim = claim.expect("the worker asks again").unwrap();
        let message: ClaimMessage = serde_json::from_slice(&claim.payload).unwrap();
        let grant = ClaimReply {
            nonce: message.nonce,
            attempt: message.attempt,
            decision: Decision::Granted { lease_ms: 60_000 },
        };
        let grant = serde_json::to_vec(&grant).unwrap();
        let reply = match signer {
            Some(key) => seal(key, Purpose::Grant, &grant).unwrap(),
            None => grant,
        };
        let sent = connection.publish(claim.reply.unwrap(), reply).await;
        sent.unwrap();
    }
    assert_eq!((worker.finish().await, rig.lines("started")), (0, 0));
}
