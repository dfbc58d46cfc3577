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

/// Brings a database up to date. Nobody else does so at the same time: the caller holds the lock.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let wrong = StoreError::database(path);
    let found = version(connection, path)?;
    for (number, step) in (1..).zip(STEPS).filter(|(number, _)| *number > found) {
        make(connection, number, step).map_err(&wrong)?;
    }
    Ok(())
}

/// Makes sure that a database is up to date, where it cannot be brought there.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    if version(connection, path)? == known() {
        return Ok(());
    }
    let why = "an older Ostler wrote it, and it cannot be brought up to date".to_owned();
    Err(StoreError::Database { path: path.to_owned(), why })
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
