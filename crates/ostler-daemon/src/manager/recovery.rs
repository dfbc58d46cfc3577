//! Recovery: closes what a daemon that was killed left open, exactly once.

use std::sync::Arc;

use ostler::{Cause, Outcome};
use ostler_core::event::{
    DecidedBy, Decision, Ended, Event, EventKind, Permission, Timestamp, TurnEnded,
};
use ostler_core::log::{Log, LogEntry};
use ostler_core::outcome::Reason;
use ostler_store::{ManagedSession, Orphaned};

use super::{Admission, Manager, Waiting, stored};
use crate::api::CreateSession;
use crate::problem::{Problem, ProblemKind};

/// What was recovered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of sessions that were closed.
    pub closed: usize,
    /// Number of sessions that still wait to be started.
    pub queued: usize,
    /// Number of sessions that run elsewhere and are followed again.
    pub rejoined: usize,
    /// Number of processes that were left behind and killed.
    pub killed: usize,
    /// Number of sessions that could not be closed. The log says why.
    pub failed: usize,
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
            let in_fleet = self.in_fleet(&id).await.unwrap_or_default();
            if let Some(managed) = &in_fleet
                && self.rejoin(managed).await
            {
                recovered.rejoined += 1;
                continue;
            }
            let killed = tokio::task::spawn_blocking(move || ostler::detached::kill_leftovers(&id));
            recovered.killed += killed.await.unwrap_or_default();
            // One that cannot be closed must not keep the daemon from its other sessions.
            match self.close_orphan(orphan, in_fleet.is_none(), now).await {
                Ok(()) => recovered.closed += 1,
                Err(problem) => {
                    recovered.failed += 1;
                    let session = &orphan.row.session;
                    tracing::warn!(session, %problem, "session not closed");
                }
            }
        }
        for waiting in self.with_store(ostler_store::Store::queued).await? {
            if self.get(&waiting.session).await?.parent.is_some() {
                // Its parent has ended with the earlier daemon.
                let why = "The session that started this one has ended.";
                let outcome = Outcome::new(Cause::Stopped, why);
                self.close(&waiting.session, outcome).await;
                continue;
            }
            // Until it is started, the process of the earlier daemon would make it look ended.
            let own = waiting.session.clone();
            self.with_store(move |store| store.adopt(&own)).await?;
            match self.enqueue(&waiting).await {
                Ok(()) => recovered.queued += 1,
                Err(problem) => {
                    let outcome = Outcome::new(Cause::BadRequest, problem.detail);
                    self.close(&waiting.session, outcome).await;
                }
            }
        }
        Ok(recovered)
    }

    /// Follows a session again that runs elsewhere. Returns false if that is not possible.
    async fn rejoin(self: &Arc<Self>, managed: &ManagedSession) -> bool {
        let rejoined = self.follow_again(managed).await;
        if let Err(problem) = &rejoined {
            let session = &managed.session;
            tracing::warn!(session, %problem, "session not followed again");
        }
        rejoined.is_ok()
    }

    /// Starts to follow a session again. It must not wait in the queue: it runs already, and its
    /// worker stops it if the daemon does not know it once it has recovered.
    async fn follow_again(self: &Arc<Self>, managed: &ManagedSession) -> Result<(), Problem> {
        let id = &managed.session;
        let waiting = Waiting {
            rejoins: true,
            login: None, // its agent is not started
            ..self.stored_waiting(managed).await?
        };
        let timeout = i64::try_from(self.options.approval_timeout.as_millis()).unwrap_or(i64::MAX);
        let expires_at = Timestamp(self.embedder.now().0.saturating_add(timeout));
        let own = id.clone();
        self.with_store(move |store| store.reopen_undelivered(&own, expires_at))
            .await?;
        let agent = waiting.agent.about().name;
        self.feed.add(id);
        self.state().queue.add_running(agent);
        let started = self.start(waiting, None).await;
        if started.is_err() {
            self.state().queue.on_ended(agent);
            self.feed.remove(id);
        }
        started
    }

    /// Makes this daemon the driver of a session. Returns the number of its last event.
    pub(super) async fn adopt(&self, id: String) -> Result<u64, Problem> {
        self.with_store(move |store| {
            store.adopt(&id)?;
            store.last_seq(&id)
        })
        .await
    }

    /// Closes a session whose daemon is gone.
    async fn close_orphan(
        &self,
        orphan: &Orphaned,
        is_resumable: bool,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let own = orphan.row.session.clone();
        self.with_store(move |store| store.withdraw_undelivered(&own))
            .await?;
        let entries = closing_events(orphan, is_resumable, now)
            .into_iter()
            .map(|event| LogEntry {
                event,
                raw_offset: 0,
            });
        let stored = self.store.append(Arc::new(entries.collect())).await;
        self.forget_messages(&orphan.row.session).await;
        stored.map_err(|error| Problem::new(ProblemKind::StoreFailed, error.to_string()))
    }

    /// Starts the sessions that wait.
    pub(crate) async fn start_waiting(self: &Arc<Self>) {
        self.pump().await;
    }

    async fn enqueue(&self, managed: &ManagedSession) -> Result<(), Problem> {
        let waiting = self.stored_waiting(managed).await?;
        self.feed.add(&managed.session);
        let agent = waiting.agent.about().name;
        self.state().queue.push(agent, waiting);
        Ok(())
    }

    /// Returns a stored session that can be started.
    async fn stored_waiting(&self, managed: &ManagedSession) -> Result<Waiting, Problem> {
        let request: CreateSession = stored(&managed.request)?;
        let granted = stored(&managed.granted)?;
        let prepared = self.embedder.prepare(&request).await?;
        let admission = Admission {
            granted: Some(granted),
            parent: None, // it is stored
            is_limited: true,
            key: None,
        };
        self.waiting(managed.session.clone(), &request, prepared, &admission)
    }
}

/// Returns the events that end a session whose daemon is gone: open permission requests are denied,
/// the open turn ends, and the session ends.
fn closing_events(orphan: &Orphaned, is_resumable: bool, now: Timestamp) -> Vec<Event> {
    let outcome = || {
        let why = "The daemon that ran this session ended without ending it.";
        let outcome = Outcome::new(Cause::AgentDied, why).because(Reason::DaemonRestarted);
        match is_resumable {
            true => outcome.hint("resume the session to continue it"),
            false => outcome,
        }
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
