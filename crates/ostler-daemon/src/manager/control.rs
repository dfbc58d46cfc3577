//! Requests for one session: interrupts, answers, pause, stop, restart, fork, delete.

use std::sync::Arc;
use std::time::Duration;

use ostler::permission::PermissionAnswer;
use ostler::session::{Interruption, RequestError};
use ostler::{Cause, Outcome};
use ostler_core::event::SessionState;
use ostler_store::{
    ApprovalDecision, ApprovalState, DecideResult, ManagedSession, SessionRow, SessionStatus,
};

use super::{Admission, Live, Manager, stored};
use crate::api::{Answer, AnswerDecision, ApprovalView, CreateSession, SessionView};
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

/// How long to wait for the end of a session that was stopped, beyond its own grace periods.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a name or message in a record.
const MAX_MESSAGE: usize = 10_000;

impl Manager {
    /// Returns a session that this daemon runs.
    pub(super) async fn running(&self, id: &str) -> Result<(SessionRow, Live), Problem> {
        let row = self.row(id).await?;
        match self.live(&row.session) {
            Some(live) => Ok((row, live)),
            None => Err(not_running(&row)),
        }
    }

    /// Interrupts the current turn. Returns false if there is none.
    pub(crate) async fn interrupt(&self, id: &str) -> Result<bool, Problem> {
        let (_, live) = self.running(id).await?;
        Ok(live.remote.interrupt().await != Interruption::NoTurn)
    }

    /// Holds back messages until the session is resumed.
    pub(crate) async fn pause(&self, id: &str) -> Result<SessionView, Problem> {
        let (row, live) = self.running(id).await?;
        live.remote.pause();
        self.after_change(&row, |state| state == SessionState::Paused)
            .await
    }

    /// Resumes a session: delivers what was held back, or continues one that has ended.
    pub(crate) async fn resume(self: &Arc<Self>, id: &str) -> Result<SessionView, Problem> {
        let row = self.row(id).await?;
        match self.live(&row.session) {
            Some(live) => {
                live.remote.resume();
                self.after_change(&row, |state| state != SessionState::Paused)
                    .await
            }
            None => self.again(&row, false).await,
        }
    }

    /// Stops a session and starts it again.
    pub(crate) async fn restart(self: &Arc<Self>, id: &str) -> Result<SessionView, Problem> {
        let row = self.row(id).await?;
        if self.in_fleet(&row.session).await?.is_some() {
            return Err(not_continued(&row)); // before it is stopped for nothing
        }
        self.stop_and_wait(&row.session).await?;
        let row = self.row(&row.session).await?;
        self.again(&row, false).await
    }

    /// Starts a copy of a session.
    pub(crate) async fn fork(self: &Arc<Self>, id: &str) -> Result<SessionView, Problem> {
        let row = self.row(id).await?;
        self.again(&row, true).await
    }

    /// Starts a session that continues another, with the permissions of that one.
    async fn again(self: &Arc<Self>, row: &SessionRow, fork: bool) -> Result<SessionView, Problem> {
        let id = row.session.clone();
        let managed = self.with_store(move |store| store.managed(&id)).await?;
        let Some(managed) = managed else {
            let why = "this session was not created by the daemon, so its permissions are unknown";
            return Err(Problem::new(ProblemKind::Refused, why)
                .hint("create a session with `resume` instead"));
        };
        let granted = stored(&managed.granted)?;
        let request: CreateSession = stored(&managed.request)?;
        if request.fleet.is_some() {
            return Err(not_continued(row));
        }
        let request = CreateSession {
            agent: request.agent.clone().or_else(|| Some(row.agent.clone())),
            prompt: None,
            once: false,
            resume: Some(row.session.clone()),
            fork,
            name: None,
            ..request
        };
        let prepared = self.embedder.prepare(&request).await?;
        let from_events = prepared.agent.about().capabilities.resumes_from_events;
        if row.native_session.is_none() && !from_events {
            let why = "the agent did not report an id for this session, so it cannot be resumed";
            return Err(Problem::new(ProblemKind::Refused, why));
        }
        let admission = Admission {
            granted: Some(granted),
            ..Admission::default()
        };
        self.admit(request, prepared, admission).await
    }

