//! Full-text search in prompts, replies, reasoning, and the arguments and output of tools.
//!
//! `document` says what can be found, `grams` how it is indexed, and `indexer` when. `terms`
//! decides whether a candidate matches. Events that are not indexed yet are searched as they are.

mod document;
mod grams;
mod indexer;
mod terms;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use ostler_core::event::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use crate::cancel::Cancel;
use crate::index::{dir_value, signed, unsigned};
use crate::rows::{self, SessionRow};

pub use self::document::Speaker;
use self::document::{Document, Place};
pub(crate) use self::indexer::{progress, remove, step};
pub use self::terms::SnippetPart;
use self::terms::Terms;

/// What to search for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Words and `"quoted phrases"`, all of which a text contains, ignoring case.
    pub text: String,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions in this directory.
    pub dir: Option<PathBuf>,
    /// Only texts of this author.
    pub speaker: Option<Speaker>,
    /// Only texts at or after this time.
    pub since: Option<Timestamp>,
    /// Only texts before this time.
    pub until: Option<Timestamp>,
    /// Maximum number of hits, newest first.
    pub limit: usize,
    /// Only hits after this one: [`SearchPage::next`] of the previous page.
    pub after: Option<u64>,
    /// Only the newest hit of each session.
    pub once_per_session: bool,
}

impl SearchQuery {
    /// Returns a query for a text in all sessions.
    #[must_use]
    pub fn new(text: impl Into<String>, limit: usize) -> Self {
        Self {
            text: text.into(),
            limit,
            agent: None,
            dir: None,
            speaker: None,
            since: None,
            until: None,
            after: None,
            once_per_session: false,
        }
    }

    fn is_in_time(&self, at: i64) -> bool {
        self.since.is_none_or(|since| at >= since.0) && self.until.is_none_or(|until| at < until.0)
    }
}

/// A text that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionRow,
    /// Number of the event in which the text begins.
    pub seq: u64,
    /// Its turn.
    pub turn: u32,
    /// Its time.
    pub at: Timestamp,
    /// Whose text it is.
    pub speaker: Speaker,
    /// What was found, with its context.
    pub snippet: Vec<SnippetPart>,
}

impl SearchHit {
    /// Returns the snippet as text.
    #[must_use]
    pub fn excerpt(&self) -> String {
        self.snippet.iter().map(|part| &*part.text).collect()
    }
}

/// Hits of a search, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchPage {
    /// The hits.
    pub hits: Vec<SearchHit>,
    /// Value of [`SearchQuery::after`] for the next page, if there is one.
    pub next: Option<u64>,
}

/// A hit whose session was not read yet.
struct FoundText {
    place: Place,
    speaker: Speaker,
    snippet: Vec<SnippetPart>,
}

/// Searches, newest text first, until the limit is reached.
pub(crate) fn run(db: &Connection, query: &SearchQuery, cancel: &Cancel) -> Result<SearchPage> {
    let terms = Terms::parse(&query.text);
    if terms.is_empty() || query.limit == 0 {
        return Ok(SearchPage::default());
    }
    let db = db.unchecked_transaction()?; // all of it from the same state of the database
    let mut search = Search {
        db: &db,
        query,
        terms: &terms,
        cancel,
        found: BTreeMap::new(),
        newest: HashMap::new(),
        wanted: HashMap::new(),
    };
    let unindexed = search.unindexed()?;
    search.indexed(&unindexed)?;
    let found: Vec<FoundText> = search.found.into_values().rev().collect();
    page(&db, query, found)
}

/// A search that is under way.
struct Search<'a> {
    db: &'a Connection,
    query: &'a SearchQuery,
    terms: &'a Terms,
    cancel: &'a Cancel,
    /// The newest hits so far, by position: one more than the limit.
    found: BTreeMap<i64, FoundText>,
    /// The position of the newest hit of each session.
    newest: HashMap<i64, i64>,
    /// Whether a session is to be searched.
    wanted: HashMap<i64, bool>,
}

