//! Requests of the caller that have a result: which they are, and how they end.

use serde::{Deserialize, Serialize};

use super::{Effect, Machine, Step};
use crate::event::{RefusalCode, Refused, RequestKind};
use crate::outcome::{Cause, Outcome};

/// Identifies a request of the caller within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerRequest(pub u64);

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// It was carried out.
    Done,
    /// It was refused, which is also an event.
    Refused(Refused),
    /// What became of an interrupt.
    Interrupted(Interruption),
}

/// The result of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    /// The agent acknowledged the interrupt and ended the turn.
    Acknowledged,
    /// The agent did not react and was terminated.
    NotAcknowledged,
    /// The turn ended by itself first.
    TooLate,
    /// There was no turn to interrupt.
    NoTurn,
}

impl Interruption {
    /// Returns the result of an interrupt of a turn with this outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let detail = outcome.detail.as_ref();
        match (outcome.cause, detail.and_then(|detail| detail.acknowledged)) {
            (Cause::Interrupted, Some(true)) => Self::Acknowledged,
            (Cause::Interrupted, _) => Self::NotAcknowledged,
            _ => Self::TooLate,
        }
    }
}

impl Step {
    /// Completes a request.
    pub(super) fn complete(&mut self, request: CallerRequest, completion: Completion) {
        self.push(Effect::Complete {
            request,
            completion,
        });
    }
}

impl Machine {
    /// Refuses a request whose caller does not wait for a result.
    pub(super) fn refuse(&mut self, kind: RequestKind, code: RefusalCode, why: &str) {
        self.emit(refused(kind, code, why));
    }

    /// Refuses a request, and completes it.
    pub(super) fn refuse_request(&mut self, request: CallerRequest, refused: Refused) {
        self.step
            .complete(request, Completion::Refused(refused.clone()));
        self.emit(refused);
    }
}

/// Returns the refusal of a request.
pub(super) fn refused(kind: RequestKind, code: RefusalCode, why: &str) -> Refused {
    Refused {
        request: kind,
        why: why.to_owned(),
        code,
    }
}
