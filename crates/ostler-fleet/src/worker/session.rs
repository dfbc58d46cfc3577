//! One session on a worker: checkout, agent, requests of its owner, and the changes that it leaves.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use ostler::event::{EventKind, Level, Notice, NoticeCode};
use ostler::host::LoginCopy;
use ostler::session::SessionRequest;
use ostler::spec::{AfterTurn, Attendance, Denials, Sandbox, SpecError, keys};
use ostler::{Agent, Host, Session, Spec};
use ostler_core::event::Timestamp;
use ostler_core::usage::Scope;
use ostler_eval::case::{Contender, TrialLimits};
use ostler_eval::embedder::{AgentRequest, EmbedderError};
use ostler_eval::git::{Branch, Git, GitError, Seed};
use ostler_eval::run_trial::TrialOptions;
use ostler_eval::workspace::PrivateHome;
use tokio::sync::{mpsc, watch};

use super::layout::LayoutError;
use super::{StopReason, Worker, locked};
use crate::archive;
use crate::item::Item;
use crate::message::{ArtifactReference, Ending, ResultMessage, SessionCall};
use crate::owner::sessions::branch_name;
use crate::session_work::{SessionWork, SessionWorkError};
use crate::spool::{ARTIFACTS, Spool};

/// Number of calls that wait for the start of a session.
const MAX_EARLY: usize = 256;
/// How long replies may take once the session has ended.
const REPLY_GRACE: Duration = Duration::from_secs(5);

