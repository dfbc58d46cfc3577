//! Session manager: creates, starts, controls and ends the sessions of the daemon.

mod control;
mod follow;
mod recovery;
mod shutdown;

pub use self::recovery::Recovered;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler::agent::Breakers;
use ostler::host::Delivery;
use ostler::render::clip::sanitize;
use ostler::spec::{AfterTurn, Attendance, check_labels};
use ostler::{Agent, Cause, Host, Outcome, Remote, Spec};
use ostler_core::event::{Ended, Event, EventKind, Level, Notice, NoticeCode};
use ostler_core::log::{Log, LogEntry, NewSession};
use ostler_store::{Filter, NewManaged, SessionRow, Store, StoreError};

use crate::api::{CreateSession, SessionPage, SessionView};
use crate::embedder::{Embedder, Prepared};
use crate::feed::{Feed, FeedLog};
use crate::granted::Granted;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::problem::{Problem, ProblemKind};
use crate::queue::{FairQueue, ParallelLimits};

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 100;

/// Maximum number of refused requests of an agent that are reported.
const MAX_DENIALS: u32 = 100;

/// Maximum length of such a request, in characters.
const MAX_REQUEST: usize = 100;

/// Maximum number of sessions per page.
const MAX_PAGE: usize = 500;

/// Options of the manager.
#[derive(Debug, Clone, Copy)]
pub struct ManagerOptions {
    /// Limits on parallel sessions.
    pub parallel: ParallelLimits,
    /// How long a permission request waits for an answer before it is denied.
    pub approval_timeout: Duration,
    /// How long running turns may continue when the daemon is asked to stop.
    pub drain: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            parallel: ParallelLimits::default(),
            approval_timeout: Duration::from_secs(60 * 60),
            drain: Duration::from_secs(10),
        }
    }
}

/// Creates, starts, controls and ends sessions.
pub(crate) struct Manager {
    pub(crate) store: Arc<Store>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) metrics: Metrics,
    options: ManagerOptions,
    shared: Shared,
    state: Mutex<State>,
}

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) breakers: Breakers,
    pub(crate) notifier: Notifier,
}

struct State {
    live: HashMap<String, Live>,
    /// Sessions that are being started, and whether they are to be stopped again.
    starting: HashMap<String, bool>,
    queue: FairQueue<Waiting>,
    /// Agents with a session that may be refreshing its login.
    logins: HashSet<String>,
    is_shutting_down: bool,
}

/// A running session.
#[derive(Clone)]
struct Live {
    remote: Remote,
    agent: String,
    /// Number of requests of its agent to the daemon that were refused.
    denials: Arc<AtomicU32>,
}

/// A session that waits to be started.
struct Waiting {
    id: String,
    agent: Arc<dyn Agent>,
    host: Host,
    spec: Spec,
}

/// Filters of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListQuery {
    pub(crate) filter: Filter,
    /// Whether sessions that have ended are listed too.
    pub(crate) all: bool,
}

