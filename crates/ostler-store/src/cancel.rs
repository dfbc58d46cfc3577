//! Cancellation of a query that may take long, from another thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle};

/// Cancels the query that it was passed to. Clones cancel the same query.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<CancelState>>);

#[derive(Default)]
struct CancelState {
    is_cancelled: bool,
    running: Option<InterruptHandle>,
}

impl Cancel {
    /// Cancels the query: it fails soon, or at once if it has not started.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(running) = &state.running {
            running.interrupt();
        }
    }

    /// Fails if the query was cancelled. SQLite only notices while it executes a statement.
    pub(crate) fn check(&self) -> rusqlite::Result<()> {
        if self.state().is_cancelled {
            return Err(interrupted());
        }
        Ok(())
    }

    /// Runs a query that can be cancelled.
    pub(crate) fn guard<T>(
        &self,
        db: &Connection,
        run: impl FnOnce() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut state = self.state();
        if state.is_cancelled {
            return Err(interrupted());
        }
        state.running = Some(db.get_interrupt_handle());
        drop(state);
        let result = run();
        // From now on, others use the connection.
        self.state().running = None;
        result
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a query that was cancelled.
fn interrupted() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel")
            .field("is_cancelled", &self.state().is_cancelled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_running_statement_is_interrupted() {
        let cancel = Cancel::default();
        let endless = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
            SELECT count(*) FROM numbers";
        std::thread::scope(|scope| {
            let query = scope.spawn(|| {
                let db = Connection::open_in_memory().unwrap();
                let result: rusqlite::Result<i64> =
                    cancel.guard(&db, || db.query_row(endless, [], |row| row.get(0)));
                let code = result.unwrap_err().sqlite_error_code();
                assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
                // The connection can be used again.
                let one: i64 = db.query_row("SELECT 1", [], |row| row.get(0)).unwrap();
                assert_eq!(one, 1);
                cancel.guard(&db, || Ok(())).unwrap_err();
            });
            // Until the statement has begun, there is nothing to interrupt.
            while !query.is_finished() {
                cancel.cancel();
                std::thread::sleep(Duration::from_millis(5));
            }
            query.join().unwrap();
        });
    }
}
