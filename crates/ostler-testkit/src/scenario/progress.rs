//! Progress of a run, for waiting on its events.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use super::PATIENCE;

/// The kinds of event that a run has emitted so far.
#[derive(Debug, Default)]
pub struct Progress {
    kinds: Mutex<BTreeSet<String>>,
    changed: Condvar,
}

impl Progress {
    /// Records an event of this kind.
    pub fn record(&self, kind: &str) {
        self.kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind.to_owned());
        self.changed.notify_all();
    }

    /// Waits for an event of this kind.
    ///
    /// # Panics
    /// If none is emitted in time.
    pub fn wait_for(&self, kind: &str) {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(kinds, PATIENCE, |kinds| !kinds.contains(kind));
        let (kinds, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            kinds.contains(kind),
            "no {kind} was emitted, only {kinds:?}"
        );
    }
}
