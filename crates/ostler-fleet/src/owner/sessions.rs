//! Sessions of an owner whose workers are other machines.

mod driver;
mod prepare;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler::agent::{ProbeFuture, Probed};
use ostler::dialect::Dialect;
use ostler::event::Timestamp;
use ostler::log::NewSession;
use ostler::spec::SpecError;
use ostler::{Agent, Host, Session, Spec};
use ostler_eval::git::Git;
use serde_json::Value;
use tokio::task::JoinSet;

use self::driver::SessionDriver;
use super::OwnerOptions;
use super::attach::Attacher;
use super::router::Router;
use super::workers::Workers;
use crate::key::MemberKey;
use crate::message::Heartbeat;
use crate::nats::{Connection, FleetError};
use crate::subject::Token;

/// How an owner uses its fleet for sessions.
pub struct SessionsOptions {
    /// Its name, as the server's permissions know it.
    pub name: Token,
    /// The key that it signs with.
    pub key: Arc<MemberKey>,
    /// Stands for all sessions of one daemon, and for no others: an attempt in it that the owner
    /// does not know is over.
    pub run: Token,
    /// How long a worker may go without renewing its lease.
    pub lease: Duration,
    /// Number of copies on the servers of a cluster.
    pub replicas: usize,
    /// Git, for the seeds of sessions.
    pub git: Git,
    /// Directory of the bundles that sessions leave.
    pub bundles: PathBuf,
}

/// What a session in a fleet needs besides its spec.
#[derive(Debug, Clone, Default)]
pub struct SessionOrder {
    /// The agent, by its name on workers.
    pub agent: String,
    /// Settings of the agent, as the caller gave them.
    pub settings: BTreeMap<String, Value>,
    /// Labels that a worker must have.
    pub labels: BTreeSet<String>,
    /// URL of a repository that workers can reach; that of the session's directory otherwise.
    pub repository: Option<String>,
    /// The commit; the current one of the repository if there is none.
    pub commit: Option<String>,
}

/// A fleet as the place of a daemon's sessions.
pub struct FleetSessions {
    connection: Connection,
    options: SessionsOptions,
    router: Arc<Router>,
    workers: Arc<Workers>,
    attacher: Attacher,
    now: fn() -> Timestamp,
    _tasks: JoinSet<()>,
}

impl FleetSessions {
    /// Creates what is missing on the server, and follows the workers.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn open(
        connection: Connection,
        options: SessionsOptions,
        now: fn() -> Timestamp,
    ) -> Result<Arc<Self>, FleetError> {
        connection.create_streams(options.replicas).await?;
        let mut tasks = JoinSet::new();
        let workers = Workers::follow(&connection, &mut tasks).await?;
        let owner = OwnerOptions {
            name: options.name.clone(),
            key: options.key.clone(),
            run: options.run.clone(),
            lease: options.lease,
            labels: BTreeSet::new(),
            replicas: options.replicas,
        };
        let router = Router::start(&connection, &owner, &mut tasks).await?;
        Ok(Arc::new(Self {
            attacher: Attacher::new(connection.clone(), now),
            connection,
            options,
            router,
            workers,
            now,
            _tasks: tasks,
        }))
    }

    /// Every session of an earlier process is followed again, or will not be: workers stop those
    /// that are not known.
    pub fn recovered(&self) {
        self.router.adopted();
    }

    /// Returns the last heartbeats of the workers that are alive.
    #[must_use]
    pub fn workers(&self) -> Vec<Heartbeat> {
        self.workers.alive()
    }

    /// Returns an agent whose sessions run in the fleet.
    #[must_use]
    pub fn agent(self: &Arc<Self>, agent: Arc<dyn Agent>, order: SessionOrder) -> Arc<dyn Agent> {
        Arc::new(FleetAgent {
            fleet: self.clone(),
            agent,
            order,
        })
    }
}

/// Returns the file with the bundle of a session.
#[must_use]
pub fn bundle_file(bundles: &Path, session: &str) -> PathBuf {
    bundles.join(format!("{session}.bundle"))
}

/// Returns the branch with the changes of a session.
#[must_use]
pub fn branch_name(session: &str) -> String {
    format!("ostler/{}", session.get(..8).unwrap_or(session))
}

/// An agent on the workers of a fleet.
struct FleetAgent {
    fleet: Arc<FleetSessions>,
    agent: Arc<dyn Agent>,
    order: SessionOrder,
}

impl Agent for FleetAgent {
    fn dialect(&self) -> &'static dyn Dialect {
        self.agent.dialect()
    }

    fn is_found(&self, _: &Host, _: &Spec) -> bool {
        true
    }

    /// Workers probe their agents.
    fn probe<'a>(&'a self, _: &'a Host, _: &'a Spec) -> ProbeFuture<'a> {
        Box::pin(async {
            Probed::Ready {
                version: None,
                path: None,
                login: None,
            }
        })
    }

    fn start(&self, host: &Host, spec: Spec) -> Result<Session, SpecError> {
        let refused = |name: &str, why: &str| Err(SpecError::new(name, "", why));
        if spec.resume.is_some() {
            let why = "a session that ran in a fleet cannot be resumed; start a new one";
            return refused("resume", why);
        }
        if !spec.bound_tools.is_empty() {
            return refused(
                "tools",
                "the caller's own tools are not available in a fleet",
            );
        }
        let random = || uuid::Uuid::new_v4().to_string();
        let session = spec.id.clone().unwrap_or_else(random);
        let new = NewSession {
            session: session.clone(),
            agent: self.about().name.to_owned(),
            dir: spec.dir.clone().unwrap_or_default(),
            at: (self.fleet.now)(),
            continues: None,
            labels: spec.labels.clone(),
            pid: std::process::id(),
        };
        let attempt = token(&session)?;
        let relayed = Session::relayed(host, &new);
        let (handle, relay) =
            relayed.map_err(|error| SpecError::new("id", &session, error.to_string()))?;
        let order = self.order.clone();
        for message in &spec.follow_ups {
            // It waits in the inbox of the relay, which has not ended.
            let _ = handle.send(message.clone());
        }
        let driver = SessionDriver::new(self.fleet.clone(), relay, attempt);
        tokio::spawn(driver.run(order, spec));
        Ok(handle)
    }

    fn rejoin(&self, host: &Host, spec: &Spec) -> Option<Result<Session, SpecError>> {
        let session = spec.id.as_deref()?;
        let attempt = match token(session) {
            Ok(attempt) => attempt,
            Err(error) => return Some(Err(error)),
        };
        let (handle, relay) = match Session::rejoined(host, session) {
            Ok(rejoined) => rejoined,
            Err(error) => {
                return Some(Err(SpecError::new("id", session, error.to_string())));
            }
        };
        let driver = SessionDriver::new(self.fleet.clone(), relay, attempt);
        tokio::spawn(driver.run_again());
        Some(Ok(handle))
    }
}

fn token(session: &str) -> Result<Token, SpecError> {
    session
        .parse::<Token>()
        .map_err(|error| SpecError::new("id", session, error.to_string()))
}
