//! Database connections: the only place that opens them, for the writer and for readers.

#![expect(
    clippy::disallowed_methods,
    reason = "the only place that opens the database"
)]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::files::StoreDir;
use crate::{schema, title};

/// How long to wait for another process that writes. A write takes milliseconds, so this is for a
/// machine under load.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Size of a database from which a migration may take longer than a short session.
const LARGE: u64 = 4 * 1024 * 1024;

/// Opens the database for writing, and migrates it to the current format.
pub(crate) fn open(store_dir: &StoreDir) -> Result<Connection, StoreError> {
    let path = store_dir.database();
    // Two processes must not create or migrate the database at the same time.
    let _lock = store_dir.lock()?;
    let mut connection = connect(&path).map_err(StoreError::database(&path))?;
    schema::migrate(&mut connection, &path)?;
    Ok(connection)
}

/// Returns true if opening the database may take long, because it is large and of an earlier
/// format.
pub(crate) fn opens_slowly(store_dir: &StoreDir) -> bool {
    let header = || -> io::Result<(u64, [u8; 64])> {
        let (mut file, mut header) = (File::open(store_dir.database())?, [0; 64]);
        file.read_exact(&mut header)?;
        Ok((file.metadata()?.len(), header))
    };
    // It ends with `user_version`. A newer one may be in the WAL.
    header().is_ok_and(|(size, [.., a, b, c, d])| {
        size >= LARGE && i64::from(u32::from_be_bytes([a, b, c, d])) < schema::known()
    })
}

/// Opens the database for queries only.
pub(crate) fn open_to_read(store_dir: &StoreDir) -> Result<Connection, StoreError> {
    let path = store_dir.database();
    let open = || -> rusqlite::Result<Connection> {
        let connection = connect(&path)?;
        connection.pragma_update(None, "query_only", true)?;
        title::add_function(&connection)?;
        Ok(connection)
    };
    open().map_err(StoreError::database(&path))
}

/// Opens a database that cannot be written. Earlier formats are read without migrating the file.
pub(crate) fn open_read_only(store_dir: &StoreDir) -> Result<Connection, StoreError> {
    let path = store_dir.database();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(&path, flags).map_err(StoreError::database(&path))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(StoreError::database(&path))?;
    title::add_function(&connection).map_err(StoreError::database(&path))?;
    schema::overlay(&connection, &path)?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // One thread at a time uses a connection. The file exists already, with the right mode.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    if pages == 0 {
        // It lets pruning shrink the file. In a file that has tables, setting it has no effect, but
        // writes to the file and waits for the disk.
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // In WAL mode this survives a crash of the process. A power failure may lose the last commits,
    // but does not corrupt the database.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Otherwise closing the last connection would checkpoint and wait for the disk at the end of
    // every run. The WAL is complete without that, and is checkpointed at a thousand pages.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
