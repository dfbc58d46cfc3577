//! Removal of sessions by id, by age, or by total size. A running session is never removed.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use ostler_core::event::Timestamp;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;
use crate::files::StoreDir;
use crate::index::unsigned;
use crate::rows::{self, SessionStatus};
use crate::{managed, search};

type Result<T, E = rusqlite::Error> = std::result::Result<T, E>;

/// Limits on age and size. Without a limit, no session is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneLimits {
    /// Removes sessions whose last event is older than this.
    pub older_than: Option<Timestamp>,
    /// Removes the oldest sessions until events and raw output together are at most this large.
    pub larger_than_bytes: Option<u64>,
}

/// The sessions that were removed, or would be in a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Ostler's ids of the sessions, oldest first.
    pub sessions: Vec<String>,
    /// Total size of their events and raw output.
    pub bytes: u64,
}

struct Candidate {
    key: i64,
    session: String,
    last: i64,
    live: bool,
}

/// Selects the sessions to remove.
pub(crate) fn plan(
    db: &Connection,
    store_dir: &StoreDir,
    limits: &PruneLimits,
) -> Result<(Vec<i64>, Pruned)> {
    let mut sizes = db.prepare(EVENT_BYTES)?;
    let mut size = |it: &Candidate| -> Result<u64> {
        let events = sizes.query_row([it.key], |row| row.get(0).map(unsigned))?;
        Ok(events + raw_bytes(store_dir, &it.session))
    };
    let candidates = candidates(db)?;
    // The size of a session takes reading all of its events.
    let mut excess = 0;
    if let Some(limit) = limits.larger_than_bytes {
        let total: Result<u64> = candidates.iter().map(&mut size).sum();
        excess = total?.saturating_sub(limit);
    }
    let (mut keys, mut pruned) = (Vec::new(), Pruned::default());
    for it in candidates.into_iter().filter(|it| !it.live) {
        let is_old = limits.older_than.is_some_and(|limit| it.last < limit.0);
        if is_old || excess > 0 {
            let bytes = size(&it)?;
            excess = excess.saturating_sub(bytes);
            pruned.bytes += bytes;
            pruned.sessions.push(it.session);
            keys.push(it.key);
        }
    }
    Ok((keys, pruned))
}

/// Selects the size of a session's events.
const EVENT_BYTES: &str =
    "SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE session = ?1";

