//! Connections for queries: a few, so that a query that takes long does not keep others waiting.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::error::StoreError;

/// Maximum number of connections. Each has a page cache of 2 MB.
const MAX_CONNECTIONS: usize = 4;

/// Maximum number of connections that are used for queries that take long.
const MAX_LONG: usize = 2;

/// How long a query takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryLength {
    /// It reads a few rows.
    Short,
    /// It may read most of the database.
    Long,
}

/// A pool of connections, each opened when it is needed.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Connection>,
    used: usize,
    long: usize,
}

impl PoolState {
    fn has_room(&self, length: QueryLength) -> bool {
        let has_long = length == QueryLength::Short || self.long < MAX_LONG;
        has_long && self.used < MAX_CONNECTIONS
    }
}

impl Pool {
    /// Returns a pool with one open connection.
    pub(crate) fn of(connection: Connection) -> Self {
        let pool = Self::default();
        pool.state().idle.push(connection);
        pool
    }

    /// Runs a query on a connection, which `open` opens if none is idle. Waits if all are in use.
    pub(crate) fn with<T>(
        &self,
        length: QueryLength,
        open: impl FnOnce() -> Result<Connection, StoreError>,
        run: impl FnOnce(&Connection) -> T,
    ) -> Result<T, StoreError> {
        let mut state = self.state();
        while !state.has_room(length) {
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.used += 1;
        state.long += usize::from(length == QueryLength::Long);
        let idle = state.idle.pop();
        drop(state);
        let mut used = UsedConnection {
            pool: self,
            length,
            connection: idle,
        };
        let connection = match &mut used.connection {
            Some(connection) => connection,
            none => none.insert(open()?),
        };
        Ok(run(connection))
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is in use, and is returned when this is dropped: after a panic too, since it
/// only reads.
struct UsedConnection<'a> {
    pool: &'a Pool,
    length: QueryLength,
    connection: Option<Connection>,
}

impl Drop for UsedConnection<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.used -= 1;
        state.long -= usize::from(self.length == QueryLength::Long);
        state.idle.extend(self.connection.take());
        drop(state);
        // Not one: it could be one that waits for a long query to end.
        self.pool.returned.notify_all();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Pool")
            .field("idle", &state.idle.len())
            .field("used", &state.used)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn open() -> Result<Connection, StoreError> {
        Ok(Connection::open_in_memory().unwrap())
    }

    // Long queries leave connections for short ones, and no more than the limit are opened.
    #[test]
    fn long_queries_do_not_block_short_ones() {
        let pool = Pool::default();
        let (started, when_started) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for _ in 0..MAX_LONG + 3 {
                let (end, when_ended) = mpsc::channel::<()>();
                let (started, pool) = (started.clone(), &pool);
                ends.push(end);
                scope.spawn(move || {
                    pool.with(QueryLength::Long, open, |_| {
                        started.send(()).unwrap();
                        let _ = when_ended.recv();
                    })
                });
            }
            for _ in 0..MAX_LONG {
                when_started.recv().unwrap();
            }
            assert!(when_started.try_recv().is_err(), "the others wait");
            for _ in 0..MAX_CONNECTIONS {
                pool.with(QueryLength::Short, open, |_| ()).unwrap();
            }
            drop(ends);
            for _ in 0..3 {
                when_started.recv().unwrap();
            }
        });
        let state = pool.state();
        assert_eq!((state.used, state.long), (0, 0));
        assert!(state.idle.len() <= MAX_CONNECTIONS);
    }

    #[test]
    fn a_connection_that_cannot_be_opened_leaves_its_place() {
        let pool = Pool::default();
        for _ in 0..MAX_CONNECTIONS + 1 {
            let fail = || Err(StoreError::session("s", &"no"));
            assert!(pool.with(QueryLength::Long, fail, |_| ()).is_err());
        }
        assert!(pool.with(QueryLength::Long, open, |_| ()).is_ok());
    }
}
