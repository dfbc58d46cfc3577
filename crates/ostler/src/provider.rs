//! The verbs of document 001 under their own names: the environment is checked first, and only then a session is begun.
//!
//! ```no_run
//! # async fn example(host: ostler::Host) -> Result<(), ostler::provider::NotCreated> {
//! use ostler::{Agents, Spec, provider};
//!
//! let agent = Agents::builtin().get("claude").expect("it is known");
//! let spec = Spec { prompt: "hello".into(), ..Spec::default() };
//! let mut session = provider::create_session(&*agent, &host, spec).await?;
//! println!("{}", session.wait().await.text());
//! # Ok(())
//! # }
//! ```

use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{AfterTurn, Spec, SpecError, keys};

use crate::agent::Agent;
use crate::host::Host;
use crate::probe::Probed;
use crate::session::{RequestError, Session, SessionEnded, SubmittedResult};

/// Why no session was created. Nothing was started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CreateError {
    /// The agent is not ready; the outcome says why, what to do, and which error name the document has for it.
    #[error("{}", .0.message)]
    Environment(Box<Outcome>),
    /// The spec is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Whether the agent, and what this spec needs besides it, is there and ready.
///
/// # Errors
/// What is missing, as an outcome: cause `unavailable` (`EnvironmentError`) or `auth` (`AuthenticationError`), with a hint.
pub async fn validate_environment(
    agent: &dyn Agent,
    host: &Host,
    spec: &Spec,
) -> Result<(), Box<Outcome>> {
    let not = |cause, message: String, hint: String| {
        Err(Box::new(Outcome::new(cause, message).hint(hint)))
    };
    let name = agent.name();
    match agent.probe_for(host, spec).await {
        Probed::Ready { .. } | Probed::LoginUnknown { .. } => Ok(()),
        Probed::Missing { hint, searched } => {
            let places: Vec<String> = searched
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            not(
                Cause::Unavailable,
                format!("{name} was not found in: {}.", places.join(", ")),
                hint,
            )
        }
        Probed::NotConfigured { hint } => not(
            Cause::Unavailable,
            format!("{name} is not configured."),
            hint,
        ),
        Probed::Broken { path, why, hint } => not(
            Cause::Unavailable,
            format!("{} does not run: {why}.", path.display()),
            hint,
        ),
        Probed::TooOld {
            version,
            need,
            hint,
            ..
        } => not(
            Cause::Unavailable,
            format!("{name} is of version {version}; at least {need} is needed."),
            hint,
        ),
        Probed::NotLoggedIn { hint, .. } => {
            not(Cause::Auth, format!("Nobody is logged in to {name}."), hint)
        }
    }
}

/// Begins a session, after the environment was found to be ready.
///
/// # Errors
/// When it is not, or the spec is wrong. Nothing is started then.
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

/// Goes on with an earlier session, in a session that waits for messages.
///
/// # Errors
/// As for [`create_session`]. A session that is not there is no error here: the session that was asked for ends with cause
/// `bad_request`, and says why.
pub async fn resume_session(
    agent: &dyn Agent,
    host: &Host,
    (id, mut spec): (&str, Spec),
) -> Result<Session, CreateError> {
    spec.settings.set(keys::RESUME, id);
    spec.after_turn = AfterTurn::Wait;
    create_session(agent, host, spec).await
}

/// Sends a message.
///
/// # Errors
/// When the session is over.
pub fn send_message(session: &Session, message: impl Into<String>) -> Result<(), SessionEnded> {
    session.send(message)
}

/// Hands over what came of tools that the caller runs itself.
///
/// # Errors
/// When one of the calls has its result already, or the session is over.
pub fn submit_tool_results(
    session: &Session,
    results: impl IntoIterator<Item = SubmittedResult>,
) -> Result<(), RequestError> {
    session.submit_tool_results(results)
}
