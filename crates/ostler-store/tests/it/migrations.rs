//! Databases of other versions: an old one always opens, a newer one is refused in clear words.

use ostler_core::event::At;
use ostler_core::outcome::Cause;
use ostler_store::{Filter, Log, Standing, Store, StoreError, UsageKey, UsageQuery};

use crate::rig::{append, texts};

/// A database of the first format, as the first Ostler made it.
const V1: &str = include_str!("../../../../fixtures/store/v1.sql");

/// The steps that made later formats of it.
const STEPS: [&str; 2] = [include_str!("../../src/schema/2.sql"), include_str!("../../src/schema/3.sql")];

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

// A disk that cannot be written: nothing is brought up to date there, and everything can be read all the same.
#[test]
fn earlier_formats_can_be_read_as_they_are() {
    for version in 1..=3_i32 {
        let dir = tempfile::tempdir().unwrap();
        let db = old(dir.path());
        let later = usize::try_from(version - 1).unwrap();
        STEPS.iter().take(later).for_each(|step| db.execute_batch(step).unwrap());
        db.pragma_update(None, "user_version", version).unwrap();
        db.close().unwrap();
        let before = std::fs::read(dir.path().join("sessions.db")).unwrap();
        let store = Store::open_to_read(dir.path()).unwrap();
        let rows = store.sessions(&Filter::default()).unwrap();
        assert_eq!(rows.len(), 2, "{version}");
        let row = store.look_up("4f1c").unwrap().unwrap();
        assert_eq!((row.turns, row.prompt.as_deref()), (1, Some("say it's done 😀")), "{version}");
        assert_eq!(store.look_up("n-1").unwrap().unwrap().session, row.session);
        assert_eq!(store.read(&row.session, 1, 99).unwrap().len(), 5, "{version}");
        assert_eq!(store.unknown_messages(At(0)).unwrap(), []);
        assert_eq!(store.search("done", &Filter::default()).unwrap().len(), 1, "{version}");
        let usage = store.usage(&UsageQuery { since: None, by: UsageKey::Agent }).unwrap();
        assert_eq!((usage.total.turns, usage.total.usage.output), (1, Some(4)), "{version}");
        drop(store);
        assert_eq!(std::fs::read(dir.path().join("sessions.db")).unwrap(), before, "{version}");
        // Where it can be written, it is brought up to date from there.
        assert_eq!(Store::open(dir.path()).unwrap().sessions(&Filter::default()).unwrap().len(), 2, "{version}");
    }
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