/// A session that cannot be started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// Its attachments cannot be used.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Its source cannot be checked out.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The owner's terms cannot be applied.
    #[error(transparent)]
    Work(#[from] SessionWorkError),
    /// The agent cannot be prepared.
    #[error(transparent)]
    Agent(#[from] EmbedderError),
    /// The agent refuses the spec.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A directory cannot be created, or the login cannot be copied.
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The machine lacks something.
    #[error("{0}")]
    Host(String),
    /// It was stopped before.
    #[error("the session was stopped before its agent started: {}", .0.as_str())]
    Stopped(StopReason),
}

impl StartError {
    fn io(path: &Path) -> impl Fn(std::io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A session that this worker runs.
#[derive(Clone, Copy)]
pub(super) struct SessionJob<'a> {
    pub(super) item: &'a Item,
    pub(super) work: &'a SessionWork,
    pub(super) spool: &'a Arc<Spool>,
    /// Directory for its attachments.
    pub(super) dir: &'a Path,
}

/// What others want of a session.
pub(super) struct Requests {
    stopped: watch::Receiver<Option<StopReason>>,
    calls: mpsc::Receiver<SessionCall>,
    /// Calls that came before the session started, each once.
    early: VecDeque<SessionCall>,
}

impl Requests {
    pub(super) fn new(
        stopped: watch::Receiver<Option<StopReason>>,
        calls: mpsc::Receiver<SessionCall>,
    ) -> Self {
        Self {
            stopped,
            calls,
            early: VecDeque::new(),
        }
    }

    /// Queues calls until the session is to be stopped. Cancel safe.
    async fn until_stopped(&mut self, now: impl Fn() -> Timestamp) -> StopReason {
        loop {
            let call = tokio::select! {
                biased;
                reason = reason(&mut self.stopped) => return reason,
                Some(call) = self.calls.recv() => call,
            };
            let ends = matches!(call.request, SessionRequest::Stop | SessionRequest::Kill);
            if ends && call.not_after > now() {
                return StopReason::Owner;
            }
            self.queue(call);
        }
    }

    /// Queues a call. The last copy of a call counts.
    fn queue(&mut self, call: SessionCall) {
        let is_same = |it: &SessionCall| it.caller == call.caller && it.number == call.number;
        if let Some(at) = self.early.iter().position(is_same) {
            self.early[at] = call;
        } else if self.early.len() < MAX_EARLY {
            self.early.push_back(call); // otherwise its owner sends it again
        }
    }
}

/// Returns the next call. Cancel safe.
async fn next_call(
    early: &mut VecDeque<SessionCall>,
    calls: &mut mpsc::Receiver<SessionCall>,
) -> Option<SessionCall> {
    match early.pop_front() {
        Some(call) => Some(call),
        None => calls.recv().await,
    }
}

/// A session that can be started.
struct ReadySession {
    agent: Arc<dyn Agent>,
    host: Host,
    spec: Spec,
    checkout: Checkout,
    /// The copy of the login lives as long as the session.
    login: LoginCopy,
}

/// The checkout of a session.
struct Checkout {
    git: Git,
    seed: Seed,
    workspace: PathBuf,
    base: PathBuf,
    trial: PathBuf,
    /// The directories, removed on drop.
    _scratch: tempfile::TempDir,
}

/// Requests of owners in their order, each once.
#[derive(Debug, Default)]
struct Sequence {
    caller: String,
    /// Processes of the owner that another one has followed.
    retired: BTreeSet<String>,
    next: u64,
    is_killed: bool,
}

impl Sequence {
    /// Returns true if a request is to be carried out now.
    fn admits(&mut self, call: &SessionCall) -> bool {
        if call.caller != self.caller {
            if self.retired.contains(&call.caller) {
                return false; // it is replayed
            }
            let before = std::mem::replace(&mut self.caller, call.caller.clone());
            self.retired.insert(before);
            self.next = 1;
        }
        self.next = self.next.max(call.oldest);
        let is_next = call.number == self.next;
        if is_next {
            self.next += 1;
        }
        is_next
    }

    /// Returns true if a request does not wait for those before it.
    fn overtakes(&mut self, call: &SessionCall) -> bool {
        call.request == SessionRequest::Kill
            && !self.retired.contains(&call.caller)
            && !std::mem::replace(&mut self.is_killed, true)
    }
}

impl Worker {
    /// Runs a session to its end, and spools what it leaves.
    pub(super) async fn run_session(&self, job: SessionJob<'_>, mut requests: Requests) {
        let spool = job.spool;
        let ending = match self.prepare_unless_stopped(job, &mut requests).await {
            Ok(ready) => self.follow_session(job, ready, requests).await,
            Err(error) => Ending::Session {
                failure: Some(error.to_string()),
                bundle: None,
                warnings: Vec::new(),
            },
        };
        let message = ResultMessage {
            instance: spool.entry.instance.clone(),
            record_bytes: spool.length().unwrap_or(0),
            ending,
        };
        if let Err(error) = spool.finish(&message) {
            tracing::warn!(%error, "the end of a session cannot be spooled");
            self.give_up(spool, "its end could not be spooled");
        }
    }

    /// Prepares a session, unless it is stopped before it is ready.
    async fn prepare_unless_stopped(
        &self,
        job: SessionJob<'_>,
        requests: &mut Requests,
    ) -> Result<ReadySession, StartError> {
        let now = || self.host.now();
        let ready = tokio::select! {
            biased;
            reason = requests.until_stopped(now) => return Err(StartError::Stopped(reason)),
            prepared = self.prepare_session(job) => prepared?,
        };
        match requests.until_stopped(now).now_or_never() {
            Some(reason) => Err(StartError::Stopped(reason)),
            None => Ok(ready),
        }
    }

    async fn prepare_session(&self, job: SessionJob<'_>) -> Result<ReadySession, StartError> {
        let SessionJob {
            work, spool, dir, ..
        } = job;
        let options = TrialOptions::default();
        let services = self.host.services(spool.clone(), options);
        let services = services.map_err(StartError::Host)?;
        // Outside of any home directory, so that agents find no instructions above.
        let work_dir = &services.work;
        fs::create_dir_all(work_dir).map_err(StartError::io(work_dir))?;
        let scratch = tempfile::Builder::new()
            .prefix("session-")
            .tempdir_in(work_dir);
        let scratch = scratch.map_err(StartError::io(work_dir))?;
        let root = scratch.path().canonicalize();
        let root = root.map_err(StartError::io(work_dir))?;
        let part = |name: &str| root.join(name);
        let (workspace, base, trial) = (part("workspace"), part("base"), part("trial"));
        for dir in [&workspace, &base, &trial] {
            fs::create_dir_all(dir).map_err(StartError::io(dir))?;
        }
        let source = self
            .lay_out_source(&work.source, &work.attachments, &dir.join("root"))
            .await?;
        let git = services.git.clone();
        let seed = git.seed(&source).await?;
        git.check_out(&seed, &base).await?;
        git.check_out(&seed, &workspace).await?;
        git.give_repository(&seed, &workspace).await?;
        let request = AgentRequest {
            contender: Contender {
                label: work.agent.clone(),
                agent: work.agent.clone(),
                model: work.model.clone(),
                settings: work.settings.clone(),
                prompt: None,
                instructions: None,
            },
            prompt: work.prompt.clone(),
            dir: work.dir(&workspace)?,
            limits: TrialLimits::default(),
        };
        let prepared = services.embedder.prepare(&request).await?;
        let (agent, dialect) = (prepared.agent.clone(), prepared.agent.dialect());
        let home = PrivateHome::beside(&workspace).map_err(StartError::io(&workspace))?;
        let login = home.copy_login(&prepared.host, dialect);
        let login = login.map_err(StartError::io(&workspace))?;
        let (host, toolchains) = home.host(prepared.host, Some(dialect));
        let mut spec = prepared.spec.dir(request.dir).id(&work.session);
        for (name, value) in toolchains {
            spec.env.entry(name).or_insert(value);
        }
        spec.prompt.clone_from(&work.prompt);
        spec.labels.clone_from(&work.labels);
        spec.denials = Denials::default();
        spec.after_turn = match work.ends_after_turn {
            true => AfterTurn::End,
            false => AfterTurn::Wait,
        };
        spec.attendance = match work.is_attended {
            true => Attendance::Attended,
            false => Attendance::Unattended,
        };
        if agent.about().accepts(keys::INCLUDE_PARTIAL) {
            spec.include_partial = Some(true);
        }
        work.restrict(&mut spec)?;
        let is_program = agent.about().is_program();
        if self.options.policy.sandbox_only && is_program && spec.sandbox != Sandbox::ReadOnly {
            spec.sandbox = Sandbox::WorkspaceWrite;
        }
        let message = format!("The session runs on the worker {}.", self.options.name);
        let notice = Notice::new(Level::Info, NoticeCode::Worker, message);
        Ok(ReadySession {
            agent,
            host: host.with_notices([notice]),
            spec,
            checkout: Checkout {
                git,
                seed,
                workspace,
                base,
                trial,
                _scratch: scratch,
            },
            login,
        })
    }

    /// Follows a session to its end. Returns what it leaves.
    async fn follow_session(
        &self,
        job: SessionJob<'_>,
        ready: ReadySession,
        requests: Requests,
    ) -> Ending {
        let ReadySession {
            agent,
            host,
            spec,
            checkout,
            login,
        } = ready;
        match agent.start(&host, spec) {
            Ok(session) => self.relay(job, session, requests).await,
            Err(error) => {
                return Ending::Session {
                    failure: Some(error.to_string()),
                    bundle: None,
                    warnings: Vec::new(),
                };
            }
        }
        drop(login);
        let mut warnings = Vec::new();
        let bundle = match self.bundle(job, &checkout).await {
            Ok(bundle) => bundle,
            Err(error) => {
                warnings.push(format!("The changes are lost: {error}"));
                None
            }
        };
        Ending::Session {
            failure: None,
            bundle,
            warnings,
        }
    }

    /// Passes requests to a session and replies to its owner, until the session ends.
    async fn relay(&self, job: SessionJob<'_>, mut session: Session, requests: Requests) {
        let SessionJob { item, spool, .. } = job;
        let Requests {
            mut stopped,
            mut calls,
            mut early,
        } = requests;
        let remote = session.remote();
        let mut sequence = Sequence::default();
        let mut replies = FuturesUnordered::new();
        let mut is_stopped = false;
        loop {
            tokio::select! {
                event = session.next() => {
                    let Some(event) = event else { break };
                    if let EventKind::Usage(usage) = event.kind
                        && usage.scope == Scope::Session
                        && let Some(cost) = usage.cost_usd
                    {
                        locked(&self.journal).book(&item.id, cost, self.host.now());
                    }
                }
                Some(call) = next_call(&mut early, &mut calls) => {
                    let is_valid = call.not_after > self.host.now();
                    if is_valid && (sequence.admits(&call) || sequence.overtakes(&call)) {
                        let SessionCall { caller, number, request, .. } = call;
                        let done = remote.perform(request);
                        replies.push(async move { (caller, number, done.await) });
                    }
                }
                Some((caller, number, reply)) = replies.next(), if !replies.is_empty() => {
                    spool.add_reply(caller, number, reply);
                }
                reason = reason(&mut stopped), if !is_stopped => {
                    is_stopped = true;
                    if reason != StopReason::Owner {
                        let why = reason.as_str();
                        let message = format!("The worker stops the session: {why}.");
                        remote.notice(Notice::new(Level::Warning, NoticeCode::Worker, message));
                    }
                    drop(remote.perform(SessionRequest::Stop));
                }
            }
        }
        // Without its reply, a message that was delivered would be reported as refused.
        let rest = async {
            while let Some((caller, number, reply)) = replies.next().await {
                spool.add_reply(caller, number, reply);
            }
        };
        let _ = tokio::time::timeout(REPLY_GRACE, rest).await;
    }

    /// Spools the changes of a session; `None` if there are none.
    async fn bundle(
        &self,
        SessionJob { work, spool, .. }: SessionJob<'_>,
        checkout: &Checkout,
    ) -> Result<Option<ArtifactReference>, StartError> {
        let Checkout {
            git,
            seed,
            workspace,
            base,
            trial,
            ..
        } = checkout;
        let snapshot = git.snapshot(seed, trial, workspace, base).await?;
        let name = branch_name(&work.session);
        let message = format!(
            "Work of {} in session {}\n",
            work.agent,
            work.session.get(..8).unwrap_or(&work.session)
        );
        let file = spool.path(ARTIFACTS);
        let branch = Branch {
            name: &name,
            message: &message,
            at: self.host.now(),
            omits_base: work.has_base,
            file: &file,
        };
        if !git.bundle(seed, trial, &snapshot, branch).await? {
            return Ok(None);
        }
        let (sha256, bytes) = archive::measure(&file).map_err(StartError::io(&file))?;
        let entry = &spool.entry;
        Ok(Some(ArtifactReference {
            name: format!("{}.{}.{}", entry.owner, entry.run, entry.attempt),
            sha256,
            bytes,
        }))
    }
}

impl StopReason {
    /// Returns the reason as a part of a sentence.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "its owner asked for it",
            Self::Lease => "its owner did not renew its lease",
            Self::Drain => "the worker is being stopped",
        }
    }
}

