//! Storing and querying: appended events are stored in order and found again; errors are reported.

use ostler_core::event::{
    DecidedBy, Decision, EventKind, Permission, SessionState, State, Timestamp,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::CostSource;
use ostler_store::{Filter, Log, SessionStatus, Store, StoreError};
use ostler_testkit::machine::{self, Need};

use crate::rig::{append, entry, mode, new_session, store_whole, text, texts, wait, whole_session};

#[test]
fn appended_events_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let entries = whole_session("aaaa-1", "wörds 😀 and more", "an answer");
    let events: Vec<_> = entries.iter().map(|entry| entry.event.clone()).collect();
    {
        let store = Store::open(dir.path()).unwrap();
        Log::open(&store, &new_session("aaaa-1", 7)).unwrap();
        append(&store, entries[..2].to_vec()).unwrap();
        assert_eq!(store.read("aaaa-1", 1, 9).unwrap(), events[..2]);
        // Not awaited: dropping the store waits.
        drop(store.append(std::sync::Arc::new(entries[2..].to_vec())));
    }
    let store = Store::open(dir.path()).unwrap();
    for (from, most, want) in [
        (0, 99, &events[..]),
        (1, 99, &events[..]),
        (3, 2, &events[2..4]),
        (6, 9, &[]),
    ] {
        assert_eq!(
            store.read("aaaa-1", from, most).unwrap(),
            want,
            "{most} from {from}"
        );
    }
    assert_eq!(store.read("unknown", 1, 9).unwrap(), []);
}

#[test]
fn a_session_is_described_by_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut opened = new_session("aaaa-1", 7);
    opened.continues = Some("earlier".into());
    Log::open(&store, &opened).unwrap();
    let entries = whole_session("aaaa-1", &"é".repeat(300), "an answer");
    append(&store, entries[..3].to_vec()).unwrap();
    let row = store.session("aaaa-1").unwrap().unwrap();
    assert_eq!(
        (row.status, row.turns, row.ended_at),
        (SessionStatus::Live(std::process::id()), 1, None)
    );
    assert_eq!(
        (row.tokens, row.cost_usd, row.cost_source),
        (None, None, CostSource::Unknown)
    );
    append(&store, entries[3..].to_vec()).unwrap();
    let row = store.session("aaaa-1").unwrap().unwrap();
    assert_eq!(
        (row.status, row.began_at, row.ended_at),
        (
            SessionStatus::Ended(Cause::Completed),
            Timestamp(7),
            Some(Timestamp(1_000_005))
        )
    );
    assert_eq!(
        (row.tokens, row.cost_usd, row.cost_source),
        (Some(7), Some(0.5), CostSource::Reported)
    );
    assert_eq!(
        (
            row.agent.as_str(),
            row.agent_version.as_deref(),
            row.model.as_deref()
        ),
        ("one", Some("1.2"), Some("m"))
    );
    assert_eq!(
        (row.continues.as_deref(), row.prompt),
        (Some("earlier"), Some("é".repeat(200)))
    );
}

/// Returns the integer that a query yields.
fn number(dir: &std::path::Path, sql: &str) -> Option<i64> {
    let db = rusqlite::Connection::open(dir.join("sessions.db")).unwrap();
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn permissions_states_and_turns_are_rows_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    Log::open(&store, &new_session("aaaa-1", 7)).unwrap();
    let asked = |decision, by| {
        let asked: Permission = serde_json::from_value(serde_json::json!({
            "id": "call", "tool": "Bash", "input": null, "decision": decision, "by": by
        }))
        .unwrap();
        asked
    };
    let mut entries = whole_session("aaaa-1", "a task", "words")[..2].to_vec();
    entries.push(entry(
        "aaaa-1",
        3,
        asked(Decision::Asked, DecidedBy::Default),
    ));
    entries.push(entry(
        "aaaa-1",
        4,
        asked(Decision::Denied, DecidedBy::Person),
    ));
    entries.push(entry(
        "aaaa-1",
        5,
        State {
            from: SessionState::Working,
            to: SessionState::Paused,
        },
    ));
    let turn_ended = whole_session("aaaa-1", "a task", "words")[3]
        .event
        .kind
        .clone();
    entries.push(entry("aaaa-1", 6, turn_ended));
    append(&store, entries).unwrap();
    for (sql, want) in [
        (
            "SELECT asked_at FROM permissions WHERE decision = 'denied' AND decided_by = 'person'",
            1_000_003,
        ),
        ("SELECT answered_at FROM permissions", 1_000_004),
        (
            "SELECT count(*) FROM sessions WHERE state = 'paused' AND tokens = 7 AND cost_usd = 0.5",
            1,
        ),
        (
            "SELECT ended_at FROM turns WHERE turn = 1 AND origin = 'caller' AND cause = 'completed' AND input = 3",
            1_000_006,
        ),
        (
            "SELECT raw_offset FROM events WHERE seq = 4 AND type = 'permission' AND turn = 1",
            40,
        ),
    ] {
        assert_eq!(number(dir.path(), sql), Some(want), "{sql}");
    }
}

