//! What can go wrong with the store, in words that say where and what to do.

use std::path::{Path, PathBuf};

use ostler_core::log::LogError;

/// The store cannot do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The directory, or a file in it, cannot be used.
    #[error("sessions cannot be kept in {}: {why}", path.display())]
    Place {
        /// What cannot be used.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A newer Ostler has been here.
    #[error(
        "{} was written by a newer Ostler (format {found}, this one knows {known}): use Ostler {needs} or newer, or another state directory",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this Ostler knows.
        known: i64,
        /// The Ostler that made it.
        needs: String,
    },
    /// The database does not do its part: a full disk, a damaged file.
    #[error("{}: {why}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What it said.
        why: String,
    },
    /// What was asked for one session cannot be, whatever the state of the database.
    #[error("session {session}: {why}")]
    Session {
        /// The session.
        session: String,
        /// Why not.
        why: String,
    },
    /// The beginning of an id is that of several.
    #[error("{id} is the beginning of several sessions: {}{}", candidates.join(", "), if *more { ", …" } else { "" })]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// The sessions whose id, or whose agent's id, begins so: the newest ten.
        candidates: Vec<String>,
        /// Whether there are further ones.
        more: bool,
    },
    /// The session is running.
    #[error("session {session} is running: process {pid} drives it")]
    Running {
        /// The session.
        session: String,
        /// The process that drives it.
        pid: u32,
    },
}

impl StoreError {
    pub(crate) fn place(path: &Path, why: &impl ToString) -> Self {
        Self::Place {
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

    /// What the database at `path` says.
    pub(crate) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> Self + '_ {
        move |error| Self::Database {
            path: path.to_owned(),
            why: error.to_string(),
        }
    }
}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}