impl Manager {
    pub(crate) fn new(
        store: Arc<Store>,
        embedder: Arc<dyn Embedder>,
        shared: Shared,
        options: ManagerOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            feed: Feed::new(store.clone()),
            store,
            embedder,
            metrics: Metrics::default(),
            shared,
            state: Mutex::new(State {
                live: HashMap::new(),
                starting: HashMap::new(),
                queue: FairQueue::new(options.parallel),
                logins: HashSet::new(),
                is_shutting_down: false,
            }),
            options,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a query or change of the store, which may block.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || run(&store)).await {
            Ok(result) => Ok(result?),
            Err(error) => Err(Problem::new(ProblemKind::Internal, error.to_string())),
        }
    }

    /// Creates a session. It is stored before this returns, and started if the limits allow it.
    pub(crate) async fn create(
        self: &Arc<Self>,
        request: CreateSession,
    ) -> Result<SessionView, Problem> {
        let request = normalized(request)?;
        let granted = match &request.resume {
            Some(id) => self.granted_to(id).await?,
            None => None,
        };
        let prepared = self.embedder.prepare(&request).await?;
        self.admit(request, prepared, granted).await
    }

    /// Returns the permissions of an earlier session, if a daemon created it.
    async fn granted_to(&self, id: &str) -> Result<Option<Granted>, Problem> {
        let own = id.to_owned();
        let managed = self
            .with_store(move |store| match store.look_up(&own)? {
                Some(row) => store.managed(&row.session),
                None => Ok(None),
            })
            .await?;
        let granted = managed.map(|managed| serde_json::from_str(&managed.granted));
        granted.transpose().map_err(|error| {
            Problem::new(ProblemKind::Internal, format!("stored session: {error}"))
        })
    }

    async fn admit(
        self: &Arc<Self>,
        request: CreateSession,
        prepared: Prepared,
        granted: Option<Granted>,
    ) -> Result<SessionView, Problem> {
        if self.state().is_shutting_down {
            return Err(shutting_down());
        }
        let id = uuid::Uuid::new_v4().to_string();
        let waiting = self.waiting(id.clone(), &request, prepared, granted.as_ref())?;
        let granted = granted.unwrap_or_else(|| Granted::of(&waiting.spec));
        let agent = waiting.agent.about().name;
        let new = NewManaged {
            session: NewSession {
                session: id.clone(),
                agent: agent.to_owned(),
                dir: request.dir.clone(),
                at: self.embedder.now(),
                continues: request.resume.clone(),
                labels: request.labels.clone(),
                pid: std::process::id(),
            },
            name: request
                .name
                .clone()
                .unwrap_or_else(|| format!("{agent}-{}", &id[..8])),
            request: json(&request)?,
            granted: json(&granted)?,
            approval_ms: u64::try_from(self.options.approval_timeout.as_millis())
                .unwrap_or(u64::MAX),
            queued: true,
        };
        self.with_store(move |store| store.create_managed(&new))
            .await?;
        self.feed.add(&id);
        self.state().queue.push(agent, waiting);
        for (failed, error) in self.pump().await {
            if failed == id {
                self.with_store(move |store| store.remove(&failed)).await?;
                return Err(error);
            }
        }
        self.get(&id).await
    }

    /// Returns a session that can be started.
    fn waiting(
        &self,
        id: String,
        request: &CreateSession,
        prepared: Prepared,
        granted: Option<&Granted>,
    ) -> Result<Waiting, Problem> {
        let Prepared { agent, host, spec } = prepared;
        let mut spec = spec
            .id(&id)
            .dir(&request.dir)
            .labels(request.labels.clone())
            .after_turn(if request.once {
                AfterTurn::End
            } else {
                AfterTurn::Wait
            })
            .attendance(if request.attended.unwrap_or(true) {
                Attendance::Attended
            } else {
                Attendance::Unattended
            });
        spec.prompt = request.prompt.clone().unwrap_or_default();
        spec.resume.clone_from(&request.resume);
        spec.fork = request.fork;
        if let Some(granted) = granted {
            granted.apply(&mut spec)?;
        }
        let host = host
            .with_log(Arc::new(FeedLog(self.feed.clone())))
            .with_delivery(Delivery::Durable)
            .with_breakers(self.shared.breakers.clone());
        Ok(Waiting {
            id,
            agent,
            host,
            spec,
        })
    }

    /// Starts waiting sessions while the limits allow it. Returns those that could not be started.
    async fn pump(self: &Arc<Self>) -> Vec<(String, Problem)> {
        let mut failed = Vec::new();
        loop {
            let Some(waiting) = self.next_to_start() else {
                return failed;
            };
            let (id, agent) = (waiting.id.clone(), waiting.agent.about().name);
            if let Err(problem) = self.start(waiting).await {
                {
                    let mut state = self.state();
                    state.queue.on_ended(agent);
                    state.logins.remove(agent);
                    state.starting.remove(&id);
                }
                let outcome = Outcome::new(Cause::BadRequest, problem.detail.clone());
                self.close(&id, outcome).await;
                failed.push((id, problem));
            }
        }
    }

    /// Takes the next session that may be started now. If its agent has a login, the next one of
    /// that agent waits until it was used.
    fn next_to_start(&self) -> Option<Waiting> {
        let mut state = self.state();
        let State {
            queue,
            logins,
            starting,
            is_shutting_down,
            ..
        } = &mut *state;
        if *is_shutting_down {
            return None;
        }
        let waiting = queue.pop(|agent| !logins.contains(agent))?;
        let about = waiting.agent.about();
        if about.probe.is_some() {
            logins.insert(about.name.to_owned());
        }
        starting.insert(waiting.id.clone(), false);
        Some(waiting)
    }

    async fn start(self: &Arc<Self>, waiting: Waiting) -> Result<(), Problem> {
        let Waiting {
            id,
            agent,
            host,
            spec,
        } = waiting;
        let own = id.clone();
        self.with_store(move |store| store.dequeue(&own)).await?;
        let about = agent.about();
        // It may read the session to resume from the store.
        let started = tokio::task::spawn_blocking(move || agent.start(&host, spec)).await;
        let started = started.map_err(|e| Problem::new(ProblemKind::Internal, e.to_string()))?;
        let session = started?;
        let live = Live {
            remote: session.remote(),
            agent: about.name.to_owned(),
            denials: Arc::default(),
        };
        let is_unwanted = {
            let mut state = self.state();
            state.live.insert(id.clone(), live.clone());
            let was_stopped = state.starting.remove(&id).unwrap_or(false);
            was_stopped || state.is_shutting_down
        };
        if is_unwanted {
            live.remote.stop();
        }
        follow::spawn(self.clone(), session, about.probe.is_some());
        Ok(())
    }

    /// Ends a session that no agent runs, with one event.
    async fn close(&self, id: &str, outcome: Outcome) {
        let last = match self
            .with_store({
                let id = id.to_owned();
                move |store| store.last_seq(&id)
            })
            .await
        {
            Ok(last) => last,
            Err(problem) => return tracing::warn!(session = id, %problem, "session not closed"),
        };
        let ended = Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage: None,
        };
        let event = Event {
            seq: last + 1,
            at: self.embedder.now(),
            session: id.into(),
            turn: 0,
            kind: EventKind::Ended(Box::new(ended)),
        };
        let entry = LogEntry {
            event,
            raw_offset: 0,
        };
        if let Err(error) = FeedLog(self.feed.clone())
            .append(Arc::new(vec![entry]))
            .await
        {
            tracing::warn!(session = id, %error, "session not closed");
        }
        self.feed.remove(id);
    }

    /// Returns a session, given by its id or an unambiguous prefix.
    pub(crate) async fn row(&self, id: &str) -> Result<SessionRow, Problem> {
        let own = id.to_owned();
        let found = self.with_store(move |store| store.look_up(&own)).await?;
        found.ok_or_else(|| unknown_session(id))
    }

    /// Returns a session as it is shown.
    pub(crate) async fn get(&self, id: &str) -> Result<SessionView, Problem> {
        Ok(self.row(id).await?.into())
    }

    /// Lists sessions, newest first; only those that have not ended, unless all are requested.
    pub(crate) async fn list(&self, query: ListQuery) -> Result<SessionPage, Problem> {
        let ListQuery { mut filter, all } = query;
        let limit = filter.limit.unwrap_or(100).clamp(1, MAX_PAGE);
        filter.limit = Some(limit + 1);
        filter.live = !all;
        let mut rows = self
            .with_store(move |store| store.sessions(&filter))
            .await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more);
        Ok(SessionPage {
            next: next.map(|row| row.session.clone()),
            sessions: rows.into_iter().map(SessionView::from).collect(),
        })
    }

    /// Returns the numbers of running and of waiting sessions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.live.len(), state.queue.len())
    }

    /// Returns the running session whose agent is one of these processes.
    pub(crate) fn session_of(&self, pids: &[i32]) -> Option<String> {
        let state = self.state();
        let is_one = |live: &Live| {
            let agent = live.remote.pid().and_then(|pid| i32::try_from(pid).ok());
            agent.is_some_and(|agent| pids.contains(&agent))
        };
        let found = state.live.iter().find(|(_, live)| is_one(live));
        found.map(|(id, _)| id.clone())
    }

    /// Reports a request of a session's agent to the daemon that was refused, in its events. After
    /// the first hundred, no more are reported.
    pub(crate) fn report_denied(&self, id: &str, request: &str) {
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
        let message = format!(
            "A process of this session requested {request} from the daemon, and was refused.{more}"
        );
        live.remote.notice(Notice::new(
            Level::Warning,
            NoticeCode::ControlDenied,
            message,
        ));
    }

    fn live(&self, id: &str) -> Option<Live> {
        self.state().live.get(id).cloned()
    }
}