#[test]
fn a_session_is_found_by_its_ids_and_by_a_prefix_of_either() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (at, session) in [(1, "aaaa-1"), (2, "aaaa-2"), (3, "bbbb-1"), (4, "aaa")] {
        store_whole(&store, session, at);
    }
    // A later session that continues the agent's session.
    Log::open(&store, &new_session("cccc-1", 9)).unwrap();
    let mut again = whole_session("bbbb-1", "more", "words").remove(0);
    again.event.session = "cccc-1".into();
    append(&store, vec![again]).unwrap();
    let found = |id: &str| store.find(id).unwrap().map(|known| known.session);
    for (id, want) in [
        ("aaaa-1", Some("aaaa-1")),
        ("bbbb", Some("bbbb-1")),
        ("b", Some("bbbb-1")),
        ("aaa", Some("aaa")),
        ("native-aaaa-2", Some("aaaa-2")),
        ("native-bbbb-1", Some("cccc-1")), // the newest
        ("native-b", Some("cccc-1")),      // the newest of those that share it
        ("native-aaa-", None),
        ("%%%%", None),
        ("", None),
    ] {
        assert_eq!(found(id).as_deref(), want, "{id}");
    }
    // A session whose agent's id has the same prefix as another session's id.
    Log::open(&store, &new_session("dddd-1", 10)).unwrap();
    let mut like = whole_session("dddd-1", "more", "words").remove(0);
    let EventKind::Started(started) = &mut like.event.kind else {
        panic!("not the start")
    };
    started.native_session = Some("cccc-2".into());
    append(&store, vec![like]).unwrap();
    for (id, several) in [
        ("aaaa", &["aaaa-2", "aaaa-1"][..]),
        ("native-aaaa", &["aaaa-2", "aaaa-1"]),
        ("native-", &["cccc-1", "aaa", "aaaa-2", "aaaa-1"]),
        ("cccc", &["dddd-1", "cccc-1"]),
    ] {
        let candidates = several.iter().map(|id| (*id).to_owned()).collect();
        let error = StoreError::Ambiguous {
            id: id.into(),
            candidates,
            more: false,
        };
        assert!(
            several.iter().all(|id| error.to_string().contains(id)),
            "{error}"
        );
        assert_eq!(store.look_up(id), Err(error));
    }
    for n in 0..12 {
        store_whole(&store, &format!("eeee-{n}"), 20 + n);
    }
    let Err(StoreError::Ambiguous {
        candidates, more, ..
    }) = store.look_up("e")
    else {
        panic!("not ambiguous")
    };
    assert_eq!(
        (candidates.len(), candidates[0].as_str(), more),
        (10, "eeee-11", true)
    );
    assert_eq!(
        store.find("cccc-1").unwrap().unwrap().held_by,
        Some(std::process::id())
    );
    assert_eq!(
        store.find("aaaa-1").unwrap().unwrap().held_by,
        None,
        "it ended"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one flat table")]
fn lists_are_newest_first_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store_whole(&store, "s-1", 1);
    store_whole(&store, "s-3", 3);
    let mut other = new_session("s-2", 2);
    other.agent = "two".into();
    // Not UTF-8.
    other.dir = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"/else\xff").into();
    Log::open(&store, &other).unwrap();
    let mut gone = new_session("s-0", 0);
    gone.pid = u32::MAX;
    Log::open(&store, &gone).unwrap();
    store.flush();
    let list = |filter: Filter| -> Vec<String> {
        store
            .sessions(&filter)
            .unwrap()
            .into_iter()
            .map(|row| row.session)
            .collect()
    };
    let all = Filter::default;
    assert_eq!(list(all()), ["s-3", "s-2", "s-1", "s-0"]);
    assert_eq!(
        list(Filter {
            limit: Some(2),
            ..all()
        }),
        ["s-3", "s-2"]
    );
    assert_eq!(
        list(Filter {
            agent: Some("two".into()),
            ..all()
        }),
        ["s-2"]
    );
    assert_eq!(
        list(Filter {
            dir: Some(other.dir.clone()),
            ..all()
        }),
        ["s-2"]
    );
    assert_eq!(
        list(Filter {
            live: true,
            limit: Some(9),
            ..all()
        }),
        ["s-2"]
    );
    // A running session may still get its first turn. An ended one without a turn is left out.
    let worked = || Filter {
        without_failed_starts: true,
        ..all()
    };
    assert_eq!(list(worked()), ["s-3", "s-2", "s-1"]);
    assert_eq!(
        list(Filter {
            limit: Some(2),
            ..worked()
        }),
        ["s-3", "s-2"]
    );
    // A turn of an agent that never started does not count, unless the caller interrupted it.
    for (n, cause) in [
        (4, Cause::Unavailable),
        (5, Cause::Interrupted),
        (6, Cause::StartupLimit),
        (7, Cause::Auth),
    ] {
        let session = format!("s-{n}");
        Log::open(&store, &new_session(&session, n)).unwrap();
        let mut entries = whole_session(&session, "a task", "words");
        let started = entries.remove(0);
        let Some(EventKind::Ended(ended)) = entries.last_mut().map(|last| &mut last.event.kind)
        else {
            panic!("no end")
        };
        ended.outcome = Outcome::new(cause, "over");
        if cause == Cause::Auth {
            entries.insert(0, started);
        }
        (1..)
            .zip(&mut entries)
            .for_each(|(seq, entry)| entry.event.seq = seq);
        append(&store, entries).unwrap();
    }
    assert_eq!(list(worked()), ["s-7", "s-5", "s-3", "s-2", "s-1"]);
    assert_eq!(
        store
            .latest(std::path::Path::new("/work"))
            .unwrap()
            .unwrap()
            .session,
        "s-7"
    );
    assert_eq!(
        store.latest(std::path::Path::new("/nowhere")).unwrap(),
        None
    );
    assert_eq!(store.session("s-2").unwrap().unwrap().dir, other.dir);
    // P12: its process is gone.
    assert_eq!(
        store.session("s-0").unwrap().unwrap().status,
        SessionStatus::Abandoned
    );
}

