//! Child sessions: what an agent may start by itself. A child never has more permissions, time or
//! budget than its parent, and ends with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler::render::clip::sanitize;
use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_store::{SessionRow, SessionStatus};

use super::{Admission, Manager, normalized, stored};
use crate::api::{CreateSession, Report, ReportLevel, SessionView};
use crate::granted::{Allowance, Granted, Spent};
use crate::problem::{Problem, ProblemKind};
use crate::scope::{Caller, Target};

/// Maximum number of sessions that one session's agent may start.
const MAX_CHILDREN: usize = 16;

/// Maximum number of generations below a session that a user created.
const MAX_DEPTH: usize = 3;

/// Maximum number of reports of one session.
const MAX_REPORTS: u32 = 1_000;

/// Maximum length of a report, in characters.
const MAX_REPORT: usize = 2_000;

/// Maximum number of refused requests of an agent that are reported.
const MAX_DENIALS: u32 = 100;

/// Maximum length of such a request, in characters.
const MAX_REQUEST: usize = 100;

/// Label with the id of the parent.
const PARENT_LABEL: &str = "parent";

impl Manager {
    /// Creates a session for the agent of another one. A refusal is reported to that one.
    pub(crate) async fn create_child(
        self: &Arc<Self>,
        parent: &str,
        request: CreateSession,
        key: Option<String>,
    ) -> Result<SessionView, Problem> {
        let created = self.create_within(parent, request, key).await;
        if let Err(problem) = &created
            && matches!(problem.kind, ProblemKind::Forbidden | ProblemKind::Refused)
        {
            self.metrics.on_denied(true);
            self.report_denied(parent, true, "POST /v1/sessions");
        }
        created
    }

    async fn create_within(
        self: &Arc<Self>,
        parent: &str,
        request: CreateSession,
        key: Option<String>,
    ) -> Result<SessionView, Problem> {
        if let Some(field) = reserved_field(&request) {
            let why = format!("{field}: a session that an agent starts is like its parent");
            return Err(Problem::new(ProblemKind::Forbidden, why).hint("leave the field out"));
        }
        // One at a time, so that none exceeds the limits.
        let _turn = self.children.lock().await;
        let (row, granted, original) = self.parent(parent).await?;
        let request = inherited(normalized(request)?, &row, &original)?;
        let mut granted = granted;
        granted.limits = Some(self.allowance(&row, &granted).await?);
        let admission = Admission {
            granted: Some(granted),
            parent: Some(row.session.clone()),
            is_limited: true,
            key,
        };
        let prepared = self.embedder.prepare(&request).await?;
        let child = self.admit(request, prepared, admission).await?;
        // The parent may have ended meanwhile.
        if self.live(parent).is_none() {
            self.stop_children(parent).await;
        }
        Ok(child)
    }

    /// Returns a running session with its permissions and its request.
    async fn parent(&self, id: &str) -> Result<(SessionRow, Granted, CreateSession), Problem> {
        let row = self.row(id).await?;
        let own = row.session.clone();
        let managed = self.with_store(move |store| store.managed(&own)).await?;
        let (Some(managed), Some(_)) = (managed, self.live(&row.session)) else {
            let why = "the session that is to be the parent is not running";
            return Err(Problem::new(ProblemKind::Refused, why));
        };
        Ok((row, stored(&managed.granted)?, stored(&managed.request)?))
    }

    /// Returns what a new child may use: what its parent and the other children have left.
    async fn allowance(
        &self,
        parent: &SessionRow,
        granted: &Granted,
    ) -> Result<Allowance, Problem> {
        let id = parent.session.clone();
        let (depth, children) = self
            .with_store(move |store| {
                let (mut depth, mut at) = (1, store.session(&id)?);
                while let Some(above) = at.and_then(|row| row.parent) {
                    depth += 1;
                    at = store.session(&above)?;
                }
                let mut children = Vec::new();
                for child in store.children(&id)? {
                    let managed = store.managed(&child.session)?;
                    children.push((child, managed));
                }
                Ok((depth, children))
            })
            .await?;
        let refuse = |why: String| Err(Problem::new(ProblemKind::Refused, why));
        if depth > MAX_DEPTH {
            return refuse(format!("sessions may be nested at most {MAX_DEPTH} deep"));
        }
        if children.len() >= MAX_CHILDREN {
            return refuse(format!(
                "an agent may start at most {MAX_CHILDREN} sessions"
            ));
        }
        let limits = granted.limits.clone().unwrap_or_default();
        let mut spent = Spent {
            cost_usd: parent.cost_usd.unwrap_or_default(),
            tokens: parent.tokens.unwrap_or_default(),
            time_ms: u64::try_from(self.embedder.now().0 - parent.began_at.0).unwrap_or(0),
        };
        for (child, managed) in children {
            let granted = managed.and_then(|it| serde_json::from_str::<Granted>(&it.granted).ok());
            let reserved = granted.and_then(|granted| granted.limits);
            // What a running child may still use is not available to others.
            let reserved = reserved.filter(|_| matches!(child.status, SessionStatus::Live(_)));
            let reserved = reserved.unwrap_or_default();
            let used = self
                .state()
                .families
                .used_by(&parent.session, &child.session);
            let cost = child.cost_usd.unwrap_or_default().max(used.cost_usd);
            let tokens = child.tokens.unwrap_or_default().max(used.tokens);
            spent.cost_usd += cost.max(reserved.budget_usd.unwrap_or_default());
            spent.tokens = spent
                .tokens
                .saturating_add(tokens.max(reserved.budget_tokens.unwrap_or_default()));
        }
        match limits.left(&spent) {
            Some(left) => Ok(left),
            None => refuse("the budget of this session is used up".to_owned()),
        }
    }