/// Returns the size of a session's raw output.
fn raw_bytes(store_dir: &StoreDir, session: &str) -> u64 {
    let files = store_dir.raw_files(session);
    let sizes = files.filter_map(|path| path.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}

/// Returns all sessions, the least recently active first.
fn candidates(db: &Connection) -> Result<Vec<Candidate>> {
    let mut query = db.prepare(
        "SELECT key, session, cause, driver_pid, driver_started,
             coalesce(ended_at, (SELECT at FROM events WHERE session = key ORDER BY seq DESC LIMIT 1), began_at) AS last
         FROM sessions ORDER BY last, key",
    )?;
    let rows = query.query_map([], |row| {
        let cause: Option<String> = row.get(2)?;
        let live = matches!(
            rows::status(cause.as_deref(), row.get(3)?, row.get(4)?),
            SessionStatus::Live(_)
        );
        Ok(Candidate {
            key: row.get(0)?,
            session: row.get(1)?,
            last: row.get(5)?,
            live,
        })
    })?;
    rows.collect()
}

/// Removes the raw output of the selected sessions.
pub(crate) fn remove_raw(store_dir: &StoreDir, pruned: &Pruned) {
    for path in pruned
        .sessions
        .iter()
        .flat_map(|session| store_dir.raw_files(session))
    {
        let _ = std::fs::remove_file(path); // `sweep` removes a file that stays
    }
}

/// Removes one session that is not running, and returns its size.
pub(crate) fn remove(
    db: &mut Connection,
    store_dir: &StoreDir,
    session: &str,
) -> Result<u64, StoreError> {
    let path = store_dir.database();
    let database_error = StoreError::database(&path);
    let change = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(&database_error)?;
    let found = change
        .query_row(
            "SELECT cause, driver_pid, driver_started, key FROM sessions WHERE session = ?1",
            [session],
            |row| {
                let cause: Option<String> = row.get(0)?;
                Ok((
                    rows::status(cause.as_deref(), row.get(1)?, row.get(2)?),
                    row.get(3)?,
                ))
            },
        )
        .optional()
        .map_err(&database_error)?;
    let key: i64 = match found {
        None => return Err(StoreError::session(session, &"not found")),
        Some((SessionStatus::Live(pid), _)) => {
            return Err(StoreError::Running {
                session: session.to_owned(),
                pid,
            });
        }
        Some((_, key)) => key,
    };
    let events = change.query_row(EVENT_BYTES, [key], |row| row.get(0).map(unsigned));
    let bytes = events.map_err(&database_error)? + raw_bytes(store_dir, session);
    remove_rows(&change, key).map_err(&database_error)?;
    change.commit().map_err(&database_error)?;
    for file in store_dir.raw_files(session) {
        let _ = std::fs::remove_file(file); // `sweep` removes a file that stays
    }
    free_pages(db).map_err(&database_error)?;
    Ok(bytes)
}

/// Removes the selected sessions, and returns the space to the file system.
pub(crate) fn remove_all(db: &mut Connection, keys: &[i64]) -> Result<()> {
    // One transaction each, so that other writers wait for one session only.
    for key in keys {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        remove_rows(&change, *key)?;
        change.commit()?;
    }
    free_pages(db)
}

/// Removes a session, its events, and what is indexed of them.
fn remove_rows(db: &Connection, key: i64) -> Result<()> {
    retain_position(db)?;
    search::remove(db, key)?;
    managed::forget_responses(db, key)?;
    db.execute("DELETE FROM sessions WHERE key = ?1", [key])
        .map(drop)
}

/// Stores the highest position before events are removed. Otherwise new events would get positions
/// that a reader of all sessions has passed.
fn retain_position(db: &Connection) -> Result<()> {
    db.execute(
        "UPDATE positions SET high = max(high, (SELECT coalesce(max(rowid), 0) FROM events))",
        [],
    )
    .map(drop)
}

/// Returns free pages to the file system.
fn free_pages(db: &Connection) -> Result<()> {
    // Each step of this statement frees one page.
    let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    drop(pages);
    drop(vacuum);
    // While others read, the file shrinks later.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Removes raw output without a session: the process died before the session's first event, or
/// during pruning.
pub(crate) fn sweep(db: &Connection, store_dir: &StoreDir, older_than: Timestamp) -> Result<()> {
    let mut query = db.prepare("SELECT session FROM sessions")?;
    let known: HashSet<String> = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let limit = UNIX_EPOCH + Duration::from_millis(unsigned(older_than.0));
    for entry in std::fs::read_dir(store_dir.raw_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let old = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|when| when < limit);
        let name = entry.file_name();
        let session = name
            .to_str()
            .and_then(|name| name.strip_suffix(".1").unwrap_or(name).strip_suffix(".log"));
        if old && session.is_some_and(|session| !known.contains(session)) {
            let _ = std::fs::remove_file(entry.path()); // the next sweep tries again
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rusqlite::functions::FunctionFlags;

    use super::*;
    use crate::database;

    /// Returns the number of events whose size was needed, and the removed sessions.
    fn sized(limits: &PruneLimits) -> (usize, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let store_dir = StoreDir::prepare(dir.path()).unwrap();
        let db = database::open(&store_dir).unwrap();
        let counted = Arc::new(AtomicUsize::new(0));
        let counter = counted.clone();
        // In place of the function of the same name.
        let flags = FunctionFlags::SQLITE_UTF8;
        db.create_scalar_function("octet_length", 1, flags, move |context| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(i64::try_from(context.get_raw(0).as_str()?.len()).unwrap())
        })
        .unwrap();
        for (key, session) in [(1, "old"), (2, "new")] {
            db.execute(
                "INSERT INTO sessions
                     (key, session, agent, dir, began_at, ended_at, cause, driver_pid)
                 VALUES (?1, ?2, 'claude', '/', 0, ?1, 'completed', 0)",
                (key, session),
            )
            .unwrap();
            for seq in 0..10 {
                db.execute(
                    "INSERT INTO events (session, seq, at, turn, type, json, raw_offset)
                     VALUES (?1, ?2, 0, 1, 'text', '{}', 0)",
                    (key, seq),
                )
                .unwrap();
            }
        }
        let (_, pruned) = plan(&db, &store_dir, limits).unwrap();
        assert_eq!(pruned.bytes, 20 * pruned.sessions.len() as u64);
        (counted.load(Ordering::Relaxed), pruned.sessions)
    }

    #[test]
    fn only_the_size_of_removed_sessions_is_computed_without_a_limit_on_it() {
        let mut limits = PruneLimits::default();
        assert_eq!(sized(&limits), (0, vec![]));
        limits.older_than = Some(Timestamp(2));
        assert_eq!(sized(&limits), (10, vec!["old".to_owned()]));
        limits.larger_than_bytes = Some(1_000);
        assert_eq!(sized(&limits), (20 + 10, vec!["old".to_owned()]));
    }
}
