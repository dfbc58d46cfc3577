//! Paths in the database: text, or bytes where they are not UTF-8.

use std::path::PathBuf;

use rusqlite::types::ValueRef;

/// Returns the path in a column.
pub(crate) fn dir(value: ValueRef<'_>) -> PathBuf {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => path_of(bytes),
        _ => PathBuf::new(),
    }
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
