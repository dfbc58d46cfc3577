//! Connection to the daemon: the client, its errors, and the sessions that it runs.

mod events;
mod request;

use std::path::PathBuf;

use ostler::permission::PermissionAnswer;
use ostler_daemon::api::{Answer, AnswerDecision, SendMessage, WhenBusy};
use ostler_daemon::client::{Client, ClientError};

pub(crate) use self::events::{DaemonEvents, History, Update};
pub(crate) use self::request::session_request;
use crate::environment;
use crate::fault::{Fault, Result};

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

/// A session of the daemon.
#[derive(Clone)]
pub(crate) struct DaemonSession {
    client: Client,
    id: String,
}

impl DaemonSession {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self { client, id }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Streams the events of the session.
    pub(crate) fn events(&self, history: History) -> DaemonEvents {
        DaemonEvents::read(self.client.clone(), self.id.clone(), history)
    }

    /// Interrupts the turn. The events show whether that worked.
    pub(crate) fn interrupt(&self) {
        let Self { client, id } = self.clone();
        tokio::spawn(async move { drop(client.interrupt(&id).await) });
    }

    /// Stops the session. The events show its end.
    pub(crate) fn stop(&self) {
        let Self { client, id } = self.clone();
        tokio::spawn(async move { drop(client.stop(&id).await) });
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
        tokio::spawn(async move { drop(session.decide(&request, answer).await) });
    }

    async fn decide(&self, request: &str, answer: PermissionAnswer) -> Result<(), ClientError> {
        let pending = self.client.approvals("state=pending").await?.approvals;
        let mut pending = pending.into_iter();
        let approval = pending.find(|it| it.session == self.id && it.event["id"] == request);
        let answer = match answer {
            PermissionAnswer::Deny(why) => Answer {
                decision: AnswerDecision::Deny,
                message: Some(why),
            },
            PermissionAnswer::Allow | PermissionAnswer::AllowAlways => Answer {
                decision: AnswerDecision::Allow,
                message: None,
            },
        };
        if let Some(approval) = approval {
            self.client.answer(&approval.id, &answer).await?;
        }
        Ok(())
    }
}
