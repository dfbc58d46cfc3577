//! Reads of a session's events by number, for pages of its history. All use the index of
//! (session, seq), so their cost does not depend on the length of the session.

use ostler_core::event::{Event, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::error::StoreError;
use crate::index::signed;
use crate::rows;
use crate::store::Store;

impl Store {
    /// Returns events of one session from `from` on. Limits are those of
    /// [`Log::read`](ostler_core::log::Log::read).
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn events(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, StoreError> {
        self.query(|db| rows::events(db, session, from, most))
    }

    /// Returns the events of these types from `from` to `to`, in order. Stops early if they are
    /// large, like [`Log::read`](ostler_core::log::Log::read), but returns at least one.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn events_of_types(
        &self,
        session: &str,
        (from, to): (u64, u64),
        types: &[&str],
    ) -> Result<Vec<Event>, StoreError> {
        self.query(|db| events_of_types(db, session, (from, to), types))
    }

    /// Returns when a turn of a session started.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn turn_start(&self, session: &str, turn: u32) -> Result<Option<Timestamp>, StoreError> {
        self.query(|db| turn_start(db, session, turn))
    }
}

fn events_of_types(
    db: &Connection,
    session: &str,
    (from, to): (u64, u64),
    types: &[&str],
) -> Result<Vec<Event>> {
    let places = vec!["?"; types.len()].join(", ");
    let sql = format!(
        "SELECT seq, at, turn, json FROM events
         WHERE session = (SELECT key FROM sessions WHERE session = ?) AND seq BETWEEN ? AND ?
         AND type IN ({places}) ORDER BY seq"
    );
    let mut query = db.prepare_cached(&sql)?;
    let fixed: [Value; 3] = [
        session.to_owned().into(),
        signed(from).into(),
        signed(to).into(),
    ];
    let types = types.iter().map(|name| Value::from((*name).to_owned()));
    let values = fixed.into_iter().chain(types);
    rows::event_page(query.query(rusqlite::params_from_iter(values))?, session)
}

fn turn_start(db: &Connection, session: &str, turn: u32) -> Result<Option<Timestamp>> {
    let sql = "SELECT began_at FROM turns
        WHERE session = (SELECT key FROM sessions WHERE session = ?1) AND turn = ?2";
    db.prepare_cached(sql)?
        .query_row(params![session, turn], |row| row.get(0).map(Timestamp))
        .optional()
}