    /// Returns how a session was created, if it was created to run in a fleet.
    pub(super) async fn in_fleet(&self, id: &str) -> Result<Option<ManagedSession>, Problem> {
        let own = id.to_owned();
        let managed = self.with_store(move |store| store.managed(&own)).await?;
        let Some(managed) = managed else {
            return Ok(None);
        };
        let request: CreateSession = stored(&managed.request)?;
        Ok(request.fleet.is_some().then_some(managed))
    }

    /// Stops a session gracefully, and returns without waiting for its end. One that has ended is
    /// left as it is.
    pub(crate) async fn stop(&self, id: &str) -> Result<SessionView, Problem> {
        let row = self.row(id).await?;
        match self.live(&row.session) {
            Some(live) => live.remote.stop(),
            None => {
                if !self.withdraw(&row.session).await {
                    check_own(&row)?;
                }
            }
        }
        self.get(&row.session).await
    }

    /// Ends a session that waits to be started. Returns false if it does not.
    pub(super) async fn withdraw(&self, id: &str) -> bool {
        let removed = {
            let mut state = self.state();
            if let Some(is_unwanted) = state.starting.get_mut(id) {
                *is_unwanted = true; // it is stopped once it has started
            }
            state.queue.remove(|waiting| waiting.id == id)
        };
        if removed.is_some() {
            let why = "The session was stopped before it started.";
            self.close(id, Outcome::new(Cause::Stopped, why)).await;
        }
        removed.is_some()
    }

    async fn stop_and_wait(&self, id: &str) -> Result<(), Problem> {
        if let Some(live) = self.live(id) {
            live.remote.stop();
        }
        if !self.withdraw(id).await {
            check_own(&self.row(id).await?)?;
            self.wait_for_end(id).await?;
        }
        Ok(())
    }

    async fn wait_for_end(&self, id: &str) -> Result<(), Problem> {
        let Some(mut stored) = self.feed.subscribe(id) else {
            return Ok(());
        };
        // The sender is dropped once the session is removed.
        let ended = async { while stored.changed().await.is_ok() {} };
        tokio::time::timeout(STOP_TIMEOUT, ended)
            .await
            .map_err(|_| Problem::new(ProblemKind::Internal, "the session did not end in time"))
    }

    /// Waits briefly until a request has changed the state, and returns the session.
    async fn after_change(
        &self,
        row: &SessionRow,
        is_changed: impl Fn(SessionState) -> bool,
    ) -> Result<SessionView, Problem> {
        if let (Some(live), Some(mut stored)) =
            (self.live(&row.session), self.feed.subscribe(&row.session))
        {
            let changed = async {
                while !is_changed(live.remote.status().state) && stored.changed().await.is_ok() {}
            };
            // A pause during a turn takes effect after it.
            let _ = tokio::time::timeout(Duration::from_millis(500), changed).await;
        }
        self.get(&row.session).await
    }

