//! Databases of other formats: older ones always open, newer ones are refused with a clear message.

use ostler_core::event::Timestamp;
use ostler_core::outcome::Cause;
use ostler_store::{
    Cancel, Filter, Log, SearchQuery, SessionStatus, Store, StoreError, UsageKey, UsageQuery,
};

use crate::rig::{append, texts};

/// A database of the first format.
const V1: &str = include_str!("../../../../fixtures/store/v1.sql");

/// The migrations to later formats.
const MIGRATIONS: [&str; 4] = [
    include_str!("../../src/schema/2.sql"),
    include_str!("../../src/schema/3.sql"),
    include_str!("../../src/schema/4.sql"),
    include_str!("../../src/schema/5.sql"),
];

/// Returns the numbers of the events that a search finds.
fn found(store: &Store, text: &str) -> Vec<u64> {
    let query = SearchQuery::new(text, 10);
    let page = store.search(&query, &Cancel::default()).unwrap();
    page.hits.into_iter().map(|hit| hit.seq).collect()
}

fn first_format(dir: &std::path::Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(dir.join("sessions.db")).unwrap();
    db.execute_batch(V1).unwrap();
    db
}

#[test]
fn the_first_format_always_opens() {
    let dir = tempfile::tempdir().unwrap();
    drop(first_format(dir.path()));
    let store = Store::open(dir.path()).unwrap();
    let row = store.look_up("4f1c").unwrap().unwrap();
    assert_eq!(
        (row.status, row.turns, row.tokens),
        (SessionStatus::Ended(Cause::Completed), 1, Some(7))
    );
    assert_eq!(
        row.prompt.as_deref(),
        Some("say it's done 😀"),
        "migration 2 reads it from the events"
    );
    assert_eq!(
        (row.began_at, row.native_session.as_deref()),
        (Timestamp(1_767_225_600_000), Some("n-1"))
    );
    assert_eq!(store.read(&row.session, 1, 99).unwrap().len(), 5);
    // The other session was interrupted: it counts as abandoned, and accepts further events.
    let interrupted = store.look_up("9b2e").unwrap().unwrap();
    assert_eq!(
        (interrupted.status, interrupted.prompt),
        (SessionStatus::Abandoned, None)
    );
    append(&store, texts(&interrupted.session, 2, 3)).unwrap();
    assert_eq!(store.read(&interrupted.session, 1, 99).unwrap().len(), 4);
    assert_eq!(
        store.unknown_messages(Timestamp(0)).unwrap(),
        [],
        "migration 3 counts only later messages"
    );
    drop(store);
    let again = Store::open(dir.path()).unwrap();
    assert_eq!(
        again.look_up("4f1c").unwrap().unwrap().prompt.as_deref(),
        Some("say it's done 😀")
    );
}

// It could take longer than the session that is to be stored.
#[test]
fn the_migration_of_a_large_database_is_waited_for() {
    for (bytes, is_waited_for) in [(1, false), (5 * 1024 * 1024, true)] {
        let dir = tempfile::tempdir().unwrap();
        let db = first_format(dir.path());
        let more = "CREATE TABLE more (bytes); DROP TABLE events"; // which a migration needs
        db.execute_batch(more).unwrap();
        let insert = "INSERT INTO more VALUES (zeroblob(?1))";
        db.execute(insert, [bytes]).unwrap();
        drop(db);
        let opened = Store::open_in_background(dir.path());
        assert_eq!(opened.is_err(), is_waited_for, "{bytes}");
    }
}

// On a read-only disk, nothing is migrated, and everything can still be read.
#[test]
fn earlier_formats_can_be_read_without_migration() {
    for version in 1..=5_i32 {
        let dir = tempfile::tempdir().unwrap();
        let db = first_format(dir.path());
        let applied = usize::try_from(version - 1).unwrap();
        MIGRATIONS
            .iter()
            .take(applied)
            .for_each(|migration| db.execute_batch(migration).unwrap());
        db.pragma_update(None, "user_version", version).unwrap();
        db.close().unwrap();
        let before = std::fs::read(dir.path().join("sessions.db")).unwrap();
        let store = Store::open_to_read(dir.path()).unwrap();
        let rows = store.sessions(&Filter::default()).unwrap();
        assert_eq!(rows.len(), 2, "{version}");
        let row = store.look_up("4f1c").unwrap().unwrap();
        assert_eq!(
            (row.turns, row.prompt.as_deref()),
            (1, Some("say it's done 😀")),
            "{version}"
        );
        assert_eq!(store.look_up("n-1").unwrap().unwrap().session, row.session);
        assert_eq!(
            store.read(&row.session, 1, 99).unwrap().len(),
            5,
            "{version}"
        );
        assert_eq!(store.unknown_messages(Timestamp(0)).unwrap(), []);
        let texts = ["done 😀", "say", "nothing"].map(|text| found(&store, text));
        assert_eq!(texts, [vec![2], vec![2], vec![]], "{version}");
        assert_eq!(found(&store, "done"), [3, 2], "{version}");
        let usage = store.usage(&UsageQuery::by(UsageKey::Agent)).unwrap();
        assert_eq!(
            (usage.total.turns, usage.total.usage.output),
            (1, Some(4)),
            "{version}"
        );
        drop(store);
        assert_eq!(
            std::fs::read(dir.path().join("sessions.db")).unwrap(),
            before,
            "{version}"
        );
        // A writable database is migrated from there, and indexed by the first search.
        let store = Store::open(dir.path()).unwrap();
        let rows = store.sessions(&Filter::default()).unwrap();
        assert_eq!(rows.len(), 2, "{version}");
        assert_eq!(store.unindexed_events().unwrap(), 6, "{version}");
        assert_eq!(found(&store, "done"), [3, 2], "{version}");
        assert_eq!(store.unindexed_events().unwrap(), 0, "{version}");
        assert_eq!(found(&store, "done"), [3, 2], "{version}");
    }
}

#[test]
fn a_newer_format_is_refused_with_the_version_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute_batch(
        "PRAGMA user_version = 99; UPDATE meta SET value = '7.8.9' WHERE key = 'ostler'",
    )
    .unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found: 99, .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("use Ostler 7.8.9 or newer"),
        "{error}"
    );
}
