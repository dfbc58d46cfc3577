//! Where sessions are kept: the durable event log and the session index, in one SQLite database.
//!
//! A [`Store`] is a directory. It serves all sessions of a process, and several processes may use the same one: the
//! database is in WAL mode, and a writer waits for its turn. What [`Log::append`] has promised survives the death of the
//! process at any moment; the events of one append are there all or not at all, and a session's events are numbered
//! without a gap.
//!
//! Reading order: `files` makes the directory, `database` opens the file in it and `schema` brings it up to date;
//! `writer` is the one thread that writes, `index` says what an event changes besides itself; `rows`, `usage` and `search`
//! are the queries, `prune` removes sessions.

mod error;
mod files;
mod driver;
mod schema;
mod database;
mod index;
mod writer;
mod rows;
mod usage;
mod search;
mod prune;
mod store;

pub use error::StoreError;
pub use ostler_core::log::{Appending, Entry, Log, LogError, Opening, SessionRecord};
pub use prune::{Keep, Pruned};
pub use rows::{Filter, SessionRow, Standing, UnknownMessages};
pub use search::{SearchHit, Speaker};
pub use store::Store;
pub use usage::{UsageGroup, UsageKey, UsageQuery, UsageReport};
