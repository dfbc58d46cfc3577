//! Pending requests of the caller. Each is completed once, by the event that answers it.

use ostler_core::event::{DecidedBy, Decision, EventKind, Refused};
use ostler_core::outcome::{Cause, Outcome};

use super::remote::{Completion, Interruption, PendingRequest};

/// Requests without an outcome yet, in the order they were made.
#[derive(Default)]
pub(super) struct PendingRequests(Vec<PendingRequest>);

impl PendingRequests {
    pub(super) fn extend(&mut self, request: Option<PendingRequest>) {
        self.0.extend(request);
    }

    /// Completes the requests that an event answers.
    pub(super) fn on_event(&mut self, kind: &EventKind) {
        if self.0.is_empty() {
            return;
        }
        match kind {
            EventKind::Refused(refused) => self.on_refused(refused),
            EventKind::Notice(notice) => match notice.code.as_str() {
                "model_changed" => self.complete_first("set_model", Completion::Done),
                "permission_mode_changed" => {
                    self.complete_first("set_permission_mode", Completion::Done);
                }
                _ => {}
            },
            EventKind::Permission(permission)
                if permission.by == DecidedBy::Person && permission.decision != Decision::Asked =>
            {
                let answers = |request: &PendingRequest| {
                    request.permission_id.as_deref() == Some(&permission.id)
                };
                if let Some(at) = self.0.iter().position(answers) {
                    let _ = self.0.remove(at).done.send(Completion::Done);
                }
            }
            EventKind::TurnEnded(ended) => {
                let interruption = interruption(&ended.outcome);
                while self.0.iter().any(|request| request.name == "interrupt") {
                    self.complete_first("interrupt", Completion::Interrupted(interruption));
                }
            }
            _ => {}
        }
    }

    fn on_refused(&mut self, refused: &Refused) {
        let completion = match refused.request.as_str() {
            "interrupt" => Completion::Interrupted(Interruption::NoTurn),
            _ => Completion::Refused(refused.clone()),
        };
        self.complete_first(&refused.request, completion);
    }

    fn complete_first(&mut self, name: &str, completion: Completion) {
        if let Some(at) = self.0.iter().position(|request| request.name == name) {
            // The caller may have stopped waiting.
            let _ = self.0.remove(at).done.send(completion);
        }
    }
}

fn interruption(outcome: &Outcome) -> Interruption {
    let acknowledged = outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.acknowledged);
    match (outcome.cause, acknowledged) {
        (Cause::Interrupted, Some(true)) => Interruption::Acknowledged,
        (Cause::Interrupted, _) => Interruption::NotAcknowledged,
        _ => Interruption::TooLate,
    }
}
