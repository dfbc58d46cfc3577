//! History of a stored session and its continuations, read from the store page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use ostler::log::LogError;
use ostler::{Event, Log};
use ostler_store::{Filter, SessionRow, Store};

use crate::wire::Failure;

/// Number of events to read at once.
const PAGE: usize = 256;

/// Number of recent sessions to search for continuations, and maximum number to follow.
const RECENT: usize = 1000;

/// Events of a chain of sessions.
pub(crate) struct History {
    store: Arc<Store>,
    /// The sessions, oldest first.
    sessions: VecDeque<String>,
    /// Sequence number of the next event in the first session.
    next: u64,
}

/// A stored session and its history.
pub(crate) struct StoredSession {
    pub(crate) continuation: Continuation,
    pub(crate) history: History,
}

/// How to continue a session, with Ostler's id of the last session in the chain.
#[derive(Debug)]
pub(crate) enum Continuation {
    /// The agent resumes the session.
    Resumed(String),
    /// The session has no turns, so the agent starts a new one.
    Empty(String),
}

/// Finds a stored session of this agent.
pub(crate) fn find(store: &Arc<Store>, id: &str, agent: &str) -> Result<StoredSession, Failure> {
    let row = store.session(id)?.ok_or_else(|| {
        Failure::unknown(format!("no session {id}"))
            .hint("run `ostler sessions` to list sessions, or start a new one")
    })?;
    if row.agent != agent {
        let other = row.agent;
        return Err(
            Failure::params(format!("session {id} belongs to the agent {other}"))
                .hint(format!("use `ostler acp --agent {other}`")),
        );
    }
    let filter = Filter {
        agent: Some(agent.to_owned()),
        limit: Some(RECENT),
        ..Filter::default()
    };
    let recent = store.sessions(&filter)?;
    let mut chain = VecDeque::from([row]);
    // Forward to its continuations, newest first, and back to the sessions that it continues.
    while let Some(next) = chain
        .back()
        .and_then(|last| continuation_of(last, &recent))
        .filter(|_| chain.len() < RECENT)
    {
        chain.push_back(next.clone());
    }
    while let Some(before) = chain.front().and_then(|first| first.continues.clone()) {
        match store.session(&before)? {
            Some(before) if chain.len() < 2 * RECENT => chain.push_front(before),
            _ => break,
        }
    }
    let sessions: VecDeque<String> = chain.iter().map(|row| row.session.clone()).collect();
    // The newest session in the chain that has turns.
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

/// Returns the session that continues this one and has turns.
pub(crate) fn continuation_of<'r>(
    row: &SessionRow,
    recent: &'r [SessionRow],
) -> Option<&'r SessionRow> {
    recent
        .iter()
        .find(|next| next.continues.as_deref() == Some(&*row.session) && next.turns > 0)
}

impl History {
    /// Returns the next events, or `None` at the end. May block briefly.
    pub(crate) fn page(&mut self) -> Result<Option<Vec<Event>>, LogError> {
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
