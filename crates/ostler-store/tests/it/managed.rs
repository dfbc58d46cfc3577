//! What a daemon stores: sessions before they start, approvals, idempotency keys, positions.

use std::collections::BTreeMap;

use ostler_core::event::{
    DecidedBy, Decision, Origin, Permission, Timestamp, TurnEnded, TurnStarted,
};
use ostler_core::outcome::Outcome;
use ostler_store::{
    ApprovalDecision, ApprovalFilter, ApprovalSelection, ApprovalState, DecideResult,
    DeliveryResult, Filter, IdempotentRequest, Log, NewManaged, NewQueuedMessage, NewSession,
    QueueResult, Store,
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
        parent: None,
        key: None,
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

#[test]
fn approvals_are_listed_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for id in ["a", "b"] {
        store
            .create_managed(&managed(id, std::process::id(), false))
            .unwrap();
        for seq in 1..=5 {
            let mut asked = permission(Decision::Asked);
            asked.id = format!("{id}{seq}");
            append(&store, vec![entry(id, seq, asked)]).unwrap();
        }
    }
    // Decided in another order than asked; two of them at the same time.
    for (request, at) in [("a3", 30), ("a1", 50), ("b2", 50), ("b5", 10), ("a2", 20)] {
        let approval = store.pending_approval(&request[..1], request).unwrap();
        let decision = ApprovalDecision {
            state: ApprovalState::Allowed,
            by: "me",
            message: None,
            at: Timestamp(at),
        };
        store
            .decide_approval(&approval.unwrap().id, decision)
            .unwrap();
    }
    let pages = |selection, session: Option<&str>| {
        let mut filter = ApprovalFilter {
            selection,
            session: session.map(str::to_owned),
            after: None,
            limit: Some(2),
        };
        let mut all = Vec::new();
        loop {
            let page = store.list_approvals(&filter).unwrap();
            assert!(page.len() <= 2);
            let Some(last) = page.last() else {
                return all;
            };
            filter.after = Some(last.id.clone());
            all.extend(page);
        }
    };
    let decided = pages(ApprovalSelection::Decided, None);
    let at: Vec<i64> = decided.iter().map(|it| it.decided_at.unwrap().0).collect();
    assert_eq!(at, [50, 50, 30, 20, 10]);
    let pending = ApprovalSelection::In(ApprovalState::Pending);
    let own = pages(pending, Some("a"));
    let requests: Vec<&str> = own.iter().map(|it| it.request.as_str()).collect();
    assert_eq!(requests, ["a4", "a5"]);
    assert_eq!((&*own[0].name, &*own[0].agent), ("name of a", "one"));
    let all = pages(ApprovalSelection::All, None);
    assert_eq!(all, store.approvals(None).unwrap());
    assert_eq!(all.len(), 10);
    assert!(pages(ApprovalSelection::All, Some("x")).is_empty());
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

#[test]
fn lists_show_what_waits_and_are_filtered_by_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let waiting = NewManaged {
        request: r#"{"prompt":"requested\nlater"}"#.to_owned(),
        ..managed("a", std::process::id(), true)
    };
    store.create_managed(&waiting).unwrap();
    for id in ["b", "c"] {
        store
            .create_managed(&managed(id, std::process::id(), false))
            .unwrap();
    }
    let prompt = TurnStarted {
        origin: Origin::Caller,
        prompt: Some("\n Ändere den Parser\nand more".to_owned()),
    };
    append(
        &store,
        vec![
            entry("b", 1, prompt),
            entry("b", 2, permission(Decision::Asked)),
        ],
    )
    .unwrap();
    append(
        &store,
        vec![
            entry("c", 1, permission(Decision::Asked)),
            entry("c", 2, permission(Decision::Allowed)),
        ],
    )
    .unwrap();
    let mut plain = new_session("12345678-9", 1);
    plain.dir = "/Home/Projekt".into();
    plain.labels = [("Team".to_owned(), "Red".to_owned())].into();
    Log::open(&store, &plain).unwrap();
    append(&store, texts("12345678-9", 1, 3)).unwrap();
    let row = store.session("b").unwrap().unwrap();
    assert_eq!(
        (row.pending_approvals, row.last_seq, row.title().as_deref()),
        (1, 2, Some("Ändere den Parser"))
    );
    let row = store.session("a").unwrap().unwrap();
    assert_eq!(
        (row.pending_approvals, row.last_seq, row.title().as_deref()),
        (0, 0, Some("requested")),
        "it has a title before it starts"
    );
    let ids = |filter: &Filter| -> Vec<String> {
        let rows = store.sessions(filter).unwrap().into_iter();
        rows.map(|row| row.session).collect()
    };
    let waiting = Filter {
        waiting: true,
        ..Filter::default()
    };
    assert_eq!(ids(&waiting), ["b"]);
    for (text, expected) in [
        ("ändere", &["b"][..]),
        ("PARSER", &["b"]),
        ("more", &[]), // not in the title
        ("NAME OF", &["c", "b", "a"]),
        ("projekt", &["12345678-9"]),
        ("one-12345678", &["12345678-9"]),
        ("345678-9", &["12345678-9"]),
        ("%", &[]),
        ("'", &[]),
    ] {
        let filter = Filter {
            text: Some(text.to_owned()),
            ..Filter::default()
        };
        assert_eq!(ids(&filter), expected, "{text}");
        let none = Filter {
            agent: Some("nobody".to_owned()),
            ..filter
        };
        assert_eq!(ids(&none), Vec::<String>::new(), "{text}");
    }
    for (dir, label, expected) in [
        (Some("home/PROJ"), None, true),
        (Some("/home/projekt/x"), None, false),
        (None, Some("am=rE"), true),
        (None, Some("red=team"), false),
        (Some("projekt"), Some("team=blue"), false),
        (Some("projekt"), Some("team"), true),
    ] {
        let filter = Filter {
            dir_text: dir.map(str::to_owned),
            label_text: label.map(str::to_owned),
            ..Filter::default()
        };
        let expected: &[&str] = if expected { &["12345678-9"] } else { &[] };
        assert_eq!(ids(&filter), expected, "{dir:?} {label:?}");
    }
}
fn turn_ended() -> TurnEnded {
    TurnEnded {
        outcome: Outcome::completed(),
        text: String::new(),
        structured: None,
        usage: None,
    }
}

