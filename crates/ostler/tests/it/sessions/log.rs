//! An in-memory log that knows which sessions are still running.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ostler::log::{LogEntry, LogError, NewSession, SessionRecord};
use ostler::{Event, EventKind, Log};
use ostler_core::log::AppendFuture;

/// An in-memory log.
#[derive(Clone, Default)]
pub(crate) struct MemoryLog(Arc<Mutex<(Vec<NewSession>, Vec<Event>)>>);

impl Log for MemoryLog {
    fn open(&self, opening: &NewSession) -> Result<(), LogError> {
        self.0.lock().unwrap().0.push(opening.clone());
        Ok(())
    }

    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        self.0
            .lock()
            .unwrap()
            .1
            .extend(entries.iter().map(|entry| entry.event.clone()));
        Box::pin(async { Ok(()) })
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let state = self.0.lock().unwrap();
        let events = state
            .1
            .iter()
            .filter(|event| &*event.session == session && event.seq >= from);
        Ok(events.take(most).cloned().collect())
    }

    fn raw(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError> {
        let state = self.0.lock().unwrap();
        let native = |opening: &NewSession| {
            let mut events = state
                .1
                .iter()
                .filter(|event| *event.session == *opening.session);
            events.find_map(|event| {
                if let EventKind::Started(it) = &event.kind {
                    it.native_session.clone()
                } else {
                    None
                }
            })
        };
        let known = state
            .0
            .iter()
            .rev()
            .find(|opening| opening.session == id || native(opening).as_deref() == Some(id));
        Ok(known.map(|opening| {
            let over = |event: &Event| {
                *event.session == *opening.session && matches!(event.kind, EventKind::Ended(_))
            };
            SessionRecord {
                session: opening.session.clone(),
                agent: opening.agent.clone(),
                agent_version: None,
                native_session: native(opening),
                dir: opening.dir.clone(),
                continues: opening.continues.clone(),
                held_by: (!state.1.iter().any(over)).then_some(opening.pid),
            }
        }))
    }
}
