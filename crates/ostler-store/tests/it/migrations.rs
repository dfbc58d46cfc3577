//! Databases of other versions: an old one always opens, a newer one is refused in clear words.

use ostler_core::event::At;
use ostler_core::outcome::Cause;
use ostler_store::{Log, Standing, Store, StoreError};

use crate::rig::{append, texts};

/// A database of the first format, as the first Ostler made it.
const V1: &str = include_str!("../../../../fixtures/store/v1.sql");

fn old(dir: &std::path::Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(dir.join("sessions.db")).unwrap();
    db.execute_batch(V1).unwrap();
    db
}

#[test]
fn the_first_format_opens_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    drop(old(dir.path()));
    let store = Store::open(dir.path()).unwrap();
    let row = store.look_up("4f1c").unwrap().unwrap();
    assert_eq!((row.standing, row.turns, row.tokens), (Standing::Ended(Cause::Completed), 1, Some(7)));
    assert_eq!(row.prompt.as_deref(), Some("say it's done 😀"), "the second step reads it from the events");
    assert_eq!((row.began_at, row.native_session.as_deref()), (At(1_767_225_600_000), Some("n-1")));
    assert_eq!(store.read(&row.session, 1, 99).unwrap().len(), 5);
    // The other was cut off; it is as if its driver had gone, and can be gone on with by whoever has it.
    let cut = store.look_up("9b2e").unwrap().unwrap();
    assert_eq!((cut.standing, cut.prompt), (Standing::Abandoned, None));
    append(&store, texts(&cut.session, 2, 3)).unwrap();
    assert_eq!(store.read(&cut.session, 1, 99).unwrap().len(), 4);
    assert_eq!(store.unknown_messages(At(0)).unwrap(), [], "the third step counts from now on");
    drop(store);
    let again = Store::open(dir.path()).unwrap();
    assert_eq!(again.look_up("4f1c").unwrap().unwrap().prompt.as_deref(), Some("say it's done 😀"));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute_batch("PRAGMA user_version = 99; UPDATE meta SET value = '7.8.9' WHERE key = 'ostler'").unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("use Ostler 7.8.9 or newer"), "{error}");
}
