//! What a daemon stores: sessions before they start, approvals, idempotency keys, positions.

use std::collections::BTreeMap;

use ostler_core::event::{DecidedBy, Decision, Permission, Timestamp};
use ostler_store::{
    ApprovalDecision, ApprovalState, DecideResult, Filter, IdempotentRequest, NewManaged,
    NewSession, Store,
};

use crate::rig::{append, entry, new_session, texts};

fn managed(id: &str, pid: u32, queued: bool) -> NewManaged {
    NewManaged {
        session: NewSession {
            labels: BTreeMap::from([("team".to_owned(), id.to_owned())]),
            pid,
            ..new_session(id, 1)
        },
        name: format!("name of {id}"),
        request: "{}".to_owned(),
        granted: "{}".to_owned(),
        approval_ms: 1_000,
        queued,
    }
}

fn permission(decision: Decision) -> Permission {
    Permission {
        id: "q".to_owned(),
        tool: "Bash".to_owned(),
        kind: None,
        input: None,
        decision,
        by: DecidedBy::Default,
        message: None,
    }
}

#[test]
fn a_managed_session_is_listed_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for id in ["a", "b"] {
        store
            .create_managed(&managed(id, std::process::id(), true))
            .unwrap();
    }
    assert!(
        store.create_managed(&managed("a", 1, true)).is_err(),
        "the id exists"
    );
    let filter = Filter {
        labels: vec![("team".to_owned(), "b".to_owned())],
        ..Filter::default()
    };
    let rows = store.sessions(&filter).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].name.as_deref(), Some("name of b"));
    assert_eq!(rows[0].labels["team"], "b");
    let queued: Vec<String> = store
        .queued()
        .unwrap()
        .into_iter()
        .map(|it| it.session)
        .collect();
    assert_eq!(queued, ["a", "b"]);
    assert!(store.dequeue("a").unwrap());
    assert!(!store.dequeue("a").unwrap(), "only once");
    assert_eq!(store.queued().unwrap().len(), 1);
    assert!(!store.managed("a").unwrap().unwrap().queued);
    assert_eq!(store.managed("x").unwrap(), None);
    // Its events follow as for any other session.
    append(&store, texts("a", 1, 3)).unwrap();
    assert_eq!(store.last_seq("a").unwrap(), 3);
    assert!(store.last_seq("x").is_err());
}

// P44
#[test]
fn an_approval_is_decided_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store
        .create_managed(&managed("a", std::process::id(), false))
        .unwrap();
    append(&store, vec![entry("a", 1, permission(Decision::Asked))]).unwrap();
    let pending = store.approvals(Some(ApprovalState::Pending)).unwrap();
    let approval = &pending[0];
    assert_eq!(
        (approval.session.as_str(), approval.request.as_str()),
        ("a", "q")
    );
    assert_eq!(approval.expires_at.0 - approval.asked_at.0, 1_000);
    assert_eq!(approval.id.len(), 32);
    let decision = |state| ApprovalDecision {
        state,
        by: "me",
        message: Some("why"),
        at: Timestamp(7),
    };
    let first = store
        .decide_approval(&approval.id, decision(ApprovalState::Denied))
        .unwrap();
    assert!(matches!(first, DecideResult::Decided(_)));
    let second = store
        .decide_approval(&approval.id, decision(ApprovalState::Allowed))
        .unwrap();
    let DecideResult::Earlier(earlier) = second else {
        panic!("{second:?}")
    };
    assert_eq!(
        (earlier.state, earlier.decided_by.as_deref()),
        (ApprovalState::Denied, Some("me"))
    );
    let unknown = store
        .decide_approval("x", decision(ApprovalState::Allowed))
        .unwrap();
    assert_eq!(unknown, DecideResult::Unknown);
    // The event that follows does not change the record of who decided.
    append(&store, vec![entry("a", 2, permission(Decision::Denied))]).unwrap();
    assert_eq!(store.approval(&approval.id).unwrap().unwrap(), *earlier);
    // Without a daemon, there are none.
    store.create_managed(&managed("b", 1, false)).unwrap();
    ostler_store::Log::open(&store, &new_session("plain", 1)).unwrap();
    append(&store, vec![entry("plain", 1, permission(Decision::Asked))]).unwrap();
    assert_eq!(store.approvals(None).unwrap().len(), 1);
}

#[test]
fn a_request_that_the_session_ends_is_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store
        .create_managed(&managed("a", u32::MAX, false))
        .unwrap();
    append(&store, vec![entry("a", 1, permission(Decision::Asked))]).unwrap();
    let orphaned = store.orphaned().unwrap();
    assert_eq!(orphaned.len(), 1);
    assert_eq!(
        (orphaned[0].last, orphaned[0].open_permissions.len()),
        (1, 1)
    );
    append(&store, vec![entry("a", 2, permission(Decision::Denied))]).unwrap();
    assert_eq!(
        store.approvals(None).unwrap()[0].state,
        ApprovalState::Withdrawn
    );
    assert!(store.orphaned().unwrap()[0].open_permissions.is_empty());
}

#[test]
fn an_idempotency_key_belongs_to_one_request() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let begin = |print: &str| store.begin_idempotent("k", print, Timestamp(10)).unwrap();
    assert_eq!(begin("x"), IdempotentRequest::New);
    assert_eq!(begin("x"), IdempotentRequest::Running);
    assert_eq!(begin("y"), IdempotentRequest::Different);
    store.end_idempotent("k", Some("done")).unwrap();
    assert_eq!(begin("x"), IdempotentRequest::Done("done".to_owned()));
    let day = 24 * 60 * 60 * 1000;
    let later = |at| store.begin_idempotent("other", "x", Timestamp(at)).unwrap();
    later(10 + day);
    assert_eq!(
        begin("x"),
        IdempotentRequest::Done("done".to_owned()),
        "not old enough"
    );
    later(11 + day);
    assert_eq!(begin("y"), IdempotentRequest::New);
    store.end_idempotent("k", None).unwrap();
    assert_eq!(
        begin("x"),
        IdempotentRequest::New,
        "it failed, and may be repeated"
    );
    store.forget_unanswered().unwrap();
    assert_eq!(begin("y"), IdempotentRequest::New, "its daemon is gone");
}

// A reader of all sessions misses no event, although SQLite would reuse the positions of removed
// ones.
#[test]
fn positions_are_never_reused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for id in ["a", "b"] {
        store.create_managed(&managed(id, u32::MAX, false)).unwrap();
        append(&store, texts(id, 1, 5)).unwrap();
    }
    let last = store.last_position().unwrap();
    assert_eq!(store.events_after(0, 100).unwrap().len(), 10);
    store.remove("b").unwrap();
    append(&store, texts("a", 6, 3)).unwrap();
    let new = store.events_after(last, 100).unwrap();
    let seqs: Vec<u64> = new.iter().map(|row| row.seq).collect();
    assert_eq!(seqs, [6, 7, 8]);
    assert!(
        new.windows(2)
            .all(|pair| pair[0].position < pair[1].position)
    );
    append(&store, texts("a", 9, 1)).unwrap();
    assert_eq!(store.events_after(new[2].position, 100).unwrap().len(), 1);
    assert_eq!(store.event_rows("a", 1, 100).unwrap().len(), 9);
}
