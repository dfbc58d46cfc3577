//! Removal of sessions: one by its id, old ones by age, and the oldest by size. A running session stays.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use ostler_core::event::At;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;
use crate::files::Place;
use crate::index::unsigned;
use crate::rows::{self, Standing};

type Result<T, E = rusqlite::Error> = std::result::Result<T, E>;

/// What to keep. Without a limit everything is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Sessions whose last event is from before this moment go.
    pub older_than: Option<At>,
    /// Sessions go, the oldest first, until events and raw output together are no larger than this.
    pub larger_than_bytes: Option<u64>,
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The sessions, as Ostler names them, the oldest first.
    pub sessions: Vec<String>,
    /// The size of their events and their raw output.
    pub bytes: u64,
}

struct Candidate {
    key: i64,
    session: String,
    last: i64,
    bytes: u64,
    live: bool,
}

/// What would go.
pub(crate) fn plan(db: &Connection, place: &Place, keep: &Keep) -> Result<(Vec<i64>, Pruned)> {
    let candidates = candidates(db, place)?;
    let mut total: u64 = candidates.iter().map(|it| it.bytes).sum();
    let (mut keys, mut pruned) = (Vec::new(), Pruned::default());
    for it in candidates.into_iter().filter(|it| !it.live) {
        let old = keep.older_than.is_some_and(|limit| it.last < limit.0);
        let large = keep.larger_than_bytes.is_some_and(|limit| total > limit);
        if old || large {
            total -= it.bytes;
            pruned.bytes += it.bytes;
            pruned.sessions.push(it.session);
            keys.push(it.key);
        }
    }
    Ok((keys, pruned))
}

/// All sessions, the one that was silent for longest first.
fn candidates(db: &Connection, place: &Place) -> Result<Vec<Candidate>> {
    let mut query = db.prepare(
        "SELECT key, session, cause, driver_pid, driver_started,
             coalesce(ended_at, (SELECT at FROM events WHERE session = key ORDER BY seq DESC LIMIT 1), began_at) AS last,
             (SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE session = key)
         FROM sessions ORDER BY last, key",
    )?;
    let rows = query.query_map([], |row| {
        let (session, cause): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        let raw: u64 = place
            .raw_files(&session)
            .filter_map(|path| path.metadata().ok())
            .map(|meta| meta.len())
            .sum();
        let live = matches!(
            rows::standing(cause.as_deref(), row.get(3)?, row.get(4)?),
            Standing::Live(_)
        );
        Ok(Candidate {
            key: row.get(0)?,
            session,
            last: row.get(5)?,
            bytes: unsigned(row.get(6)?) + raw,
            live,
        })
    })?;
    rows.collect()
}

/// Removes the raw output of what goes.
pub(crate) fn remove_raw(place: &Place, pruned: &Pruned) {
    for path in pruned
        .sessions
        .iter()
        .flat_map(|session| place.raw_files(session))
    {
        let _ = std::fs::remove_file(path); // a file that stays is found by `sweep` later
    }
}

/// Removes one session that is not running, and returns its size.
pub(crate) fn remove(db: &mut Connection, place: &Place, session: &str) -> Result<u64, StoreError> {
    let path = place.database();
    let wrong = StoreError::database(&path);
    let change = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(&wrong)?;
    let found = change
        .query_row(
            "SELECT cause, driver_pid, driver_started,
                 (SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE session = key)
             FROM sessions WHERE session = ?1",
            [session],
            |row| {
                let cause: Option<String> = row.get(0)?;
                Ok((
                    rows::standing(cause.as_deref(), row.get(1)?, row.get(2)?),
                    unsigned(row.get(3)?),
                ))
            },
        )
        .optional()
        .map_err(&wrong)?;
    let mut bytes = match found {
        None => return Err(StoreError::session(session, &"there is no such session")),
        Some((Standing::Live(pid), _)) => {
            return Err(StoreError::Running {
                session: session.to_owned(),
                pid,
            });
        }
        Some((_, bytes)) => bytes,
    };
    change
        .execute("DELETE FROM sessions WHERE session = ?1", [session])
        .map_err(&wrong)?;
    change.commit().map_err(&wrong)?;
    for file in place.raw_files(session) {
        bytes += file.metadata().map_or(0, |meta| meta.len());
        let _ = std::fs::remove_file(file); // a file that stays is found by `sweep` later
    }
    give_back(db).map_err(&wrong)?;
    Ok(bytes)
}

/// Carries out a plan, and gives the room back to the file system.
pub(crate) fn carry_out(db: &mut Connection, keys: &[i64]) -> Result<()> {
    // One transaction each: whoever writes meanwhile waits for one session, not for all.
    for key in keys {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        change.execute("DELETE FROM sessions WHERE key = ?1", [key])?;
        change.commit()?;
    }
    give_back(db)
}

/// Returns free pages to the file system.
fn give_back(db: &Connection) -> Result<()> {
    // Each step of this statement gives back one page.
    let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    drop(pages);
    drop(vacuum);
    // When others read, the room is given back later.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Removes raw output that no session owns: its process died before the session's first event, or while it was pruned.
pub(crate) fn sweep(db: &Connection, place: &Place, older_than: At) -> Result<()> {
    let mut query = db.prepare("SELECT session FROM sessions")?;
    let known: HashSet<String> = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let limit = UNIX_EPOCH + Duration::from_millis(unsigned(older_than.0));
    for entry in std::fs::read_dir(place.raw_dir())
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
