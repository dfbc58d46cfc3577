//! Indexing: reads the events that are not indexed yet, step by step, and adds their documents.
//!
//! Appending an event does not touch the index. A search, or a daemon now and then, catches up from
//! the position that was reached, whoever reached it. A step computes the tokens before it locks
//! the database, and is dropped if another process has indexed the same events meanwhile.

use std::collections::HashMap;

use ostler_core::event::EventKind;
use rusqlite::{Connection, OptionalExtension, Result, Row, TransactionBehavior, params};

use super::document::{Collector, Document, Place, TYPES};
use super::grams;

/// Maximum size of the events of one step, in bytes of JSON, so that other writers wait for
/// milliseconds only.
const STEP_BYTES: usize = 512 * 1024;

/// Maximum number of events of one step.
const STEP_EVENTS: usize = 5_000;

/// What a step adds to the index.
struct Step {
    /// The position from which it was read.
    from: i64,
    /// The position that it reaches.
    to: i64,
    /// Positions and tokens of documents.
    documents: Vec<(i64, String)>,
    /// Sessions, and the first event that must be read again.
    open: Vec<(i64, Option<i64>)>,
}

/// Returns the position of the last event that is indexed.
pub(crate) fn progress(db: &Connection) -> Result<i64> {
    db.prepare_cached("SELECT position FROM search_progress")?
        .query_row([], |row| row.get(0))
}

/// Indexes some events. Returns false if there are none left.
pub(crate) fn step(db: &mut Connection) -> Result<bool> {
    let Some(step) = read(db)? else {
        return Ok(false);
    };
    write(db, &step)?;
    Ok(true)
}

fn read(db: &mut Connection) -> Result<Option<Step>> {
    let db = db.transaction()?; // all of it from the same state of the database
    let from = progress(&db)?;
    let mut documents = Vec::new();
    let walk = walk(&db, from, (STEP_EVENTS, STEP_BYTES), |document| {
        let tokens = grams::tokens(document.speaker, &document.text);
        documents.push((document.place.position, tokens));
        Ok(())
    })?;
    Ok((walk.to > from).then_some(Step {
        from,
        to: walk.to,
        documents,
        open: walk.open,
    }))
}

fn write(db: &mut Connection, step: &Step) -> Result<()> {
    let db = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if progress(&db)? != step.from {
        return Ok(()); // another process was faster
    }
    // A session may have been removed since.
    let mut insert = db.prepare_cached(
        "INSERT OR REPLACE INTO search_index (rowid, grams)
         SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM events WHERE rowid = ?1)",
    )?;
    for (position, tokens) in &step.documents {
        insert.execute(params![position, tokens])?;
    }
    drop(insert);
    for (key, seq) in &step.open {
        let sql = match seq {
            Some(_) => {
                "INSERT OR REPLACE INTO search_open
                 SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM sessions WHERE key = ?1)"
            }
            None => "DELETE FROM search_open WHERE session = ?1 AND ?2 IS NULL",
        };
        db.prepare_cached(sql)?.execute(params![key, seq])?;
    }
    db.execute("UPDATE search_progress SET position = ?1", [step.to])?;
    db.commit()
}

/// Removes what is indexed of a session that is about to be removed.
pub(crate) fn remove(db: &Connection, key: i64) -> Result<()> {
    let sql = format!(
        "DELETE FROM search_index WHERE rowid IN (
             SELECT rowid FROM events WHERE session = ?1 AND type IN {TYPES})"
    );
    db.prepare_cached(&sql)?.execute([key]).map(drop)
}

/// Result of reading events.
pub(crate) struct Walk {
    /// The position that was reached.
    to: i64,
    /// The sessions that were read, and the first event of each that must be read again.
    open: Vec<(i64, Option<i64>)>,
}

/// Reads the events after a position, within limits on their number and bytes, and calls `each`
/// with their documents: the complete ones, and at last those of which more may follow.
pub(crate) fn walk(
    db: &Connection,
    from: i64,
    (events, bytes): (usize, usize),
    mut each: impl FnMut(Document) -> Result<()>,
) -> Result<Walk> {
    let sql = format!(
        "SELECT rowid, session, seq, turn, at, json, type IN {TYPES} FROM events
         WHERE rowid > ?1 ORDER BY rowid"
    );
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query([from])?;
    let mut collectors: HashMap<i64, Collector> = HashMap::new();
    let (mut to, mut read, mut count) = (from, 0, 0);
    while let Some(row) = rows.next()? {
        let place = place(row)?;
        to = place.position;
        count += 1;
        if row.get(6)? {
            let json = row.get_ref(5)?.as_str()?;
            read += json.len();
            let collector = match collectors.entry(place.key) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(resumed(db, place.key, from)?)
                }
            };
            // An event that only a later Ostler can parse is not indexed.
            if let Ok(kind) = EventKind::from_json(json) {
                for document in collector.event(place, &kind) {
                    each(document)?;
                }
            }
        }
        if count >= events || read >= bytes {
            break;
        }
    }
    let mut open = Vec::with_capacity(collectors.len());
    for (key, collector) in collectors {
        for document in collector.incomplete() {
            each(document)?;
        }
        open.push((key, collector.resume_from()));
    }
    Ok(Walk { to, open })
}

fn place(row: &Row<'_>) -> Result<Place> {
    Ok(Place {
        position: row.get(0)?,
        key: row.get(1)?,
        seq: row.get(2)?,
        turn: row.get(3)?,
        at: row.get(4)?,
    })
}

/// Returns the collector of a session as it was when the index reached a position.
fn resumed(db: &Connection, key: i64, position: i64) -> Result<Collector> {
    let seq: Option<i64> = db
        .prepare_cached("SELECT seq FROM search_open WHERE session = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    let mut collector = Collector::default();
    if let Some(seq) = seq {
        events_of(db, key, seq, |place, kind| {
            let is_earlier = place.position <= position;
            if is_earlier {
                collector.event(place, &kind);
            }
            is_earlier
        })?;
    }
    Ok(collector)
}

/// Returns the document that begins at an event of a session.
pub(crate) fn document(db: &Connection, key: i64, seq: i64) -> Result<Option<Document>> {
    let (mut collector, mut found) = (Collector::default(), None);
    events_of(db, key, seq, |place, kind| {
        let complete = collector.event(place, &kind);
        found = complete.into_iter().find(|it| it.place.seq == seq);
        found.is_none() && collector.is_open(seq)
    })?;
    Ok(found.or_else(|| collector.incomplete().find(|it| it.place.seq == seq)))
}

/// Reads the events of a session from `seq` on, until `each` returns false.
fn events_of(
    db: &Connection,
    key: i64,
    seq: i64,
    mut each: impl FnMut(Place, EventKind) -> bool,
) -> Result<()> {
    let sql = format!(
        "SELECT rowid, session, seq, turn, at, json FROM events
         WHERE session = ?1 AND seq >= ?2 AND type IN {TYPES} ORDER BY seq"
    );
    let mut query = db.prepare_cached(&sql)?;
    let mut rows = query.query([key, seq])?;
    while let Some(row) = rows.next()? {
        let place = place(row)?;
        if let Ok(kind) = EventKind::from_json(row.get_ref(5)?.as_str()?)
            && !each(place, kind)
        {
            break;
        }
    }
    Ok(())
}