/// Waits until the attempt is to be stopped.
pub(super) async fn reason(stopped: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    let found = stopped.wait_for(Option::is_some).await.map(|found| *found);
    match found {
        Ok(Some(reason)) => reason,
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_carried_out_in_order_and_once() {
        let call = |caller: &str, number, oldest| SessionCall {
            caller: caller.to_owned(),
            number,
            oldest,
            not_after: Timestamp(0),
            request: SessionRequest::Interrupt,
        };
        let mut sequence = Sequence::default();
        for (caller, number, oldest, is_admitted) in [
            ("a", 2, 1, false), // the first one is missing
            ("a", 1, 1, true),
            ("a", 1, 1, false),
            ("a", 2, 1, true),
            ("a", 5, 3, false),
            ("a", 5, 5, true), // its owner gave the others up
            ("b", 1, 1, true),
            ("a", 6, 6, false), // replayed
            ("b", 2, 2, true),
        ] {
            let admitted = sequence.admits(&call(caller, number, oldest));
            assert_eq!(admitted, is_admitted, "{caller} {number}");
        }
        let kill = |caller: &str| SessionCall {
            request: SessionRequest::Kill,
            ..call(caller, 9, 2)
        };
        for (caller, overtakes) in [("a", false), ("b", true), ("b", false)] {
            assert!(!sequence.admits(&kill(caller)));
            assert_eq!(sequence.overtakes(&kill(caller)), overtakes, "{caller}");
        }
    }

    #[tokio::test]
    async fn requests_before_the_start_are_queued_once_and_a_stop_ends_the_wait() {
        let (_stop, stopped) = watch::channel(None);
        let (calls, called) = mpsc::channel(8);
        let call = |number, oldest, request| SessionCall {
            caller: "a".to_owned(),
            number,
            oldest,
            not_after: Timestamp(2),
            request,
        };
        for (number, oldest) in [(1, 1), (2, 1), (1, 1), (2, 2)] {
            let sent = calls.send(call(number, oldest, SessionRequest::Interrupt));
            sent.await.unwrap();
        }
        let mut requests = Requests::new(stopped, called);
        let now = || Timestamp(1);
        assert_eq!(requests.until_stopped(now).now_or_never(), None);
        let queued = requests.early.iter().map(|it| (it.number, it.oldest));
        assert_eq!(queued.collect::<Vec<_>>(), [(1, 1), (2, 2)]);
        let stop = calls.send(call(3, 1, SessionRequest::Stop));
        stop.await.unwrap();
        let reason = requests.until_stopped(|| Timestamp(3)).now_or_never();
        assert_eq!(reason, None, "it has expired");
        let stop = calls.send(call(3, 1, SessionRequest::Stop));
        stop.await.unwrap();
        let reason = requests.until_stopped(now).await;
        assert_eq!(reason, StopReason::Owner);
    }
}