#[test]
fn a_gap_is_rejected_and_does_not_affect_other_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for session in ["good", "bad"] {
        Log::open(&store, &new_session(session, 1)).unwrap();
    }
    append(&store, texts("bad", 1, 2)).unwrap();
    // All are queued at once, so that they share a transaction.
    let jobs = [
        texts("good", 1, 3),
        texts("bad", 4, 1),
        texts("bad", 3, 1),
        texts("good", 4, 3),
        texts("never", 1, 1),
    ];
    let waiting: Vec<_> = jobs
        .into_iter()
        .map(|job| store.append(std::sync::Arc::new(job)))
        .collect();
    let results: Vec<_> = waiting
        .into_iter()
        .map(|it| wait(it).map_err(|error| error.0))
        .collect();
    let gap = Err("session bad: event 4 of bad cannot follow event 2".to_owned());
    let never = Err("session never: it was never opened, or was pruned".to_owned());
    // Once an event is lost, the session accepts no more: not even the missing one.
    assert_eq!(results, [Ok(()), gap.clone(), gap, Ok(()), never]);
    let count = |session: &str| store.read(session, 1, 99).unwrap().len();
    assert_eq!((count("good"), count("bad")), (6, 2));
    Log::open(&store, &new_session("good", 1)).unwrap();
    assert!(
        append(&store, texts("good", 7, 1))
            .unwrap_err()
            .0
            .contains("session good: "),
        "opened twice"
    );
    let foreign = vec![entry("good", 7, text("x")), entry("bad", 8, text("x"))];
    assert!(append(&store, foreign).is_err());
}