impl Search<'_> {
    /// Searches the events that are not indexed. Returns the positions of documents that are
    /// indexed only in part.
    fn unindexed(&mut self) -> Result<HashSet<i64>> {
        let progress = progress(self.db)?;
        let mut partial = HashSet::new();
        indexer::walk(self.db, progress, (usize::MAX, usize::MAX), |document| {
            self.cancel.check()?;
            if document.place.position <= progress {
                partial.insert(document.place.position);
            }
            self.add(document)
        })?;
        Ok(partial)
    }

    /// Searches the index, until there are enough hits.
    fn indexed(&mut self, partial: &HashSet<i64>) -> Result<()> {
        let (sql, values) = self.statement();
        let mut candidates = self.db.prepare_cached(&sql)?;
        let mut candidates = candidates.query(rusqlite::params_from_iter(values))?;
        while let Some(row) = candidates.next()? {
            self.cancel.check()?;
            let (position, key): (i64, i64) = (row.get(0)?, row.get(1)?);
            if self.is_full(position) {
                break;
            }
            let is_known = self.query.once_per_session && self.newest.contains_key(&key);
            if is_known || partial.contains(&position) {
                continue;
            }
            if let Some(document) = indexer::document(self.db, key, row.get(2)?)? {
                self.add(document)?;
            }
        }
        Ok(())
    }

    /// Returns the statement for candidates from the index, newest first, and its parameters.
    fn statement(&self) -> (String, Vec<Value>) {
        let query = self.query;
        let tokens = grams::query(self.terms.iter(), query.speaker);
        let agent = query
            .agent
            .clone()
            .map(|agent| (" AND agent = ?", agent.into()));
        let dir = query
            .dir
            .as_deref()
            .map(|dir| (" AND dir = ?", dir_value(dir)));
        let since = query.since.map(|at| (" AND at >= ?", at.0.into()));
        let until = query.until.map(|at| (" AND at < ?", at.0.into()));
        let after = query
            .after
            .map(|position| (" AND search_index.rowid < ?", signed(position).into()));
        let all = agent.into_iter().chain(dir).chain(since).chain(until);
        let (conditions, mut values): (String, Vec<Value>) = all.chain(after).unzip();
        values.insert(0, tokens.into());
        let sql = format!(
            "SELECT search_index.rowid, events.session, seq FROM search_index
             CROSS JOIN events ON events.rowid = search_index.rowid
             CROSS JOIN sessions ON key = events.session
             WHERE search_index MATCH ?{conditions} ORDER BY search_index.rowid DESC"
        );
        (sql, values)
    }

    /// Returns true if there are enough hits that are newer than this position.
    fn is_full(&self, position: i64) -> bool {
        let oldest = self.found.first_key_value().map(|(oldest, _)| *oldest);
        self.found.len() > self.query.limit && oldest.is_some_and(|oldest| position < oldest)
    }

    /// Adds a document, if it matches.
    fn add(&mut self, document: Document) -> Result<()> {
        let Document {
            place,
            speaker,
            text,
        } = document;
        let query = self.query;
        let is_wanted = query.speaker.is_none_or(|wanted| wanted == speaker)
            && query.is_in_time(place.at)
            && query
                .after
                .is_none_or(|after| place.position < signed(after))
            && !self.is_full(place.position);
        if !is_wanted {
            return Ok(());
        }
        let Some(snippet) = self.terms.snippet(&text) else {
            return Ok(());
        };
        if !self.is_wanted_session(place.key)? {
            return Ok(());
        }
        if query.once_per_session {
            match self.newest.get(&place.key) {
                Some(newest) if *newest > place.position => return Ok(()),
                Some(newest) => drop(self.found.remove(newest)),
                None => {}
            }
            self.newest.insert(place.key, place.position);
        }
        let found = FoundText {
            place,
            speaker,
            snippet,
        };
        self.found.insert(place.position, found);
        if self.found.len() > query.limit + 1 {
            self.found.pop_first();
        }
        Ok(())
    }

    fn is_wanted_session(&mut self, key: i64) -> Result<bool> {
        if let Some(known) = self.wanted.get(&key) {
            return Ok(*known);
        }
        let dir = self.query.dir.as_deref().map_or(Value::Null, dir_value);
        let sql = "SELECT 1 FROM sessions
            WHERE key = ?1 AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR dir = ?3)";
        let is_wanted =
            self.db
                .prepare_cached(sql)?
                .exists(rusqlite::params![key, self.query.agent, dir])?;
        self.wanted.insert(key, is_wanted);
        Ok(is_wanted)
    }
}

/// Reads the sessions of the hits, each once.
fn page(db: &Connection, query: &SearchQuery, mut found: Vec<FoundText>) -> Result<SearchPage> {
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    let next = found.last().filter(|_| has_more);
    let next = next.map(|last| unsigned(last.place.position));
    let mut sessions: HashMap<i64, Option<SessionRow>> = HashMap::new();
    let mut hits = Vec::with_capacity(found.len());
    for found in found {
        let key = found.place.key;
        let session = match sessions.get(&key) {
            Some(known) => known.clone(),
            None => {
                let row = rows::by_key(db, key)?;
                sessions.insert(key, row.clone());
                row
            }
        };
        hits.extend(session.map(|session| SearchHit {
            session,
            seq: unsigned(found.place.seq),
            turn: found.place.turn,
            at: Timestamp(found.place.at),
            speaker: found.speaker,
            snippet: found.snippet,
        }));
    }
    Ok(SearchPage { hits, next })
}
