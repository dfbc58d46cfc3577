//! Provider interface: functions with the names that the requirements give them
//! (docs/requirements.md).
//!
//! The environment is checked before a session is created.
//!
//! ```no_run
//! # async fn example(host: ostler::Host) -> Result<(), ostler::provider::CreateError> {
//! use ostler::{Agents, Spec, provider};
//!
//! let agent = Agents::builtin().get("claude").expect("a built-in agent");
//! let spec = Spec::new("hello");
//! let mut session = provider::create_session(&*agent, &host, spec).await?;
//! println!("{}", session.wait().await.text());
//! # Ok(())
//! # }
//! ```

use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{AfterTurn, Spec, SpecError};

use crate::agent::Agent;
use crate::host::Host;
use crate::probe::Probed;
use crate::session::{RequestError, Session, SessionEnded, SubmittedResult};

/// The reason why no session was created. Nothing was started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CreateError {
    /// The agent is not ready. The outcome has the reason, a hint, and the error name of the
    /// requirements.
    #[error("{}", .0.message)]
    Environment(Box<Outcome>),
    /// The spec is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Checks that the agent, and whatever else this spec needs, is installed and ready.
///
/// # Errors
/// An outcome with cause `unavailable` (`EnvironmentError`) or `auth` (`AuthenticationError`) and a
/// hint.
pub async fn validate_environment(
    agent: &dyn Agent,
    host: &Host,
    spec: &Spec,
) -> Result<(), Box<Outcome>> {
    let probed = agent.probe(host, spec).await;
    let Some((message, hint)) = probed.problem(agent.about().name) else {
        return Ok(());
    };
    let cause = match probed {
        Probed::NotLoggedIn { .. } => Cause::Auth,
        _ => Cause::Unavailable,
    };
    let message = format!("{message}.");
    Err(Box::new(Outcome::new(cause, message).hint(hint)))
}

/// Checks the environment and starts a session.
///
/// # Errors
/// If the environment is not ready or the spec is invalid. Nothing is started then.
pub async fn create_session(
    agent: &dyn Agent,
    host: &Host,
    spec: Spec,
) -> Result<Session, CreateError> {
    validate_environment(agent, host, &spec)
        .await
        .map_err(CreateError::Environment)?;
    Ok(agent.start(host, spec)?)
}

/// Resumes an earlier session, in a session that waits for messages.
///
/// # Errors
/// As for [`create_session`]. An unknown session id is not an error here: the new session ends with
/// cause `bad_request` and the reason.
pub async fn resume_session(
    agent: &dyn Agent,
    host: &Host,
    (id, mut spec): (&str, Spec),
) -> Result<Session, CreateError> {
    spec.resume = Some(id.into());
    spec.after_turn = AfterTurn::Wait;
    create_session(agent, host, spec).await
}

/// Sends a message.
///
/// # Errors
/// If the session has ended.
pub fn send_message(session: &Session, message: impl Into<String>) -> Result<(), SessionEnded> {
    session.send(message)
}

/// Submits results of tools that the caller runs itself.
///
/// # Errors
/// If one of the calls already has a result, or the session has ended.
pub fn submit_tool_results(
    session: &Session,
    results: impl IntoIterator<Item = SubmittedResult>,
) -> Result<(), RequestError> {
    session.remote().submit_tool_results(results)
}