/// Checks and completes a request.
fn normalized(mut request: CreateSession) -> Result<CreateSession, Problem> {
    request.dir = directory(&request.dir)?;
    check_labels(&request.labels)?;
    if let Some(name) = &request.name
        && (name.trim().is_empty()
            || name.chars().count() > MAX_NAME
            || name.contains(char::is_control))
    {
        let why = format!("name: expected 1 to {MAX_NAME} printable characters");
        return Err(Problem::new(ProblemKind::BadRequest, why));
    }
    if request.prompt.as_deref() == Some("") {
        request.prompt = None;
    }
    if request.fork && request.resume.is_none() {
        let why = "fork: name the session to copy in `resume`";
        return Err(Problem::new(ProblemKind::BadRequest, why));
    }
    if request.once && request.prompt.is_none() {
        let why = "once: a session that ends after its first turn needs a prompt";
        return Err(Problem::new(ProblemKind::BadRequest, why));
    }
    Ok(request)
}

/// Returns the canonical path of a session's root.
fn directory(dir: &Path) -> Result<std::path::PathBuf, Problem> {
    let fail = |why: &str| {
        let detail = format!("dir = {}: {why}", dir.display());
        Err(Problem::new(ProblemKind::BadRequest, detail))
    };
    if !dir.is_absolute() {
        return fail("expected an absolute path");
    }
    match dir.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => fail("it is not a directory"),
        Err(error) => fail(&error.to_string()),
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Problem> {
    serde_json::to_string(value)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))
}

/// The problem if there is no such session.
pub(crate) fn unknown_session(id: &str) -> Problem {
    Problem::new(ProblemKind::UnknownSession, format!("no session {id:?}"))
        .hint("list all sessions with `GET /v1/sessions?all=true`")
}

fn shutting_down() -> Problem {
    Problem::new(
        ProblemKind::ShuttingDown,
        "the daemon is shutting down and starts no sessions",
    )
}
