//! The one door to the database: how a connection is opened, for the writer and for readers.

#![expect(clippy::disallowed_methods, reason = "this is the door to the database")]

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::files::Place;
use crate::schema;

/// How long to wait for another process that writes. Each writes for milliseconds; this is for a machine under load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the database to write, brought up to date.
pub(crate) fn open(place: &Place) -> Result<Connection, StoreError> {
    let path = place.database();
    // Two processes that turn the same new file into a database at once would get in each other's way.
    let _alone = place.lock()?;
    let mut connection = connect(&path).map_err(StoreError::database(&path))?;
    schema::migrate(&mut connection, &path)?;
    Ok(connection)
}

/// Opens the database to read.
pub(crate) fn open_to_read(place: &Place) -> Result<Connection, StoreError> {
    let path = place.database();
    let open = || -> rusqlite::Result<Connection> {
        let connection = connect(&path)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map_err(StoreError::database(&path))
}

/// Opens a database that cannot be written. One of an earlier format is read as it is.
pub(crate) fn open_read_only(place: &Place) -> Result<Connection, StoreError> {
    let path = place.database();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(StoreError::database(&path))?;
    connection.busy_timeout(PATIENCE).map_err(StoreError::database(&path))?;
    schema::overlay(&connection, &path)?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Each connection is used by one thread at a time; and the file is there, made with the right mode.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Only heeded before the first table is made: what is pruned can then be given back to the file system.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // In WAL mode this survives a crash of the process; a power cut can take the last moments, never more.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The last to close would write everything into the main file and wait for the disk, at the end of every run. The
    // log is complete without that; it is folded in whenever it has grown to a thousand pages.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