#[test]
fn deliveries_are_derived_from_the_log_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let now = Timestamp(1_000);
    let all = |_: &str, _: &str| true;
    store.create_managed(&managed("before", 1, false)).unwrap();
    append(&store, vec![entry("before", 1, turn_ended())]).unwrap();
    store.set_webhooks(&["hook", "other"]).unwrap();
    store
        .create_managed(&managed("a", u32::MAX, false))
        .unwrap();
    store.open(&new_session("unmanaged", 1)).unwrap();
    append(&store, texts("a", 1, 3)).unwrap();
    append(&store, vec![entry("a", 4, turn_ended())]).unwrap();
    append(&store, vec![entry("unmanaged", 1, turn_ended())]).unwrap();

    assert!(!store.add_deliveries("hook", now, all).unwrap());
    assert!(!store.add_deliveries("hook", now, all).unwrap());
    let (due, next) = store.due_deliveries("hook", now, 10).unwrap();
    assert_eq!(
        (due.len(), next),
        (1, None),
        "one per event, and only new ones"
    );
    assert_eq!((due[0].session.as_str(), due[0].attempts), ("a", 0));
    assert!(due[0].event.contains("turn_ended"));

    // What is not delivered is there after a restart, under the same id.
    let later = Timestamp(5_000);
    let retry = DeliveryResult::Retry(later);
    store.end_delivery(&due[0].id, retry).unwrap();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    store.set_webhooks(&["hook"]).unwrap();
    assert_eq!(
        store.due_deliveries("hook", now, 10).unwrap(),
        (vec![], Some(later))
    );
    let (again, _) = store.due_deliveries("hook", later, 10).unwrap();
    assert_eq!(
        (again[0].id.as_str(), again[0].attempts),
        (due[0].id.as_str(), 1)
    );
    store
        .end_delivery(&again[0].id, DeliveryResult::Done)
        .unwrap();
    assert_eq!(
        store.due_deliveries("hook", later, 10).unwrap(),
        (vec![], None)
    );
    // A webhook that is not configured any more gets nothing, and starts anew later.
    assert_eq!(
        store.due_deliveries("other", later, 10).unwrap(),
        (vec![], None)
    );
    // An event is not examined twice, and a removed session has no deliveries.
    append(&store, vec![entry("a", 5, turn_ended())]).unwrap();
    store.add_deliveries("hook", later, all).unwrap();
    assert_eq!(store.due_deliveries("hook", later, 10).unwrap().0.len(), 1);
    store.remove("a").unwrap();
    assert_eq!(store.due_deliveries("hook", later, 10).unwrap().0, []);
}

