//! Durable event log and session index, in one SQLite database.
//!
//! A [`Store`] is a directory. It serves all sessions of a process, and several processes may share
//! one: the database is in WAL mode, and a writer waits for the others.
//!
//! Once [`Log::append`] has completed, its events survive a crash of the process. The events of one
//! append are stored all or none, and a session's events are numbered without a gap.
//!
//! Reading order: `files` creates the directory, `database` opens the file in it, and `schema`
//! migrates it. `writer` is the only thread that writes events, and `index` updates the rows that
//! an event affects. `rows`, `history`, `usage` and `search` are the queries, on the connections of
//! `pool`; `prune` removes sessions. `managed`, `queued_messages`, `approvals` and `deliveries`
//! are for the sessions of a daemon, and `ledger` for the evaluation.

mod error;
mod files;
mod driver;
mod stored_path;
mod schema;
mod title;
mod counters;
mod database;
mod cancel;
mod pool;
mod approvals;
mod deliveries;
mod index;
mod writer;
mod rows;
mod managed;
mod queued_messages;
mod usage;
mod search;
mod prune;
mod store;
mod history;
mod ledger;

pub use approvals::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalSelection, ApprovalState, DecideResult,
};
pub use cancel::Cancel;
pub use counters::TokenCounters;
pub use deliveries::{Delivery, DeliveryResult};
pub use error::StoreError;
pub use ledger::{
    AttemptKey, AttemptRow, AttemptState, Booking, Claim, ClaimRequest, ClaimResult, Finish,
    FinishResult, HeartbeatResult, Ledger, NewRun, RemoteAttempt, Reservation, RunRow, TrialName,
    TrialRow, TrialState, Worker,
};
pub use managed::{IdempotentRequest, ManagedSession, NewManaged, Orphaned};
pub use ostler_core::log::{AppendFuture, Log, LogEntry, LogError, NewSession, SessionRecord};
pub use prune::{PruneLimits, Pruned};
pub use queued_messages::{NewQueuedMessage, QueueResult};
pub use rows::{EventRow, Filter, SessionRow, SessionStatus, UnknownMessages};
pub use search::{SearchHit, SearchPage, SearchQuery, SnippetPart, Speaker};
pub use store::Store;
pub use usage::{InvalidOffset, UsageGroup, UsageKey, UsageQuery, UsageReport, UtcOffset};
