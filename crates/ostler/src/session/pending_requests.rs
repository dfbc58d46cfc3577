//! Who waits for what came of a request: the events tell, and each ticket is settled once.

use ostler_core::event::{DecidedBy, Decision, EventKind, Refused};
use ostler_core::outcome::{Cause, Outcome};

use super::remote::{Completion, Interruption, PendingRequest};

/// Requests that nothing has come of yet, in their order.
#[derive(Default)]
pub(super) struct PendingRequests(Vec<PendingRequest>);

impl PendingRequests {
    pub(super) fn push(&mut self, request: PendingRequest) {
        self.0.push(request);
    }

    /// Something happened that may be what somebody waits for.
    pub(super) fn note(&mut self, kind: &EventKind) {
        if self.0.is_empty() {
            return;
        }
        match kind {
            EventKind::Refused(refused) => self.refused(refused),
            EventKind::Notice(notice) => match notice.code.as_str() {
                "model_changed" => self.first("set_model", Completion::JobResult),
                "permission_mode_changed" => {
                    self.first("set_permission_mode", Completion::JobResult)
                }
                _ => {}
            },
            EventKind::Permission(it)
                if it.by == DecidedBy::Person && it.decision != Decision::Asked =>
            {
                let answers = |request: &PendingRequest| request.about.as_deref() == Some(&it.id);
                if let Some(at) = self.0.iter().position(answers) {
                    let _ = self.0.remove(at).done.send(Completion::JobResult);
                }
            }
            EventKind::TurnEnded(ended) => {
                let interruption = interruption(&ended.outcome);
                while self.0.iter().any(|request| request.request == "interrupt") {
                    self.first("interrupt", Completion::Interrupted(interruption));
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: &Refused) {
        let settled = match refused.request.as_str() {
            "interrupt" => Completion::Interrupted(Interruption::NoTurn),
            _ => Completion::Refused(refused.clone()),
        };
        self.first(&refused.request, settled);
    }

    fn first(&mut self, request: &str, settled: Completion) {
        if let Some(at) = self.0.iter().position(|pending| pending.request == request) {
            // Whoever asked may have gone.
            let _ = self.0.remove(at).done.send(settled);
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
