//! Session manager: creates, starts, controls and ends the sessions of the daemon.

mod approval_files;
mod cached;
mod children;
mod close;
mod control;
mod follow;
mod gauges;
mod identity;
mod logins;
mod messages;
mod recovery;
mod shutdown;
mod spending;

use self::cached::Cached;
use self::logins::{LoginLease, LoginUse, Logins};
pub use self::recovery::Recovered;
use self::spending::Families;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler::agent::{BreakerState, Breakers};
use ostler::host::Delivery;
use ostler::spec::{AfterTurn, Attendance, check_labels};
use ostler::{Agent, Cause, Host, Outcome, Remote, Spec, SpecError};
use ostler_core::log::NewSession;
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
    logins: Arc<Logins>,
    /// Held while a child session is created.
    children: tokio::sync::Mutex<()>,
    pub(crate) cached: Cached,
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
    /// The circuit breaker that each agent was last started with.
    breakers: BTreeMap<&'static str, BreakerState>,
    /// Sessions whose agent started others, and those.
    families: Families,
    shutdown: Shutdown,
}

/// How far the daemon is on the way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shutdown {
    /// It serves.
    No,
    /// No session is started any more. Those that run, or are being started, may finish their turn.
    Draining,
    /// All sessions are stopped.
    Stopping,
    /// All sessions are killed.
    Killing,
}

/// A running session.
#[derive(Clone)]
struct Live {
    remote: Remote,
    agent: String,
    /// Where its login is stored.
    login: Option<PathBuf>,
    login_use: Arc<LoginUse>,
    /// The circuit breaker of its agent, if that is a program that may be restarted.
    breaker: Option<BreakerState>,
    /// Number of reports of its agent.
    reports: Arc<AtomicU32>,
    /// Number of requests of its agent to the daemon that were refused.
    denials: Arc<AtomicU32>,
    /// Number of accepted messages of which no event says yet what became of them.
    unstarted: Arc<AtomicU32>,
}

/// A session that waits to be started.
struct Waiting {
    id: String,
    agent: Arc<dyn Agent>,
    host: Host,
    spec: Spec,
    /// Where its login is stored.
    login: Option<PathBuf>,
    /// Whether it runs elsewhere since an earlier daemon.
    rejoins: bool,
}

/// On what terms a session is admitted.
#[derive(Debug, Default)]
struct Admission {
    /// Permissions that were granted before; those of the configuration otherwise.
    granted: Option<Granted>,
    /// The session whose agent starts it.
    parent: Option<String>,
    /// Whether the limits that were granted apply too.
    is_limited: bool,
    /// The idempotency key of the request, if it has one.
    key: Option<String>,
}

/// A session that another one continues.
struct Earlier {
    granted: Granted,
    /// The name by which its agent was chosen.
    agent: String,
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
        let manager = Arc::new(Self {
            feed: Feed::new(store.clone()),
            store,
            embedder,
            metrics: Metrics::default(),
            shared,
            state: Mutex::new(State {
                live: HashMap::new(),
                starting: HashMap::new(),
                queue: FairQueue::new(options.parallel),
                breakers: BTreeMap::new(),
                families: Families::default(),
                shutdown: Shutdown::No,
            }),
            logins: Arc::default(),
            options,
            children: tokio::sync::Mutex::default(),
            cached: Cached::default(),
        });
        manager.follow_logins();
        manager
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

    /// Creates a session. It is stored before this returns, together with the idempotency key of
    /// the request, and started if the limits allow it.
    pub(crate) async fn create(
        self: &Arc<Self>,
        request: CreateSession,
        key: Option<String>,
    ) -> Result<SessionView, Problem> {
        let mut request = normalized(request)?;
        let mut granted = None;
        if let Some(id) = &request.resume
            && let Some(earlier) = self.earlier(id).await?
        {
            granted = Some(earlier.granted);
            request.agent.get_or_insert(earlier.agent);
        }
        let prepared = self.embedder.prepare(&request).await?;
        let admission = Admission {
            granted,
            key,
            ..Admission::default()
        };
        self.admit(request, prepared, admission).await
    }

    /// Returns what is known of an earlier session, if a daemon created it.
    async fn earlier(&self, id: &str) -> Result<Option<Earlier>, Problem> {
        let own = id.to_owned();
        let found = self
            .with_store(move |store| match store.look_up(&own)? {
                Some(row) => Ok(store.managed(&row.session)?.map(|managed| (row, managed))),
                None => Ok(None),
            })
            .await?;
        let Some((row, managed)) = found else {
            return Ok(None);
        };
        let request: CreateSession = stored(&managed.request)?;
        Ok(Some(Earlier {
            granted: stored(&managed.granted)?,
            agent: request.agent.unwrap_or(row.agent),
        }))
    }

