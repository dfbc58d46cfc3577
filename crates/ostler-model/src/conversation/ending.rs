//! The end of a turn: with an answer, a failure or an interrupt.

use ostler_core::dialect::{FromConversation, Outbox, TurnResult};
use ostler_core::event::NoticeCode;
use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::Denials;

use super::tools::UndecidedCalls;
use super::{Compaction, ModelConversation, Phase, send_command};
use crate::calls::Call;
use crate::history::LOST;
use crate::reply::PartialReply;
use crate::runner_protocol::{Failed, FailedKind, RunnerCommand};
use crate::tool_use::RUN_COMMAND;

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
        let outcome = if denied.is_empty() || self.config.denials == Denials::Tolerate {
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
            out.warn(
                NoticeCode::EmptyAnswer,
                "The model ended its turn without an answer.",
            );
        }
        let text = Some(text).filter(|text| !text.is_empty());
        self.close(
            TurnResult {
                text,
                structured,
                ..TurnResult::new(outcome)
            },
            out,
        );
    }

    pub(super) fn on_failure(&mut self, failed: &Failed, out: &mut Outbox) {
        self.not_ready = self.ready.is_none();
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            // Only if nothing was emitted: text that was emitted cannot be taken back.
            Phase::Answering(reply)
                if !reply.has_begun
                    && failed.is_too_long()
                    && self.turn.compaction != Compaction::Summarised =>
            {
                self.compact(failed, out);
            }
            // The answer is complete, so a connection that fails afterwards does not matter.
            Phase::Answering(reply) if failed.kind == FailedKind::Cut && reply.is_intact() => {
                self.phase = Phase::Answering(reply);
                self.on_answer_end(out);
            }
            Phase::Answering(reply) => {
                self.measure(&reply);
                self.record_usage(&reply, out);
                self.on_broken_answer(*reply, failed.outcome(), out);
            }
            Phase::Summarising(reply, _) => {
                self.add_usage(&reply);
                let outcome = failed.outcome();
                if !self.on_failed_summary(&outcome, out) {
                    self.end(outcome, None, out);
                }
            }
            Phase::Waiting => self.end(failed.outcome(), None, out),
            other => self.phase = other,
        }
    }

    /// Handles an answer that was cut off. Text that was emitted stays.
    pub(super) fn on_broken_answer(
        &mut self,
        reply: PartialReply,
        outcome: Outcome,
        out: &mut Outbox,
    ) {
        let Some(reply) = self.retry_answer(reply, &outcome, out) else {
            return;
        };
        let text = reply.into_content().text;
        self.record_answer(&text, &[]);
        // The model's own time limit is not the loop's.
        let by_model = self.agent_loop().is_some() && outcome.reason().is_none();
        let outcome = if by_model {
            outcome.because(Reason::Model)
        } else {
            outcome
        };
        self.end(outcome, None, out);
    }

    pub(super) fn interrupt(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Waiting => self.end_interrupted(out),
            Phase::Answering(reply) => {
                self.add_usage(&reply);
                self.record_answer(&reply.into_content().text, &[]);
                self.cancel(Vec::new(), out);
            }
            Phase::Summarising(reply, _) => {
                self.add_usage(&reply);
                self.cancel(Vec::new(), out);
            }
            Phase::Deciding(UndecidedCalls { calls, open }) => {
                open.into_iter()
                    .for_each(|id| out.push(FromConversation::WithdrawPermission(id)));
                self.cancel(calls, out);
            }
            Phase::Working(calls) => {
                self.turn
                    .approvals
                    .drain()
                    .for_each(|(id, _)| out.push(FromConversation::WithdrawPermission(id)));
                self.cancel(calls, out);
            }
            Phase::Hooked(_) | Phase::Verifying(..) => self.cancel(Vec::new(), out),
            Phase::Cancelling(calls) => self.phase = Phase::Cancelling(calls),
        }
    }

    fn cancel(&mut self, running: Vec<Call>, out: &mut Outbox) {
        self.phase = Phase::Cancelling(running);
        send_command(&RunnerCommand::Cancel, out);
    }

    pub(super) fn end_interrupted(&mut self, out: &mut Outbox) {
        let outcome = Outcome::new(Cause::Interrupted, "The turn was interrupted.")
            .with(|d| d.acknowledged = Some(true));
        self.end(outcome, None, out);
    }

    pub(super) fn end(&mut self, outcome: Outcome, text: Option<String>, out: &mut Outbox) {
        let text = text.filter(|text| !text.is_empty());
        self.close(
            TurnResult {
                text,
                ..TurnResult::new(outcome)
            },
            out,
        );
    }

    pub(super) fn close(&mut self, mut result: TurnResult, out: &mut Outbox) {
        self.phase = Phase::Idle;
        // Only what the outcome names still waits, so that a session that resumes this one agrees.
        let detail = result.outcome.detail.as_deref();
        let named = detail.map_or(&[][..], |detail| &detail.pending_calls);
        self.pending.retain(|call| named.contains(&call.id));
        self.history.close_open_calls(LOST);
        self.defer_steered(out);
        result.usage = self.turn.usage.usage();
        out.push(result);
    }
}
