//! Attempts whose process was killed: what their sessions had reported is booked from the log.

use ostler::Usage;
use ostler::event::Timestamp;
use ostler_store::{AttemptKey, AttemptRow, AttemptState, Booking, Ledger, Store, StoreError};

/// Kinds of events with usage, the most complete first. A trial has one turn.
const KINDS: [&str; 3] = ["turn_ended", "ended", "usage"];

/// Books what the lost attempts before this one had spent, as far as their sessions are stored. A
/// session is stored before its usage is booked, so the process may have been killed between them.
pub(crate) fn book(store: &Store, key: AttemptKey<'_>, now: Timestamp) -> Result<(), StoreError> {
    let ledger = Ledger::new(store);
    let Some(trial) = ledger.trial(key.run, key.position)? else {
        return Ok(());
    };
    for attempt in trial.attempts.iter().filter(|it| is_before(it, key.fence)) {
        let Some(session) = &attempt.session else {
            continue;
        };
        let booking = Booking {
            usage: usage(store, session)?,
            session: None,
        };
        let fence = attempt.fence;
        ledger.heartbeat(AttemptKey { fence, ..key }, now, &booking)?;
    }
    Ok(())
}

/// Returns the numbers of lost attempts whose turn did not end: they may have spent more than what
/// is booked.
pub(crate) fn unmetered(
    store: &Store,
    attempts: &[AttemptRow],
    fence: u64,
) -> Result<Vec<u64>, StoreError> {
    let mut found = Vec::new();
    for attempt in attempts.iter().filter(|it| is_before(it, fence)) {
        let is_metered = match &attempt.session {
            Some(session) => store.last_event(session, KINDS[0])?.is_some(),
            None => false,
        };
        if !is_metered {
            found.push(attempt.fence);
        }
    }
    Ok(found)
}

fn is_before(attempt: &AttemptRow, fence: u64) -> bool {
    attempt.state == AttemptState::Lost && attempt.fence < fence
}

/// Returns the last usage in the log of a session.
fn usage(store: &Store, session: &str) -> Result<Option<Usage>, StoreError> {
    for kind in KINDS {
        let event = store.last_event(session, kind)?;
        let usage = event.and_then(|text| {
            let event: serde_json::Value = serde_json::from_str(&text).ok()?;
            serde_json::from_value::<Usage>(event["usage"].clone()).ok()
        });
        if usage.is_some() {
            return Ok(usage);
        }
    }
    Ok(None)
}