// A reader that is older than the event still gets its text.
#[test]
fn an_event_of_an_unknown_kind_is_read_as_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store_whole(&store, "s-1", 1);
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute(
        "UPDATE events SET json = '{\"type\":\"later\"}' WHERE seq = 3",
        [],
    )
    .unwrap();
    let events = store.read("s-1", 1, 99).unwrap();
    assert_eq!(
        (events.len(), events[2].seq, events[2].kind.as_str()),
        (5, 3, "unreadable")
    );
    assert!(events[2].to_json().contains("later"));
}

#[test]
fn files_are_private_to_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let store = Store::open(&state).unwrap();
    store_whole(&store, "s-1", 1);
    let raw = store.raw("s-1").unwrap();
    assert_eq!(raw, state.join("raw/s-1.log"));
    for (path, want) in [
        (state.clone(), 0o700),
        (state.join("raw"), 0o700),
        (raw, 0o600),
    ] {
        assert_eq!(mode(&path), want, "{}", path.display());
    }
    for name in [
        "sessions.db",
        "sessions.db-wal",
        "sessions.db-shm",
        "setup.lock",
    ] {
        assert_eq!(mode(&state.join(name)), 0o600, "{name}");
    }
    for bad in ["../x", "a/b", ""] {
        assert_eq!(store.raw(bad), None, "{bad}");
        assert!(Log::open(&store, &new_session(bad, 1)).is_err(), "{bad}");
    }
}

#[test]
fn an_unusable_path_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &std::path::Path| Store::open(path).unwrap_err().to_string();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let error = open(&dir.path().join("file/state"));
    assert!(
        error.contains("file/state") && error.contains("Not a directory"),
        "{error}"
    );
    let public = dir.path().join("public");
    std::fs::create_dir(&public).unwrap();
    std::fs::set_permissions(&public, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert!(open(&public).contains("chmod o-w"));
    let garbage = dir.path().join("garbage");
    std::fs::create_dir(&garbage).unwrap();
    std::fs::write(garbage.join("sessions.db"), "no database".repeat(500)).unwrap();
    let error = open(&garbage);
    assert!(
        error.contains("garbage/sessions.db: ") && error.contains("not a database"),
        "{error}"
    );
}

#[test]
fn a_database_that_is_opened_in_the_background_can_be_used_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_in_background(dir.path()).unwrap();
    assert!(store.sessions(&Filter::default()).unwrap().is_empty());
    let store = Store::open_in_background(dir.path()).unwrap();
    store_whole(&store, "s-1", 1);
    assert!(store.session("s-1").unwrap().is_some());
}

#[test]
fn a_database_that_cannot_be_opened_in_the_background_fails_every_request() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sessions.db"), "no database".repeat(500)).unwrap();
    let store = Store::open_in_background(dir.path()).unwrap();
    Log::open(&store, &new_session("s-1", 1)).unwrap();
    let error = append(&store, texts("s-1", 1, 1)).unwrap_err().to_string();
    assert!(error.contains("not a database"), "{error}");
    let error = store.session("s-1").unwrap_err().to_string();
    assert!(error.contains("not a database"), "{error}");
    store.flush();
}

// One transaction instead of two: a session that was opened waits for its first events.
#[test]
fn a_session_is_stored_with_its_first_events() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    Log::open(&store, &new_session("s-1", 1)).unwrap();
    append(&store, texts("s-1", 1, 1)).unwrap();
    assert!(store.session("s-1").unwrap().is_some());
    // Without events, it is stored when the store is closed.
    Log::open(&store, &new_session("s-2", 2)).unwrap();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert!(store.session("s-2").unwrap().is_some());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let need = Need::of(rustix::process::geteuid().is_root(), || {
        "only root can change the owner of a directory".to_owned()
    });
    if !machine::can_run("a_directory_of_another_user_is_refused", &need) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(12345), None).unwrap();
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("belongs to another user (uid 12345"),
        "{error}"
    );
}

