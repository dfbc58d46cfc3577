//! How a turn ends: with an answer, with a failure, by the caller's wish.

use ostler_core::dialect::{FromConversation, Outbox, TurnOver};
use ostler_core::event::Level;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Denials;

use super::tools::Asking;
use super::{ModelConversation, Phase, Squeezed, order};
use crate::openai::blame;
use crate::openai::calls::Call;
use crate::openai::history::LOST;
use crate::openai::orders::{Failed, FailedKind, Order};
use crate::openai::reply::Reply;
use crate::openai::tool_use::RUN_COMMAND;

impl ModelConversation {
    pub(super) fn complete(&mut self, text: String, structured: Option<RawJson>, out: &mut Outbox) {
        let denied = std::mem::take(&mut self.turn.denied);
        let allow = match (
            self.turn.refused.is_empty(),
            denied.iter().any(|tool| tool == RUN_COMMAND),
        ) {
            (true, true) => {
                "Allow it (--allow-command, or .ostler/sandbox.toml), or pass --tolerate-denials."
            }
            (true, false) => "Allow it in .ostler/sandbox.toml, or pass --tolerate-denials.",
            (false, _) => {
                "Allow it by a rule (--permissions, policy.toml), or pass --tolerate-denials."
            }
        };
        let outcome = if denied.is_empty() || self.plan.denials == Denials::Tolerate {
            Outcome::completed()
        } else {
            Outcome::new(
                Cause::Denied,
                format!("Tool calls were denied: {}.", denied.join(", ")),
            )
            .hint(allow)
            .with(|detail| detail.denied_tools = denied)
        };
        if text.is_empty() {
            out.notice(
                Level::Warning,
                "empty_answer",
                "The model ended its turn without a word.",
            );
        }
        let text = Some(text).filter(|text| !text.is_empty());
        self.close(
            TurnOver {
                outcome,
                text,
                structured,
                usage: Vec::new(),
            },
            out,
        );
    }

    pub(super) fn failed(&mut self, failed: &Failed, out: &mut Outbox) {
        self.unintroduced = self.ready.is_none();
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            // Only when nothing was said: what was told of an answer is not taken back.
            Phase::Answering(reply)
                if reply.pieces == 0
                    && blame::is_too_long(failed)
                    && self.turn.squeezed != Squeezed::Summarised =>
            {
                self.squeeze(failed, out);
            }
            // All of it had come: a connection that then ends badly takes nothing away.
            phase @ Phase::Answering(_) if failed.kind == FailedKind::Cut && phase.is_whole() => {
                self.phase = phase;
                self.over(out);
            }
            Phase::Answering(reply) => {
                self.count(&reply, out);
                self.broken(*reply, blame::of_failure(failed), out);
            }
            Phase::Summarising(reply, _) => {
                self.charge(&reply);
                let outcome = blame::of_failure(failed);
                if !self.without_summary(&outcome, out) {
                    self.end(outcome, None, out);
                }
            }
            Phase::Waiting => self.end(blame::of_failure(failed), None, out),
            other => self.phase = other,
        }
    }

    /// An answer that broke off: what was said of it was said.
    pub(super) fn broken(&mut self, reply: Reply, outcome: Outcome, out: &mut Outbox) {
        let Some(reply) = self.again(reply, &outcome, out) else {
            return;
        };
        let (text, _) = reply.into_parts();
        self.keep(&text, &[]);
        // The model's own limit of time is not the loop's.
        let nameless = outcome
            .detail
            .as_ref()
            .is_none_or(|detail| detail.native.is_none());
        let own = self.looping().is_some() && nameless;
        self.end(
            if own {
                outcome.with(|detail| detail.native = Some("model".to_owned()))
            } else {
                outcome
            },
            None,
            out,
        );
    }

    pub(super) fn interrupt(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Waiting => self.interrupted(out),
            Phase::Answering(reply) => {
                self.charge(&reply);
                self.keep(&reply.into_parts().0, &[]);
                self.cancel(Vec::new(), out);
            }
            Phase::Summarising(reply, _) => {
                self.charge(&reply);
                self.cancel(Vec::new(), out);
            }
            Phase::Asking(Asking { calls, open }) => {
                open.into_iter()
                    .for_each(|id| out.push(FromConversation::Withdraw(id)));
                self.cancel(calls, out);
            }
            Phase::Working(calls) => {
                self.turn
                    .approvals
                    .drain()
                    .for_each(|(id, _)| out.push(FromConversation::Withdraw(id)));
                self.cancel(calls, out);
            }
            Phase::Hooked(_) | Phase::Verifying(..) => self.cancel(Vec::new(), out),
            Phase::Cancelling(calls) => self.phase = Phase::Cancelling(calls),
        }
    }

    fn cancel(&mut self, running: Vec<Call>, out: &mut Outbox) {
        self.phase = Phase::Cancelling(running);
        order(&Order::Cancel, out);
    }

    pub(super) fn interrupted(&mut self, out: &mut Outbox) {
        let outcome = Outcome::new(Cause::Interrupted, "The turn was interrupted.")
            .with(|d| d.acknowledged = Some(true));
        self.end(outcome, None, out);
    }

    pub(super) fn end(&mut self, outcome: Outcome, text: Option<String>, out: &mut Outbox) {
        let text = text.filter(|text| !text.is_empty());
        self.close(
            TurnOver {
                outcome,
                text,
                structured: None,
                usage: Vec::new(),
            },
            out,
        );
    }

    pub(super) fn close(&mut self, mut over: TurnOver, out: &mut Outbox) {
        self.phase = Phase::Idle;
        if over.outcome.cause != Cause::NeedsInput {
            self.pending.clear();
        }
        self.history.settle(LOST);
        self.keep_steered(out);
        over.usage = self.turn.bill.usage();
        out.push(FromConversation::TurnOver(over));
    }
}