    async fn admit(
        self: &Arc<Self>,
        mut request: CreateSession,
        prepared: Prepared,
        admission: Admission,
    ) -> Result<SessionView, Problem> {
        if self.state().shutdown > Shutdown::No {
            return Err(shutting_down());
        }
        request.agent = Some(prepared.name.clone());
        let id = uuid::Uuid::new_v4().to_string();
        let waiting = self.waiting(id.clone(), &request, prepared, &admission)?;
        if let Some(breaker) = waiting.agent.breaker(&waiting.host, &waiting.spec) {
            let name = waiting.agent.about().name;
            self.state().breakers.insert(name, breaker.clone());
            check_breaker(&breaker)?;
        }
        let granted = match admission.granted {
            Some(granted) => granted.with_limits(&waiting.spec),
            None => Granted::of(&waiting.spec),
        };
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
            parent: admission.parent.clone(),
            key: admission.key,
        };
        self.with_store(move |store| store.create_managed(&new))
            .await?;
        if let Some(parent) = &admission.parent {
            self.state().families.add(parent, &id);
        }
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
        admission: &Admission,
    ) -> Result<Waiting, Problem> {
        let Prepared {
            agent, host, spec, ..
        } = prepared;
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
        match &admission.granted {
            Some(granted) if admission.is_limited => granted.apply_all(&mut spec)?,
            Some(granted) => granted.apply(&mut spec)?,
            None => {}
        }
        let host = host
            .with_log(Arc::new(FeedLog(self.feed.clone())))
            .with_delivery(Delivery::Durable)
            .with_breakers(self.shared.breakers.clone());
        Ok(Waiting {
            id,
            login: agent.login(&host, &spec),
            agent,
            host,
            spec,
            rejoins: false,
        })
    }

    /// Starts waiting sessions while the limits allow it. Returns those that could not be started.
    async fn pump(self: &Arc<Self>) -> Vec<(String, Problem)> {
        let mut failed = Vec::new();
        loop {
            let Some((waiting, lease)) = self.next_to_start() else {
                return failed;
            };
            let (id, agent) = (waiting.id.clone(), waiting.agent.about().name);
            if let Err(problem) = self.start(waiting, lease).await {
                {
                    let mut state = self.state();
                    state.queue.on_ended(agent);
                    state.starting.remove(&id);
                }
                let outcome = Outcome::new(Cause::BadRequest, problem.detail.clone());
                self.close(&id, outcome).await;
                failed.push((id, problem));
            }
        }
    }

    /// Takes the next session that may be started now. If it has a login, the next one with that
    /// login waits until it was used.
    fn next_to_start(&self) -> Option<(Waiting, Option<LoginLease>)> {
        let mut state = self.state();
        let State {
            queue,
            starting,
            shutdown,
            ..
        } = &mut *state;
        if *shutdown > Shutdown::No {
            return None;
        }
        let mut lease = None;
        let waiting = queue.pop(|waiting| match &waiting.login {
            None => true,
            Some(login) => {
                lease = self.logins.take(login);
                lease.is_some()
            }
        })?;
        starting.insert(waiting.id.clone(), false);
        Some((waiting, lease))
    }

    async fn start(
        self: &Arc<Self>,
        waiting: Waiting,
        lease: Option<LoginLease>,
    ) -> Result<(), Problem> {
        let Waiting {
            id,
            agent,
            host,
            mut spec,
            login,
            rejoins,
        } = waiting;
        let own = id.clone();
        let known = match rejoins {
            true => self.adopt(own).await?,
            false => {
                self.with_store(move |store| store.dequeue(&own)).await?;
                spec.follow_ups = self.queued_messages(&id).await?;
                0
            }
        };
        let about = agent.about();
        // A session that is followed again has had its prompt.
        let has_prompt = !spec.prompt.is_empty() && !rejoins;
        let unstarted = usize::from(has_prompt) + spec.follow_ups.len();
        let breaker = agent.breaker(&host, &spec).filter(|_| about.is_program());
        // It may read the session to resume from the store.
        let start = move || match rejoins {
            true => agent.rejoin(&host, &spec).unwrap_or_else(|| {
                let why = "the session ended with the daemon that ran it";
                Err(SpecError::new("fleet", "", why))
            }),
            false => agent.start(&host, spec),
        };
        let started = tokio::task::spawn_blocking(start).await;
        let started = started.map_err(|e| Problem::new(ProblemKind::Internal, e.to_string()))?;
        let session = started?;
        let live = Live {
            remote: session.remote(),
            agent: about.name.to_owned(),
            login_use: LoginUse::new(lease),
            login,
            breaker,
            reports: Arc::default(),
            denials: Arc::default(),
            unstarted: Arc::new(AtomicU32::new(u32::try_from(unstarted).unwrap_or(u32::MAX))),
        };
        let (was_stopped, shutdown) = {
            let mut state = self.state();
            state.live.insert(id.clone(), live.clone());
            let was_stopped = state.starting.remove(&id).unwrap_or(false);
            (was_stopped, state.shutdown)
        };
        if shutdown == Shutdown::Killing {
            live.remote.kill();
        } else if was_stopped || shutdown == Shutdown::Stopping {
            live.remote.stop();
        }
        follow::spawn(self.clone(), session, live.login_use, known);
        // Only now: its agent may already ask for something, and must be known by then.
        self.forget_messages(&id).await;
        Ok(())
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

    /// Returns true if a message was accepted for the session that has not reached it.
    pub(crate) fn has_unstarted_message(&self, id: &str) -> bool {
        let live = self.live(id);
        live.is_some_and(|live| live.unstarted.load(Ordering::Acquire) > 0)
    }

    /// Counts a message of which an event says what became of it.
    fn on_message_handled(&self, id: &str) {
        if let Some(live) = self.live(id) {
            let less = |count: u32| count.checked_sub(1);
            let order = (Ordering::AcqRel, Ordering::Acquire);
            let _ = live.unstarted.fetch_update(order.0, order.1, less);
        }
    }

    fn live(&self, id: &str) -> Option<Live> {
        self.state().live.get(id).cloned()
    }
}

/// Returns the problem if a circuit breaker refuses starts now.
fn check_breaker(breaker: &BreakerState) -> Result<(), Problem> {
    match breaker.rejection() {
        None => Ok(()),
        Some((outcome, left)) => {
            let seconds = u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
            Err(Problem {
                retry_after: Some(seconds.max(1)),
                ..Problem::from(outcome)
            })
        }
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

/// Parses a part of a stored session.
fn stored<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text)
        .map_err(|error| Problem::new(ProblemKind::Internal, format!("stored session: {error}")))
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