// The kind is a field of its own, so the sentence may change. Older logs have no such field.
#[test]
fn an_unknown_message_is_counted_by_its_field_and_not_by_its_sentence() {
    use ostler_core::event::EventKind;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.open(&new_session("s", 10)).unwrap();
    let notices = [
        r#""Quoi?","unknown_kind":"type \"a\"""#,
        r#""One said something that Ostler does not know: type \"b\".""#,
    ];
    let entries = (1..).zip(notices).map(|(seq, rest)| {
        let head = r#""type":"notice","level":"debug","code":"unknown_message","message""#;
        let kind = EventKind::from_json(&format!("{{{head}:{rest}}}"));
        entry("s", seq, kind.unwrap())
    });
    append(&store, entries.collect()).unwrap();
    let rows = store.unknown_messages(Timestamp(0)).unwrap();
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["type \"a\""]);
    assert_eq!(store.read("s", 1, 99).unwrap().len(), 2);
}

// Unknown messages are counted by kind and version.
#[test]
fn unknown_messages_are_counted() {
    use ostler_core::event::{Notice, Started};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let version = |it: &str| Started {
        agent: "one".into(),
        agent_version: Some(it.into()),
        native_session: None,
        model: None,
        cwd: None,
        tools: Vec::new(),
    };
    let unknown = |kind: &str| Notice::unknown_message("One", kind, None);
    for (session, at, own, kinds) in [
        ("old", 10, "1.0.0", &["type \"a\""][..]),
        (
            "new",
            20,
            "2.0.0",
            &["type \"a\"", "type \"b\"", "type \"a\""],
        ),
        ("newer", 30, "2.0.0", &["type \"a\""]),
    ] {
        store.open(&new_session(session, at)).unwrap();
        let mut entries = vec![entry(session, 1, version(own))];
        entries.extend(
            (2..)
                .zip(kinds)
                .map(|(seq, kind)| entry(session, seq, unknown(kind))),
        );
        append(&store, entries).unwrap();
    }
    let counted = |since: i64| -> Vec<(String, String, u64, u64)> {
        let rows = store
            .unknown_messages(Timestamp(since))
            .unwrap()
            .into_iter();
        rows.map(|row| {
            (
                row.agent_version.unwrap(),
                row.kind,
                row.count,
                row.sessions,
            )
        })
        .collect()
    };
    let row = |version: &str, kind: &str, count, sessions| {
        (
            version.to_owned(),
            format!("type {kind:?}"),
            count,
            sessions,
        )
    };
    assert_eq!(
        counted(0),
        [
            row("2.0.0", "a", 3, 2),
            row("1.0.0", "a", 1, 1),
            row("2.0.0", "b", 1, 1)
        ]
    );
    assert_eq!(counted(30), [row("2.0.0", "a", 1, 1)]);
    assert_eq!(
        store.unknown_messages(Timestamp(0)).unwrap()[0].agent,
        "one"
    );
    // The number of kinds is limited, the number of messages of a known kind is not.
    store.open(&new_session("flood", 40)).unwrap();
    let made_up = (1..=300).map(|seq| {
        entry(
            "flood",
            seq,
            unknown(&format!(
                "type {}",
                "x".repeat(usize::try_from(seq).unwrap())
            )),
        )
    });
    append(&store, made_up.collect()).unwrap();
    let rows = store.unknown_messages(Timestamp(40)).unwrap();
    assert!(
        rows.len() == 100 && rows.iter().all(|row| row.kind.len() <= 200),
        "{}",
        rows.len()
    );
    append(
        &store,
        (301..=1300)
            .map(|seq| entry("flood", seq, unknown("type x")))
            .collect(),
    )
    .unwrap();
    assert_eq!(
        store.unknown_messages(Timestamp(40)).unwrap()[0].count,
        1001
    );
}
