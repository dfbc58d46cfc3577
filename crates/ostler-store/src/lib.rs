//! Durable event log and session index, in one SQLite database.
//!
//! A [`Store`] is a directory. It serves all sessions of a process, and several processes may share
//! one: the database is in WAL mode, and a writer waits for the others.
//!
//! Once [`Log::append`] has completed, its events survive a crash of the process. The events of one
//! append are stored all or none, and a session's events are numbered without a gap.
//!
//! Reading order: `files` creates the directory, `database` opens the file in it, and `schema`
//! migrates it. `writer` is the only thread that writes, and `index` updates the rows that an event
//! affects. `rows`, `usage` and `search` are the queries; `prune` removes sessions. `managed` and
//! `approvals` are for the sessions of a daemon.

mod error;
mod files;
mod driver;
mod schema;
mod database;
mod approvals;
mod index;
mod writer;
mod rows;
mod managed;
mod usage;
mod search;
mod prune;
mod store;

pub use approvals::{Approval, ApprovalDecision, ApprovalState, DecideResult};
pub use error::StoreError;
pub use managed::{IdempotentRequest, ManagedSession, NewManaged, Orphaned};
pub use ostler_core::log::{AppendFuture, Log, LogEntry, LogError, NewSession, SessionRecord};
pub use prune::{PruneLimits, Pruned};
pub use rows::{EventRow, Filter, SessionRow, SessionStatus, UnknownMessages};
pub use search::{SearchHit, Speaker};
pub use store::Store;
pub use usage::{UsageGroup, UsageKey, UsageQuery, UsageReport};
