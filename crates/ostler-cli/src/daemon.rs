//! Connection to the daemon: the client, its errors, and the sessions that it runs.

mod events;
mod request;

use std::path::PathBuf;

use ostler::permission::PermissionAnswer;
use ostler_daemon::api::{
    Answer, AnswerDecision, CreateSession, SendMessage, SessionView, WhenBusy,
};
use ostler_daemon::client::{Client, ClientError};
use tokio::sync::broadcast;

pub(crate) use self::events::{DaemonEvents, History, Update};
pub(crate) use self::request::{chat_request, session_request, unsupported};
use crate::args::StartArgs;
use crate::fault::{Fault, Result};
use crate::{config, environment};

/// Returns the path of the daemon's socket.
pub(crate) fn socket() -> Result<PathBuf> {
    environment::daemon_socket().ok_or_else(|| {
        Fault::usage("no directory for the daemon: HOME is not set")
            .hint("set OSTLER_STATE_DIR to a directory")
    })
}

/// Returns a client of the daemon. It connects with the first request.
pub(crate) fn client() -> Result<Client> {
    Ok(Client::new(socket()?))
}

/// Creates a session. If it resumes another one, the agent of that one is the default, as for a run
/// in this process.
pub(crate) async fn create(client: &Client, mut request: CreateSession) -> Result<SessionView> {
    if let Some(id) = request.resume.take() {
        let earlier = match (client.session(&id).await, &request.agent) {
            (Ok(earlier), _) => Some(earlier),
            // A session that only the agent knows.
            (Err(ClientError::Problem(_)), Some(_)) => None,
            (Err(error), _) => return Err(Fault::from(error)),
        };
        // The daemon knows by which name the agent of its own session was chosen.
        if let Some(earlier) = earlier.as_ref().filter(|earlier| !earlier.managed) {
            request.agent.get_or_insert_with(|| earlier.agent.clone());
        }
        request.resume = Some(earlier.map_or(id, |earlier| earlier.id));
    }
    Ok(client.create(&request).await?)
}

/// Returns true if the configuration says that tasks run in the daemon, and one is running. A flag
/// that the daemon has no counterpart for takes precedence.
pub(crate) async fn is_default(start: &StartArgs) -> Result<bool> {
    // A file with errors is reported by the run itself, together with the project's.
    let is_configured = || config::user(start.config).is_ok_and(|config| config.uses_daemon());
    if unsupported(start).is_some() || !is_configured() {
        return Ok(false);
    }
    Ok(client()?.is_running().await)
}

/// Converts an error of the client. A request that the daemon refuses is a usage error.
impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let problem = match error {
            ClientError::NotRunning { .. } => {
                return Self::unavailable("no daemon is running")
                    .hint("start it with `ostler serve --detach`");
            }
            ClientError::Problem(problem) => problem,
            error => return Self::internal(error),
        };
        let fault = match problem.status {
            400..500 => Self::usage(problem.detail),
            503 => Self::unavailable(problem.detail),
            _ => Self::internal(problem.detail),
        };
        // The hints of the API name its requests, not the commands of this program.
        let hint = match problem.cause.as_str() {
            "unknown_session" => Some(
                "run `ostler sessions --all` to list sessions; a unique prefix of an id is enough"
                    .to_owned(),
            ),
            "session_ended" => Some("continue it with `ostler run --resume ID \"…\"`".to_owned()),
            "unknown_approval" | "already_decided" | "approval_expired" => {
                Some("run `ostler approvals` to list what waits for an answer".to_owned())
            }
            _ => problem.hint,
        };
        match hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}

/// Maximum number of failed requests that are not shown yet.
const MAX_FAILURES: usize = 16;

/// A session of the daemon.
#[derive(Clone)]
pub(crate) struct DaemonSession {
    client: Client,
    id: String,
    /// Requests without a caller that waits for them, and failed.
    failures: broadcast::Sender<String>,
}

impl DaemonSession {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self {
            client,
            id,
            failures: broadcast::Sender::new(MAX_FAILURES),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Streams the events of the session, and the requests that fail from now on.
    pub(crate) fn events(&self, history: History) -> DaemonEvents {
        let failures = self.failures.subscribe();
        DaemonEvents::read(self.client.clone(), self.id.clone(), history, failures)
    }

    /// Interrupts the turn. The events show whether that worked.
    pub(crate) fn interrupt(&self) {
        let own = self.clone();
        tokio::spawn(async move {
            let result = own.client.interrupt(&own.id).await.map(drop);
            own.report("the turn was not interrupted", result);
        });
    }

    /// Stops the session. The events show its end.
    pub(crate) fn stop(&self) {
        let own = self.clone();
        tokio::spawn(async move {
            let result = own.client.stop(&own.id).await.map(drop);
            own.report("the session was not stopped", result);
        });
    }

    /// Reports a failed request among the events.
    fn report(&self, what: &str, result: Result<(), ClientError>) {
        if let Err(error) = result {
            let fault = Fault::from(error);
            let outcome = fault.outcome();
            let hint = outcome.hint.as_ref();
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            let _ = self
                .failures // no one is left to see it
                .send(format!("{what}: {}{hint}", outcome.message));
        }
    }

    /// Sends a message for the next turn.
    pub(crate) async fn send(self, text: String) -> Result<()> {
        let message = SendMessage {
            text,
            when_busy: WhenBusy::Queue,
        };
        self.client.send(&self.id, &message).await?;
        Ok(())
    }

    /// Answers a permission request. An event reports the decision, whoever made it.
    pub(crate) fn answer(&self, request: &str, answer: PermissionAnswer) {
        let (session, request) = (self.clone(), request.to_owned());
        tokio::spawn(async move {
            let result = session.decide(&request, answer).await;
            session.report("your answer did not reach the session", result);
        });
    }

    async fn decide(&self, request: &str, answer: PermissionAnswer) -> Result<(), ClientError> {
        let pending = self.client.approvals("state=pending").await?.approvals;
        let mut pending = pending.into_iter();
        let approval = pending.find(|it| it.session == self.id && it.event["id"] == request);
        let always = answer == PermissionAnswer::AllowAlways;
        let answer = match answer {
            PermissionAnswer::Deny(why) => Answer {
                decision: AnswerDecision::Deny,
                message: Some(why),
                always: false,
            },
            PermissionAnswer::Allow | PermissionAnswer::AllowAlways => Answer {
                decision: AnswerDecision::Allow,
                message: None,
                always,
            },
        };
        if let Some(approval) = approval {
            self.client.answer(&approval.id, &answer).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ostler_daemon::problem::{Problem, ProblemKind};

    use super::*;
    use crate::exit;

    #[test]
    fn every_problem_has_an_exit_code() {
        for kind in ProblemKind::ALL {
            let body = Problem::new(kind, "why").hint("what to do").body();
            let wanted = match kind.status().as_u16() {
                400..500 => exit::USAGE,
                503 => exit::UNAVAILABLE,
                _ => exit::INTERNAL,
            };
            let fault = Fault::from(ClientError::Problem(Box::new(body)));
            assert_eq!(fault.code(), wanted, "{kind}");
            assert_eq!(fault.outcome().message, "why");
        }
        let shutting_down = Problem::new(ProblemKind::ShuttingDown, "x").body();
        let fault = Fault::from(ClientError::Problem(Box::new(shutting_down)));
        assert_eq!(fault.code(), exit::UNAVAILABLE);
        assert_eq!(Fault::from(ClientError::Silent).code(), exit::INTERNAL);
    }
}
