//! Database schema, as numbered migrations. Migrations are only ever added, so that a database of
//! any earlier Ostler can be migrated.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;

/// The migrations, numbered from 1. `PRAGMA user_version` holds the number of the last one applied.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
];

/// The migrations for a read-only connection: temporary views and tables that shadow those of the
/// file.
const OVERLAYS: [Overlay; MIGRATIONS.len()] = [
    // Without the first migration there is nothing to read.
    Overlay::Script("SELECT 1 FROM main.sessions LIMIT 1;"),
    Overlay::Script(include_str!("schema/2.read.sql")),
    Overlay::NewTables,
    Overlay::NewTables,
    Overlay::NewTables,
    Overlay::Script(include_str!("schema/6.read.sql")),
    Overlay::NewTables,
    Overlay::NewTables,
    Overlay::NewTables,
];

/// Replacement of a migration on a read-only connection.
enum Overlay {
    /// A separate script.
    Script(&'static str),
    /// The migration itself, with temporary tables: it only adds tables, which are empty then.
    NewTables,
}

/// Migrates a database to the current format. The caller holds the lock.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let database_error = StoreError::database(path);
    let found = version(connection, path)?;
    for (number, migration) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
        apply(connection, number, migration).map_err(&database_error)?;
    }
    if found < known() {
        tracing::info!(from = found, to = known(), "database migrated");
    }
    Ok(())
}

/// Makes a read-only database look as if it were in the current format, without changing the file.
pub(crate) fn overlay(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let database_error = StoreError::database(path);
    let found = version(connection, path)?;
    // The disk may be full, or read-only.
    connection
        .pragma_update(None, "temp_store", "memory")
        .map_err(&database_error)?;
    let migrations = (1..).zip(MIGRATIONS).zip(&OVERLAYS);
    for ((_, migration), overlay) in migrations.filter(|((number, _), _)| *number > found) {
        let result = match overlay {
            Overlay::Script(script) => connection.execute_batch(script),
            Overlay::NewTables => {
                connection.execute_batch(&migration.replace("CREATE TABLE ", "CREATE TEMP TABLE "))
            }
        };
        result.map_err(&database_error)?;
    }
    Ok(())
}

/// Returns the format of the database, or an error if it is newer than this Ostler supports.
fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let (found, known) = (found.map_err(StoreError::database(path))?, known());
    if found > known {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known,
            needs: written_by(connection),
        });
    }
    Ok(found)
}

/// Returns the current format.
pub(crate) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn apply(connection: &mut Connection, number: i64, migration: &str) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute_batch(migration)?;
    change.execute(
        "INSERT OR REPLACE INTO meta VALUES ('ostler', ?1)",
        [env!("CARGO_PKG_VERSION")],
    )?;
    change.pragma_update(None, "user_version", number)?;
    change.commit()
}

/// Returns the version of Ostler that applied the last migration.
fn written_by(connection: &Connection) -> String {
    let found = connection.query_row("SELECT value FROM meta WHERE key = 'ostler'", [], |row| {
        row.get(0)
    });
    found
        .optional()
        .ok()
        .flatten()
        .unwrap_or_else(|| "of a later version".to_owned())
}
