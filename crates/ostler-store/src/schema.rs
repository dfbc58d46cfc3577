//! The tables, as numbered steps that are only ever added to: a database of any earlier Ostler is brought up to date.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;

/// The steps. The number of a step is its place, counted from 1; `PRAGMA user_version` says how many were made.
const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// What the steps come to for a connection that only reads: temporary views and tables, which stand before those of the file.
const READ_STEPS: [ReadStep; STEPS.len()] = [
    // Without the first step there is nothing to read.
    ReadStep::Script("SELECT 1 FROM main.sessions LIMIT 1;"),
    ReadStep::Script(include_str!("schema/2.read.sql")),
    ReadStep::NewTables,
    ReadStep::NewTables,
];

/// How a step is made for a connection that only reads.
enum ReadStep {
    /// By a script of its own.
    Script(&'static str),
    /// The step only adds tables, which are empty in a file without them.
    NewTables,
}

/// Brings a database up to date. Nobody else does so at the same time: the caller holds the lock.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let wrong = StoreError::database(path);
    let found = version(connection, path)?;
    for (number, step) in (1..).zip(STEPS).filter(|(number, _)| *number > found) {
        make(connection, number, step).map_err(&wrong)?;
    }
    Ok(())
}

/// Makes a database that cannot be brought up to date look as if it were. The file stays as it is.
pub(crate) fn overlay(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let wrong = StoreError::database(path);
    let found = version(connection, path)?;
    // The disk may be full, or read-only.
    connection.pragma_update(None, "temp_store", "memory").map_err(&wrong)?;
    let steps = (1..).zip(STEPS).zip(&READ_STEPS);
    for ((_, step), read) in steps.filter(|((number, _), _)| *number > found) {
        let made = match read {
            ReadStep::Script(script) => connection.execute_batch(script),
            ReadStep::NewTables => connection.execute_batch(&step.replace("CREATE TABLE ", "CREATE TEMP TABLE ")),
        };
        made.map_err(&wrong)?;
    }
    Ok(())
}

/// How many steps were made; not more than are known.
fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let (found, known) = (found.map_err(StoreError::database(path))?, known());
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known, needs: maker(connection) });
    }
    Ok(found)
}

fn known() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

fn make(connection: &mut Connection, number: i64, step: &str) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute_batch(step)?;
    change.execute("INSERT OR REPLACE INTO meta VALUES ('ostler', ?1)", [env!("CARGO_PKG_VERSION")])?;
    change.pragma_update(None, "user_version", number)?;
    change.commit()
}

/// The Ostler that made the newest step.
fn maker(connection: &Connection) -> String {
    let found = connection.query_row("SELECT value FROM meta WHERE key = 'ostler'", [], |row| row.get(0));
    found.optional().ok().flatten().unwrap_or_else(|| "of a later version".to_owned())
}
