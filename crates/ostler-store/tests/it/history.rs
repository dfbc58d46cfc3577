//! Reads of events by number, type and turn.

use ostler_core::event::{Origin, Timestamp, TurnStarted};
use ostler_store::{Log, Store};

use crate::rig::{append, entry, new_session, text};

#[test]
fn events_are_read_by_number_and_type() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for session in ["other", "s"] {
        store.open(&new_session(session, 1)).unwrap();
        let entries = (1..=20).map(|seq| {
            let turn = TurnStarted {
                origin: Origin::Agent,
                prompt: None,
            };
            if seq % 5 == 0 {
                let mut started = entry(session, seq, turn);
                started.event.turn = u32::try_from(seq / 5).unwrap();
                started
            } else {
                entry(session, seq, text("x"))
            }
        });
        append(&store, entries.collect()).unwrap();
    }
    let seqs = |from, to, types: &[&str]| -> Vec<u64> {
        let events = store.events_of_types("s", (from, to), types).unwrap();
        assert!(events.iter().all(|event| &*event.session == "s"));
        events.iter().map(|event| event.seq).collect()
    };
    assert_eq!(seqs(1, u64::MAX, &["turn_started"]), [5, 10, 15, 20]);
    assert_eq!(seqs(6, 15, &["turn_started", "ended"]), [10, 15]);
    assert_eq!(seqs(4, 6, &["turn_started", "text"]), [4, 5, 6]);
    assert_eq!(seqs(1, 20, &["ended"]), [0; 0]);
    assert_eq!(seqs(9, 3, &["text"]), [0; 0]);
    let events = store.events("s", 18, 2).unwrap();
    assert_eq!(events.iter().map(|it| it.seq).collect::<Vec<_>>(), [18, 19]);
    let start = store.turn_start("s", 1).unwrap();
    assert!(
        start.is_some_and(|at| at > Timestamp(1_000_000)),
        "{start:?}"
    );
    assert_eq!(store.turn_start("s", 9).unwrap(), None);
    assert_eq!(store.turn_start("none", 1).unwrap(), None);
}
