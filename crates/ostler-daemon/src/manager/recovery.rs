//! Recovery: closes what a daemon that was killed left open, exactly once.

use std::sync::Arc;

use ostler::{Cause, Outcome};
use ostler_core::event::{
    DecidedBy, Decision, Ended, Event, EventKind, Permission, Timestamp, TurnEnded,
};
use ostler_core::log::{Log, LogEntry};
use ostler_core::outcome::Reason;
use ostler_store::Orphaned;

use super::Manager;
use crate::api::CreateSession;
use crate::granted::Granted;
use crate::problem::{Problem, ProblemKind};

/// What was recovered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of sessions that were closed.
    pub closed: usize,
    /// Number of sessions that still wait to be started.
    pub queued: usize,
    /// Number of processes that were left behind and killed.
    pub killed: usize,
}

impl Manager {
    /// Closes the sessions of a daemon that is gone, and queues those that it had not started.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<Recovered, Problem> {
        let now = self.embedder.now();
        self.with_store(ostler_store::Store::forget_unanswered)
            .await?;
        let orphaned = self.with_store(ostler_store::Store::orphaned).await?;
        let mut recovered = Recovered::default();
        for orphan in &orphaned {
            let id = orphan.row.session.clone();
            let killed = tokio::task::spawn_blocking(move || ostler::detached::kill_leftovers(&id));
            recovered.killed += killed.await.unwrap_or_default();
            let entries = closing_events(orphan, now)
                .into_iter()
                .map(|event| LogEntry {
                    event,
                    raw_offset: 0,
                });
            let stored = self.store.append(Arc::new(entries.collect())).await;
            stored.map_err(|error| Problem::new(ProblemKind::StoreFailed, error.to_string()))?;
            recovered.closed += 1;
        }
        for waiting in self.with_store(ostler_store::Store::queued).await? {
            match self
                .requeue(&waiting.request, &waiting.granted, &waiting.session)
                .await
            {
                Ok(()) => recovered.queued += 1,
                Err(problem) => {
                    let outcome = Outcome::new(Cause::BadRequest, problem.detail);
                    self.close(&waiting.session, outcome).await;
                }
            }
        }
        Ok(recovered)
    }

    /// Starts the sessions that wait.
    pub(crate) async fn start_waiting(self: &Arc<Self>) {
        self.pump().await;
    }

    async fn requeue(&self, request: &str, granted: &str, id: &str) -> Result<(), Problem> {
        let read = |error: serde_json::Error| {
            Problem::new(ProblemKind::Internal, format!("stored session: {error}"))
        };
        let request: CreateSession = serde_json::from_str(request).map_err(read)?;
        let granted: Granted = serde_json::from_str(granted).map_err(read)?;
        let prepared = self.embedder.prepare(&request).await?;
        let waiting = self.waiting(id.to_owned(), &request, prepared, Some(&granted))?;
        self.feed.add(id);
        let agent = waiting.agent.about().name;
        self.state().queue.push(agent, waiting);
        Ok(())
    }
}

/// Returns the events that end a session whose daemon is gone: open permission requests are denied,
/// the open turn ends, and the session ends.
fn closing_events(orphan: &Orphaned, now: Timestamp) -> Vec<Event> {
    let outcome = || {
        Outcome::new(
            Cause::AgentDied,
            "The daemon that ran this session ended without ending it.",
        )
        .hint("resume the session to continue it")
        .because(Reason::DaemonRestarted)
    };
    let open = orphan.open_permissions.iter();
    let open = open.filter_map(|json| Event::from_json(json).ok());
    let mut kinds: Vec<EventKind> = open
        .filter_map(|event| match event.kind {
            EventKind::Permission(asked) => Some(EventKind::Permission(Permission {
                decision: Decision::Denied,
                by: DecidedBy::Default,
                message: Some("The daemon was restarted before anyone answered.".to_owned()),
                ..asked
            })),
            _ => None,
        })
        .collect();
    let turn = orphan.open_turn.unwrap_or(orphan.row.turns);
    if orphan.open_turn.is_some() {
        kinds.push(EventKind::TurnEnded(Box::new(TurnEnded {
            outcome: outcome(),
            text: String::new(),
            usage: None,
            structured: None,
        })));
    }
    kinds.push(EventKind::Ended(Box::new(Ended {
        outcome: outcome(),
        exit_code: None,
        signal: None,
        usage: None,
    })));
    let events = (orphan.last + 1..).zip(kinds);
    events
        .map(|(seq, kind)| Event {
            seq,
            at: now,
            session: orphan.row.session.as_str().into(),
            turn,
            kind,
        })
        .collect()
}