    /// Reports a request of an agent that was refused, in the events of its session. Those of
    /// another process's session have one writer, that process: they are only counted and logged.
    pub(crate) fn report_refused(&self, caller: &Caller, request: &str) {
        let Caller::Agent { session, claims } = caller else {
            return;
        };
        let id = session.as_ref().or(claims.as_ref());
        match id.filter(|id| self.live(id).is_some()) {
            Some(id) => {
                self.metrics.on_denied(true);
                self.report_denied(id, session.is_some(), request);
            }
            None => {
                self.metrics.on_denied(false);
                let session = id.map(|id| sanitize(id));
                let session = session.as_deref().unwrap_or("unknown");
                tracing::warn!(
                    session,
                    request,
                    "refused: the caller is an agent of another process"
                );
            }
        }
    }

    /// Reports a request of a session's agent to the daemon that was refused, in its events. After
    /// the first hundred, no more are reported.
    fn report_denied(&self, id: &str, is_certain: bool, request: &str) {
        let Some(live) = self.live(id) else { return };
        let number = live.denials.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_DENIALS {
            return;
        }
        let more = if number + 1 == MAX_DENIALS {
            " Further ones are not reported."
        } else {
            ""
        };
        let request: String = sanitize(request).chars().take(MAX_REQUEST).collect();
        let who = match is_certain {
            true => "A process of this session",
            false => "An orphaned process that carries the mark of this session",
        };
        let message = format!("{who} requested {request} from the daemon, and was refused.{more}");
        live.remote.notice(Notice::new(
            Level::Warning,
            NoticeCode::ControlDenied,
            message,
        ));
    }

    /// Stops the sessions that a session's agent started.
    pub(super) async fn stop_children(&self, parent: &str) {
        let own = parent.to_owned();
        let children = match self.with_store(move |store| store.children(&own)).await {
            Ok(children) => children,
            Err(problem) => {
                return tracing::warn!(session = parent, %problem, "children not stopped");
            }
        };
        for child in children {
            match self.live(&child.session) {
                Some(live) => live.remote.stop(),
                None => drop(self.withdraw(&child.session).await),
            }
        }
    }

    /// Returns what a session is to an agent. Only a complete id names one.
    pub(crate) async fn target(&self, agent: &str, id: Option<&str>) -> Target {
        match id {
            None => Target::None,
            Some(id) if id == agent => Target::Own,
            Some(id) => {
                let own = id.to_owned();
                let row = self.with_store(move |store| store.session(&own)).await;
                let parent = row.ok().flatten().and_then(|row| row.parent);
                if parent.as_deref() == Some(agent) {
                    Target::Child
                } else {
                    Target::Other
                }
            }
        }
    }

    /// Adds a report to a session's events.
    pub(crate) async fn report(&self, id: &str, report: &Report) -> Result<(), Problem> {
        let text = sanitize(report.text.trim());
        if text.is_empty() || text.chars().count() > MAX_REPORT {
            let why = format!("text: expected 1 to {MAX_REPORT} characters");
            return Err(Problem::new(ProblemKind::BadRequest, why));
        }
        let (_, live) = self.running(id).await?;
        let number = live.reports.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_REPORTS {
            let why = format!("a session has at most {MAX_REPORTS} reports");
            return Err(Problem::new(ProblemKind::Refused, why));
        }
        let level = match report.level {
            ReportLevel::Info => Level::Info,
            ReportLevel::Warning => Level::Warning,
            ReportLevel::Error => Level::Error,
        };
        live.remote
            .notice(Notice::new(level, NoticeCode::AgentReport, text));
        Ok(())
    }
}

/// Returns a field that the parent determines.
fn reserved_field(request: &CreateSession) -> Option<&'static str> {
    let given = [
        ("permissions", request.permissions.is_some()),
        ("sandbox", request.sandbox.is_some()),
        ("settings", !request.settings.is_empty()),
        ("resume", request.resume.is_some()),
        ("fork", request.fork),
        ("fleet", request.fleet.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
    given.next().map(|(field, _)| field)
}

/// Completes the request for a child with what it gets from its parent.
fn inherited(
    mut request: CreateSession,
    parent: &SessionRow,
    original: &CreateSession,
) -> Result<CreateSession, Problem> {
    let forbidden = |why: String| Err(Problem::new(ProblemKind::Forbidden, why));
    let agent = original.agent.as_deref().unwrap_or(&parent.agent);
    if request
        .agent
        .as_deref()
        .is_some_and(|name| name != agent && name != parent.agent)
    {
        return forbidden(format!(
            "agent: the parent's agent is {agent}, and so is a child's"
        ));
    }
    // Both are canonical.
    if !request.dir.starts_with(&parent.dir) {
        let root = parent.dir.display();
        return forbidden(format!("dir: expected {root}, or a directory in it"));
    }
    request.agent = Some(agent.to_owned());
    if request.model.is_none() {
        request.model.clone_from(&original.model);
    }
    let is_attended = original.attended.unwrap_or(true);
    request.attended = Some(is_attended && request.attended.unwrap_or(true));
    request
        .labels
        .insert(PARENT_LABEL.to_owned(), parent.session.clone());
    ostler::spec::check_labels(&request.labels)?;
    Ok(request)
}