#[test]
fn children_are_listed_with_their_parent() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.create_managed(&managed("a", 1, false)).unwrap();
    for id in ["b", "c"] {
        let child = NewManaged {
            parent: Some("a".to_owned()),
            ..managed(id, 1, false)
        };
        store.create_managed(&child).unwrap();
    }
    let children = store.children("a").unwrap();
    let ids: Vec<&str> = children.iter().map(|row| row.session.as_str()).collect();
    assert_eq!(ids, ["b", "c"]);
    assert_eq!(children[0].parent.as_deref(), Some("a"));
    assert_eq!(store.session("a").unwrap().unwrap().parent, None);
    assert_eq!(store.children("b").unwrap(), []);
}

#[test]
fn messages_to_a_waiting_session_are_stored_in_order_and_limited() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.create_managed(&managed("a", 1, true)).unwrap();
    let begin = |key: &str| store.begin_idempotent(key, "f", Timestamp(10)).unwrap();
    let add = |session: &str, text: &str, key: Option<&str>| {
        let message = NewQueuedMessage {
            session,
            text,
            key,
            max_messages: 3,
            max_bytes: 10,
        };
        store.queue_message(&message).unwrap()
    };
    assert_eq!(begin("k"), IdempotentRequest::New);
    assert_eq!(add("a", "one", None), QueueResult::Stored);
    assert_eq!(add("a", "two", Some("k")), QueueResult::Stored);
    assert_eq!(add("a", "fiveš", None), QueueResult::Full, "too large");
    assert_eq!(add("a", "four", None), QueueResult::Stored);
    assert_eq!(add("a", "", None), QueueResult::Full, "too many");
    assert_eq!(add("b", "one", None), QueueResult::NotWaiting);
    // The daemon is killed before it answers the request, and the next one starts.
    store.forget_unanswered().unwrap();
    assert_eq!(begin("k"), IdempotentRequest::TookEffect("a".to_owned()));
    assert!(store.dequeue("a").unwrap());
    assert_eq!(add("a", "late", None), QueueResult::NotWaiting);
    assert_eq!(store.queued_messages("a").unwrap(), ["one", "two", "four"]);
    store.remove_queued_messages("a").unwrap();
    assert_eq!(store.queued_messages("a").unwrap(), [""; 0]);
}

// A session and the key of its request are stored together: no crash can separate them.
#[test]
fn a_session_is_stored_with_its_idempotency_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let begin = |key: &str| store.begin_idempotent(key, "f", Timestamp(10)).unwrap();
    assert_eq!(begin("k"), IdempotentRequest::New);
    assert_eq!(begin("lost"), IdempotentRequest::New);
    let new = NewManaged {
        key: Some("k".to_owned()),
        ..managed("a", 1, true)
    };
    store.create_managed(&new).unwrap();
    assert_eq!(begin("k"), IdempotentRequest::Running);
    // The daemon is killed, and the next one starts.
    store.forget_unanswered().unwrap();
    assert_eq!(begin("k"), IdempotentRequest::TookEffect("a".to_owned()));
    assert_eq!(begin("lost"), IdempotentRequest::New);
    store.end_idempotent("k", Some("201 {}")).unwrap();
    assert_eq!(begin("k"), IdempotentRequest::Done("201 {}".to_owned()));
}

// Nothing of a removed session is left in a response to the request that created it.
#[test]
fn responses_that_show_a_removed_session_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let begin = |key: &str| store.begin_idempotent(key, "f", Timestamp(10)).unwrap();
    for id in ["first", "second"] {
        let session = managed(id, u32::MAX, false);
        store.create_managed(&session).unwrap();
        append(&store, texts(id, 1, 1)).unwrap();
    }
    let own = r#"201 {"id":"first","title":"the prompt"}"#;
    let child = r#"201 {"id":"second","parent":"first"}"#;
    let responses = [
        ("own", own),
        ("sent", own),
        ("child", child),
        ("text", "first"),
    ];
    for (key, response) in responses {
        assert_eq!(begin(key), IdempotentRequest::New);
        store.end_idempotent(key, Some(response)).unwrap();
    }
    store.remove("first").unwrap();
    let gone = IdempotentRequest::TookEffect("first".to_owned());
    assert_eq!([begin("own"), begin("sent")], [gone.clone(), gone]);
    for (key, response) in &responses[2..] {
        let done = IdempotentRequest::Done((*response).to_owned());
        assert_eq!(begin(key), done, "it shows no removed session");
    }
}
