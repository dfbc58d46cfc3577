//! Requests of a session's caller and their results, as they travel to another machine.

use serde::{Deserialize, Serialize};

use crate::dialect::Change;
use crate::event::{Notice, Refused, RequestKind};
use crate::machine::{Charge, Completion, Input, Interruption, PermissionAnswer};

/// A request to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Send a message; it is queued during a turn.
    Send(String),
    /// Send a message for the current turn.
    Steer(String),
    /// Send a message that must not be queued.
    SendNow(String),
    /// Approve tool calls that the last turn ended with.
    Approve(Vec<String>),
    /// Interrupt the turn.
    Interrupt,
    /// Answer a permission request.
    Answer {
        /// Id of the permission request.
        id: String,
        /// The answer.
        answer: PermissionAnswer,
    },
    /// Change the model or the permission mode.
    Change(Change),
    /// Hold back messages.
    Pause,
    /// Hold back messages and suspend the agent's processes.
    Freeze,
    /// Deliver what was held back.
    Resume,
    /// End the session gracefully.
    Stop,
    /// End the session immediately.
    Kill,
    /// Add a notice to the events.
    Notice(Notice),
    /// Set what other sessions used on behalf of this one.
    Charge(Charge),
}

impl SessionRequest {
    /// Returns the request of an input; `None` if the input is not one of a caller.
    #[must_use]
    pub fn of(input: Input) -> Option<Self> {
        Some(match input {
            Input::Send(text) => Self::Send(text),
            Input::Steer(text) => Self::Steer(text),
            Input::SendNow(text) => Self::SendNow(text),
            Input::Approve(calls) => Self::Approve(calls),
            Input::Interrupt(_) => Self::Interrupt,
            Input::PermissionAnswered { id, answer, .. } => Self::Answer { id, answer },
            Input::Change(_, change) => Self::Change(change),
            Input::Pause => Self::Pause,
            Input::Freeze => Self::Freeze,
            Input::Resume => Self::Resume,
            Input::Stop => Self::Stop,
            Input::Kill => Self::Kill,
            Input::Notice(notice) => Self::Notice(notice),
            Input::Charge(charge) => Self::Charge(charge),
            Input::Start
            | Input::Spawned
            | Input::SpawnFailed(_)
            | Input::Activity
            | Input::Conversation(_)
            | Input::ToolCalled(..)
            | Input::Exited(..)
            | Input::Tick => return None,
        })
    }

    /// Returns the kind of the request in events; `None` if it is never refused.
    #[must_use]
    pub fn kind(&self) -> Option<RequestKind> {
        Some(match self {
            Self::Send(_) | Self::Steer(_) | Self::SendNow(_) | Self::Approve(_) => {
                RequestKind::Send
            }
            Self::Interrupt => RequestKind::Interrupt,
            Self::Answer { .. } => RequestKind::Answer,
            Self::Change(change) => change.request(),
            Self::Pause => RequestKind::Pause,
            Self::Freeze => RequestKind::Freeze,
            Self::Resume | Self::Stop | Self::Kill | Self::Notice(_) | Self::Charge(_) => {
                return None;
            }
        })
    }

    /// Returns true if the request carries a message for the agent, whose loss must be reported.
    #[must_use]
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            Self::Send(_) | Self::Steer(_) | Self::SendNow(_) | Self::Approve(_)
        )
    }
}

/// The result of a request to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionReply {
    /// It was carried out, or accepted if it has no other result.
    Done,
    /// It was refused, which is also an event.
    Refused(Refused),
    /// What became of an interrupt.
    Interrupted(Interruption),
    /// The session has ended.
    Ended,
}

impl From<Completion> for SessionReply {
    fn from(completion: Completion) -> Self {
        match completion {
            Completion::Done => Self::Done,
            Completion::Refused(refused) => Self::Refused(refused),
            Completion::Interrupted(interruption) => Self::Interrupted(interruption),
        }
    }
}

impl SessionReply {
    /// Returns the result for the caller; `None` if the session has ended.
    #[must_use]
    pub fn completion(self) -> Option<Completion> {
        match self {
            Self::Done => Some(Completion::Done),
            Self::Refused(refused) => Some(Completion::Refused(refused)),
            Self::Interrupted(interruption) => Some(Completion::Interrupted(interruption)),
            Self::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_survive_the_way() {
        let requests = [
            SessionRequest::Send("hello".to_owned()),
            SessionRequest::Interrupt,
            SessionRequest::Answer {
                id: "p1".to_owned(),
                answer: PermissionAnswer::Deny("no".to_owned()),
            },
            SessionRequest::Change(Change::Model("m".to_owned())),
            SessionRequest::Charge(Charge::default()),
        ];
        for request in requests {
            let text = serde_json::to_string(&request).unwrap();
            let back: SessionRequest = serde_json::from_str(&text).unwrap();
            assert_eq!(back, request, "{text}");
        }
        let reply = SessionReply::Interrupted(Interruption::NoTurn);
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<SessionReply>(&text).unwrap(), reply);
    }
}
