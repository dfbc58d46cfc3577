//! Who waits for what came of a request: the events tell, and each ticket is settled once.

use ostler_core::event::{DecidedBy, Decision, Refused, What};
use ostler_core::outcome::{Cause, Outcome};

use super::remote::{Interruption, Settled, Ticket};

/// Requests that nothing has come of yet, in their order.
#[derive(Default)]
pub(super) struct Tickets(Vec<Ticket>);

impl Tickets {
    pub(super) fn push(&mut self, ticket: Ticket) {
        self.0.push(ticket);
    }

    /// Something happened that may be what somebody waits for.
    pub(super) fn note(&mut self, what: &What) {
        if self.0.is_empty() {
            return;
        }
        match what {
            What::Refused(refused) => self.refused(refused),
            What::Notice(notice) => match notice.code.as_str() {
                "model_changed" => self.first("set_model", Settled::Done),
                "permission_mode_changed" => self.first("set_permission_mode", Settled::Done),
                _ => {}
            },
            What::Permission(it) if it.by == DecidedBy::Person && it.decision != Decision::Asked => {
                let answers = |ticket: &Ticket| ticket.about.as_deref() == Some(&it.id);
                if let Some(at) = self.0.iter().position(answers) {
                    let _ = self.0.remove(at).done.send(Settled::Done);
                }
            }
            What::TurnEnded(ended) => {
                let interruption = interruption(&ended.outcome);
                while self.0.iter().any(|ticket| ticket.request == "interrupt") {
                    self.first("interrupt", Settled::Interrupted(interruption));
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: &Refused) {
        let settled = match refused.request.as_str() {
            "interrupt" => Settled::Interrupted(Interruption::NoTurn),
            _ => Settled::Refused(refused.clone()),
        };
        self.first(&refused.request, settled);
    }

    fn first(&mut self, request: &str, settled: Settled) {
        if let Some(at) = self.0.iter().position(|ticket| ticket.request == request) {
            // Whoever asked may have gone.
            let _ = self.0.remove(at).done.send(settled);
        }
    }
}

fn interruption(outcome: &Outcome) -> Interruption {
    let acknowledged = outcome.detail.as_ref().and_then(|detail| detail.acknowledged);
    match (outcome.cause, acknowledged) {
        (Cause::Interrupted, Some(true)) => Interruption::Acknowledged,
        (Cause::Interrupted, _) => Interruption::NotAcknowledged,
        _ => Interruption::TooLate,
    }
}
