//! Pruning: by age and by size, but never a running session.

use ostler_core::event::Timestamp;
use ostler_core::log::older_raw;
use ostler_store::{Filter, Log, PruneLimits, Pruned, Store, StoreError};

use crate::rig::{append, new_session, store_whole, texts};

fn ids(store: &Store) -> Vec<String> {
    store
        .sessions(&Filter::default())
        .unwrap()
        .into_iter()
        .map(|row| row.session)
        .rev()
        .collect()
}

/// Three ended sessions (the second with raw output), an abandoned one, and a live one.
fn filled_store(dir: &std::path::Path) -> Store {
    let store = Store::open(dir).unwrap();
    for (at, session) in [(100, "old"), (200, "raw"), (300, "new")] {
        store_whole(&store, session, at);
    }
    // Raw output near its limit is in two files. Both count, and both are removed.
    std::fs::write(store.raw("raw").unwrap(), vec![b'x'; 400_000]).unwrap();
    std::fs::write(older_raw(&store.raw("raw").unwrap()), vec![b'x'; 600_000]).unwrap();
    let mut gone = new_session("gone", 50);
    gone.pid = u32::MAX;
    Log::open(&store, &gone).unwrap();
    Log::open(&store, &new_session("live", 10)).unwrap();
    store.flush();
    store
}

#[test]
fn sessions_are_removed_by_age_and_by_size_oldest_first() {
    let old = |at| PruneLimits {
        older_than: Some(Timestamp(at)),
        ..PruneLimits::default()
    };
    let large = |bytes| PruneLimits {
        larger_than_bytes: Some(bytes),
        ..PruneLimits::default()
    };
    for (limits, expected) in [
        (PruneLimits::default(), &[][..]),
        (old(100), &["gone"]),
        (old(101), &["gone"]), // the last event of "old" is from 101
        (old(102), &["gone", "old"]),
        (old(i64::MAX), &["gone", "old", "raw", "new"]),
        (large(u64::MAX), &[]),
        (large(1_000_000), &["gone", "old", "raw"]),
        (large(0), &["gone", "old", "raw", "new"]),
        (
            PruneLimits {
                larger_than_bytes: Some(0),
                ..old(1)
            },
            &["gone", "old", "raw", "new"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = filled_store(dir.path());
        let before = ids(&store);
        let planned = store.prune(&limits, true).unwrap();
        assert_eq!(
            (planned.sessions.as_slice(), ids(&store)),
            (
                &expected
                    .iter()
                    .map(|id| (*id).to_owned())
                    .collect::<Vec<_>>()[..],
                before.clone()
            ),
            "{limits:?}"
        );
        assert_eq!(store.prune(&limits, false).unwrap(), planned);
        let left: Vec<String> = before
            .into_iter()
            .filter(|id| !expected.contains(&id.as_str()))
            .collect();
        assert_eq!(ids(&store), left, "{limits:?}");
        assert_eq!(
            planned.bytes > 1_000_000,
            expected.contains(&"raw"),
            "{planned:?}"
        );
        let raw = store.raw("raw").unwrap();
        assert_eq!(
            (raw.exists(), older_raw(&raw).exists()),
            (!expected.contains(&"raw"), !expected.contains(&"raw"))
        );
        assert_eq!(
            store.prune(&limits, false).unwrap(),
            Pruned::default(),
            "nothing is left to remove"
        );
    }
}

#[test]
fn pruning_shrinks_the_file_and_a_live_session_continues() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    append(&store, texts("live", 1, 20_000)).unwrap();
    Log::open(&store, &new_session("large", 20)).unwrap();
    append(&store, texts("large", 1, 20_000)).unwrap();
    let db = rusqlite::Connection::open(dir.path().join("sessions.db")).unwrap();
    db.execute(
        "UPDATE sessions SET driver_pid = 4294967295 WHERE session = 'large'",
        [],
    )
    .unwrap();
    drop(db);
    let size = || {
        ["", "-wal"]
            .map(|end| {
                dir.path()
                    .join(format!("sessions.db{end}"))
                    .metadata()
                    .map_or(0, |m| m.len())
            })
            .iter()
            .sum::<u64>()
    };
    let before = size();
    // Old raw output without a session is removed, too.
    let orphan = dir.path().join("raw/orphan.log");
    std::fs::write(&orphan, "x").unwrap();
    std::fs::write(older_raw(&orphan), "x").unwrap();
    let pruned = store
        .prune(
            &PruneLimits {
                older_than: Some(Timestamp(2_000_000)),
                ..PruneLimits::default()
            },
            false,
        )
        .unwrap();
    assert!(
        pruned.sessions.contains(&"large".to_owned()) && size() < before * 2 / 3,
        "{before} {}",
        size()
    );
    assert!(orphan.exists(), "it is new");
    store
        .prune(
            &PruneLimits {
                older_than: Some(Timestamp(i64::MAX / 2_000_000)),
                ..PruneLimits::default()
            },
            false,
        )
        .unwrap();
    assert!(!older_raw(&orphan).exists());
    assert!(!orphan.exists() && dir.path().join("raw/live.log").exists());
    append(&store, texts("live", 20_001, 1)).unwrap();
    assert_eq!(store.read("live", 20_000, 9).unwrap().len(), 2);
}

#[test]
fn one_session_is_removed_with_its_raw_output_unless_it_is_running() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled_store(dir.path());
    let raw = store.raw("raw").unwrap();
    assert!(store.remove("raw").unwrap() > 1_000_000);
    assert_eq!(ids(&store), ["live", "gone", "old", "new"]);
    assert!(!raw.exists() && !older_raw(&raw).exists());
    assert_eq!(store.read("raw", 1, 9).unwrap(), []);
    let error = store.remove("live").unwrap_err();
    assert_eq!(
        error,
        StoreError::Running {
            session: "live".into(),
            pid: std::process::id()
        }
    );
    assert!(store.raw("live").unwrap().exists());
    for unknown in ["raw", "ol", ""] {
        assert!(
            matches!(store.remove(unknown), Err(StoreError::Session { .. })),
            "{unknown}"
        );
    }
    store.remove("gone").unwrap();
    assert_eq!(ids(&store), ["live", "old", "new"]);
    append(&store, texts("live", 1, 1)).unwrap();
}
