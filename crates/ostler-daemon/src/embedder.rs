//! The program around the daemon: configuration, policy, trust and the clock stay with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ostler::{Agent, Host, Spec};
use ostler_core::event::Timestamp;

use crate::api::{AgentView, CreateSession};
use crate::problem::Problem;

/// What a session is started with.
pub struct Prepared {
    /// The name by which the agent was chosen: its own, or a configured one. A session that
    /// continues this one is prepared with it.
    pub name: String,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// The host, without a log.
    pub host: Host,
    /// The spec: directory, model, settings, limits and permissions. The daemon adds the rest.
    pub spec: Spec,
}

/// A future that resolves to the start of a session, or to the reason why it is refused.
pub type PrepareFuture<'a> = Pin<Box<dyn Future<Output = Result<Prepared, Problem>> + Send + 'a>>;

/// A future that resolves to all agents.
pub type AgentsFuture<'a> = Pin<Box<dyn Future<Output = Vec<AgentView>> + Send + 'a>>;

/// The program around the daemon.
pub trait Embedder: Send + Sync {
    /// Chooses the agent of a session, and reads its configuration.
    fn prepare<'a>(&'a self, request: &'a CreateSession) -> PrepareFuture<'a>;

    /// Probes all agents.
    fn agents(&self) -> AgentsFuture<'_>;

    /// Returns the current time.
    fn now(&self) -> Timestamp;
}
