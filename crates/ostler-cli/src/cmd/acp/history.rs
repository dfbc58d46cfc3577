//! An earlier session and those that went on with it, read from the store page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler::{Event, Log, LogError};
use ostler_store::{Filter, SessionRow, Store};

use super::wire::Failure;
use crate::store::fault;

/// How many events are read at once.
const PAGE: usize = 256;

/// Among how many of the newest sessions continuations are looked for, and how many of them are followed.
const RECENT: usize = 1000;

/// What was said so far.
pub(super) struct History {
    store: Arc<Store>,
    /// The sessions, oldest first.
    sessions: VecDeque<String>,
    /// The number of the next event of the first of them.
    next: u64,
}

/// An earlier session and everything that was said in it.
pub(super) struct StoredSession {
    pub(super) continuation: Continuation,
    pub(super) history: History,
}

/// How a session continues, by Ostler's id of the last session of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Continuation {
    /// The agent resumes it.
    Resumed(String),
    /// Nothing was said in it, so the agent has nothing to resume: it starts anew.
    Empty(String),
}

/// Looks up a session of this agent.
pub(super) fn find(store: &Arc<Store>, id: &str, agent: &str) -> Result<StoredSession, Failure> {
    let store_failure = |error| {
        Failure::internal(
            fault(&error).outcome().message,
            super::wire::Data::default(),
        )
    };
    let row = store.session(id).map_err(store_failure)?;
    let row = row.ok_or_else(|| {
        Failure::unknown(format!("There is no session {id} here."))
            .hint("`ostler sessions` lists those there are; begin a new one.")
    })?;
    if row.agent != agent {
        let other = row.agent;
        return Err(
            Failure::params(format!("{id} is a session of the agent {other}"))
                .hint(format!("`ostler acp --agent {other}` serves it.")),
        );
    }
    let filter = Filter {
        agent: Some(agent.to_owned()),
        limit: Some(RECENT),
        ..Filter::default()
    };
    let recent = store.sessions(&filter).map_err(store_failure)?;
    let mut chain = VecDeque::from([row]);
    // Forward to what went on with it, the newest first; and back to what it went on with itself.
    while let Some(next) = chain
        .back()
        .and_then(|last| after(last, &recent))
        .filter(|_| chain.len() < RECENT)
    {
        chain.push_back(next.clone());
    }
    while let Some(before) = chain.front().and_then(|first| first.continues.clone()) {
        match store.session(&before).map_err(store_failure)? {
            Some(before) if chain.len() < 2 * RECENT => chain.push_front(before),
            _ => break,
        }
    }
    let sessions: VecDeque<String> = chain.iter().map(|row| row.session.clone()).collect();
    // The newest of them in which anything was said.
    let continuation = match chain.into_iter().rev().find(|row| row.turns > 0) {
        Some(last) => Continuation::Resumed(last.session),
        None => Continuation::Empty(id.to_owned()),
    };
    Ok(StoredSession {
        continuation,
        history: History {
            store: store.clone(),
            sessions,
            next: 1,
        },
    })
}

fn after<'r>(row: &SessionRow, recent: &'r [SessionRow]) -> Option<&'r SessionRow> {
    recent
        .iter()
        .find(|next| next.continues.as_deref() == Some(&*row.session) && next.turns > 0)
}

impl History {
    /// The next events; none after the last. It may block for a moment.
    pub(super) fn page(&mut self) -> Result<Option<Vec<Event>>, LogError> {
        while let Some(session) = self.sessions.front() {
            let events = self.store.read(session, self.next, PAGE)?;
            if let Some(last) = events.last() {
                self.next = last.seq + 1;
                return Ok(Some(events));
            }
            self.sessions.pop_front();
            self.next = 1;
        }
        Ok(None)
    }
}