    /// Deletes a session: its processes, events and raw output.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), Problem> {
        let row = self.row(id).await?;
        let live = self.live(&row.session);
        if let Some(live) = &live {
            live.remote.kill();
        }
        if !self.withdraw(&row.session).await {
            self.wait_for_end(&row.session).await?;
        }
        self.with_store(move |store| store.remove(&row.session))
            .await
            .map(drop)
    }

    /// Answers a permission request. Only the first answer counts.
    pub(crate) async fn answer(
        &self,
        id: &str,
        answer: Answer,
        caller: &Caller,
    ) -> Result<ApprovalView, Problem> {
        if answer
            .message
            .as_ref()
            .is_some_and(|text| text.len() > MAX_MESSAGE)
        {
            let why = format!("message: expected at most {MAX_MESSAGE} bytes");
            return Err(Problem::new(ProblemKind::BadRequest, why));
        }
        if answer.always && answer.decision == AnswerDecision::Deny {
            let why = "always: only an action that is allowed can be allowed for the session";
            return Err(Problem::new(ProblemKind::BadRequest, why));
        }
        let (own, by, at) = (id.to_owned(), caller.to_string(), self.embedder.now());
        let mut message = answer.message.clone();
        if answer.always && message.is_none() {
            message = Some("for the rest of the session".to_owned());
        }
        let state = match answer.decision {
            AnswerDecision::Allow => ApprovalState::Allowed,
            AnswerDecision::Deny => ApprovalState::Denied,
        };
        let decided = self.with_store(move |store| {
            let decision = ApprovalDecision {
                state,
                by: &by,
                message: message.as_deref(),
                at,
            };
            store.decide_approval(&own, decision)
        });
        let approval = match decided.await? {
            DecideResult::Decided(approval) => approval,
            DecideResult::Unknown => {
                let why = format!("no approval {id:?}");
                return Err(Problem::new(ProblemKind::UnknownApproval, why));
            }
            DecideResult::Earlier(approval) => return Err(decided_earlier(approval.state)),
            DecideResult::Late(approval) => {
                if let Some(live) = self.live(&approval.session) {
                    let deny = PermissionAnswer::Deny(super::follow::UNANSWERED.to_owned());
                    let _ = live.remote.answer(&approval.request, deny).await; // or withdrawn
                }
                return Err(decided_earlier(approval.state));
            }
        };
        let Some(live) = self.live(&approval.session) else {
            return Err(self.undelivered(id).await);
        };
        let reply = match answer.decision {
            AnswerDecision::Allow if answer.always => PermissionAnswer::AllowAlways,
            AnswerDecision::Allow => PermissionAnswer::Allow,
            AnswerDecision::Deny => PermissionAnswer::Deny(
                answer
                    .message
                    .unwrap_or_else(|| "Denied by the user.".to_owned()),
            ),
        };
        match live.remote.answer(&approval.request, reply).await {
            Ok(()) => Ok((*approval).into()),
            Err(RequestError::Ended | RequestError::Refused(_)) => Err(self.undelivered(id).await),
        }
    }

    /// Corrects the record of an answer that did not reach its session.
    async fn undelivered(&self, id: &str) -> Problem {
        let own = id.to_owned();
        let withdrawn = self.with_store(move |store| store.withdraw_approval(&own));
        if let Err(problem) = withdrawn.await {
            tracing::warn!(approval = id, %problem, "record not corrected");
        }
        decided_earlier(ApprovalState::Withdrawn)
    }
}

fn decided_earlier(state: ApprovalState) -> Problem {
    match state {
        ApprovalState::Expired | ApprovalState::Withdrawn => Problem::new(
            ProblemKind::ApprovalExpired,
            "the request has expired, or the agent withdrew it",
        ),
        _ => Problem::new(
            ProblemKind::AlreadyDecided,
            format!("the request was answered before: {state}"),
        ),
    }
}

/// Fails if another process runs the session.
fn check_own(row: &SessionRow) -> Result<(), Problem> {
    match row.status {
        SessionStatus::Live(pid) if pid != std::process::id() => Err(not_running(row)),
        _ => Ok(()),
    }
}

pub(super) fn ended(row: &SessionRow) -> Problem {
    let why = format!("session {} has ended", row.session);
    Problem::new(ProblemKind::SessionEnded, why)
        .hint("continue it with `POST /v1/sessions/{id}/resume`")
}

/// The problem if a session is to be continued whose transcript and workspace are on a worker.
fn not_continued(row: &SessionRow) -> Problem {
    let why = format!(
        "session {} runs or ran in a fleet, so it cannot be resumed, restarted or forked",
        row.session
    );
    Problem::new(ProblemKind::Refused, why)
        .hint("start a new session; `ostler sessions fetch ID` gets the changes of one that ended")
}

pub(super) fn not_running(row: &SessionRow) -> Problem {
    match row.status {
        SessionStatus::Live(pid) if pid != std::process::id() => {
            let why = format!(
                "session {} runs in process {pid}, not in the daemon",
                row.session
            );
            Problem::new(ProblemKind::NotRunning, why)
        }
        SessionStatus::Live(_) => {
            let why = format!("session {} waits to be started", row.session);
            Problem::new(ProblemKind::Refused, why)
                .hint("try again once it runs; its event stream shows when that is")
        }
        SessionStatus::Ended(_) | SessionStatus::Abandoned => ended(row),
    }
}
