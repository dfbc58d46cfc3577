//! Errors of the store.

use std::path::{Path, PathBuf};

use ostler_core::log::LogError;
use rusqlite::ErrorCode;

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The directory, or a file in it, cannot be used.
    #[error("cannot store sessions in {}: {why}", path.display())]
    Unusable {
        /// The directory or file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A newer Ostler wrote the database.
    #[error(
        "{} was written by a newer Ostler (format {found}, this one supports {known}): \
         use Ostler {needs} or newer, or another state directory",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this Ostler supports.
        known: i64,
        /// The version of Ostler that wrote it.
        needs: String,
    },
    /// The database failed: a full disk, a damaged file.
    #[error("{}: {why}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The message of SQLite.
        why: String,
    },
    /// Another process holds the lock of the database.
    #[error("{}: another process has locked the database", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// A request for one session is invalid, whatever the state of the database.
    #[error("session {session}: {why}")]
    Session {
        /// The session.
        session: String,
        /// The reason.
        why: String,
    },
    /// The prefix matches several sessions.
    #[error(
        "{id} is ambiguous: it matches the sessions {}{}",
        candidates.join(", "),
        if *more { ", …" } else { "" }
    )]
    Ambiguous {
        /// The prefix.
        id: String,
        /// The newest ten sessions whose id, or whose agent's id, has the prefix.
        candidates: Vec<String>,
        /// Whether there are more.
        more: bool,
    },
    /// The session is running.
    #[error("session {session} is running in process {pid}")]
    Running {
        /// The session.
        session: String,
        /// The process that runs it.
        pid: u32,
    },
}

impl StoreError {
    pub(crate) fn unusable(path: &Path, why: &impl ToString) -> Self {
        Self::Unusable {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    pub(crate) fn session(session: &str, why: &impl ToString) -> Self {
        Self::Session {
            session: session.to_owned(),
            why: why.to_string(),
        }
    }

    /// Returns a conversion for errors of the database at `path`.
    pub(crate) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> Self + '_ {
        move |error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked {
                path: path.to_owned(),
            },
            _ => Self::Database {
                path: path.to_owned(),
                why: error.to_string(),
            },
        }
    }
}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}
