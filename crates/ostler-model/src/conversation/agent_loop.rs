//! The agent loop around the model's answers: stop conditions, hooks between answers, verification
//! of the result, and questions or approvals for a person.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Decision, Level, Notice, NoticeCode, Permission, ToolCall};
use ostler_core::outcome::{Cause, Outcome, Reason};
use ostler_core::raw_json::RawJson;

use super::{ModelConversation, Phase, send_command, unpriced};
use crate::calls::Call;
use crate::config::Mode;
use crate::history::Entry;
use crate::reply::PartialReply;
use crate::runner_protocol::{Flow, LoopFeatures, RunnerCommand, When};
use crate::usage::CountedTokens;

/// What happens after a hook.
pub(super) enum Next {
    /// Call the model.
    Ask,
    /// Start the next round.
    Round,
    /// Verify the answer, then end the turn with it.
    Finish(String, Option<RawJson>),
}

/// Tool result for a question in an unattended session.
pub(super) const QUESTION_FORWARDED: &str =
    "The question was put to the person. The answer is the next message.";

/// Tool result for a call that would change something in plan mode.
const PLAN_MODE_DENIAL: &str =
    "denied: this is plan mode, nothing is to be changed. Say what you would do instead.";

impl ModelConversation {
    /// Returns the features of the loop, if this agent is one.
    pub(super) fn agent_loop(&self) -> Option<&LoopFeatures> {
        self.ready.as_ref().and_then(|ready| ready.looping.as_ref())
    }

    /// Returns true if a tool is known to change something.
    fn is_mutating(&self, tool: &str) -> bool {
        self.agent_loop()
            .is_some_and(|features| features.mutating.iter().any(|name| name == tool))
    }

    // --- Stop conditions ---

    /// Returns the outcome if a limit forbids another model call.
    pub(super) fn stop_condition(&self) -> Option<Outcome> {
        let exceeded = |reason: Reason, message: String, hint: String| {
            Some(
                Outcome::new(Cause::Budget, message)
                    .because(reason)
                    .hint(hint),
            )
        };
        let config = &self.config;
        if self.turn.steps >= config.max_turns {
            return Some(self.too_many_steps());
        }
        if config.has_budget && !self.turn.usage.is_priced() {
            return Some(unpriced());
        }
        if let (Some(max), Some(cost)) = (config.max_cost, self.turn.usage.cost())
            && self.agent_loop().is_some()
            && cost >= max
        {
            let message = format!("The loop has cost ${cost:.4}; the limit is ${max}.");
            return exceeded(
                Reason::Cost,
                message,
                "Raise the budget (--max-budget-usd).".to_owned(),
            );
        }
        let CountedTokens { input, output } = self.turn.usage.tokens();
        let limits = [
            (
                config.max_input_tokens,
                input,
                Reason::InputTokens,
                "--max-input-tokens",
            ),
            (
                config.max_output_tokens,
                output,
                Reason::OutputTokens,
                "--max-output-tokens",
            ),
        ];
        for (max, used, reason, flag) in limits {
            let Some(max) = max else { continue };
            let tokens = reason.as_str().replace('_', " ");
            if self.turn.usage.is_uncounted() {
                let message = format!(
                    "The limit on {tokens} cannot be enforced because the model does not report \
                     them."
                );
                let hint = format!("Remove the limit ({flag}), or use another model.");
                return exceeded(reason, message, hint);
            }
            if used >= max {
                let message = format!("The loop has used {used} {tokens}; the limit is {max}.");
                return exceeded(reason, message, format!("Allow more tokens ({flag})."));
            }
        }
        None
    }

    /// Counts the calls and returns an outcome if the limit is exceeded.
    pub(super) fn too_many_calls(&mut self, calls: usize) -> Option<Outcome> {
        self.turn.calls = self.turn.calls.saturating_add(calls as u64);
        let max = self
            .config
            .max_tool_calls
            .filter(|max| self.turn.calls > *max)?;
        let message = format!("The model requested more than {max} tool calls.");
        Some(
            Outcome::new(Cause::TurnLimit, message)
                .because(Reason::ToolCalls)
                .hint("Allow more tool calls (--max-tool-calls)."),
        )
    }

    /// Handles a failed answer. Returns it if the model is not called again.
    pub(super) fn retry_answer(
        &mut self,
        reply: PartialReply,
        outcome: &Outcome,
        out: &mut Outbox,
    ) -> Option<PartialReply> {
        if self.agent_loop().is_none() {
            return Some(reply);
        }
        // Its cost is unknown, so a limit can no longer be enforced.
        self.turn.usage.incomplete |= reply.usage.is_empty();
        self.turn.errors += 1;
        if !self.can_retry(outcome) {
            return Some(reply);
        }
        let text = reply.into_content().text;
        self.record_answer(&text, &[]);
        let message = format!(
            "The model's answer failed ({}): {}",
            self.turn.errors, outcome.message
        );
        let message_to_model = format!("Your last answer failed: {} Continue.", outcome.message);
        self.notify(
            Notice::new(Level::Warning, NoticeCode::AnswerFailed, message),
            (!text.is_empty()).then_some(message_to_model),
            out,
        );
        self.emit_usage(out);
        self.request_answer(out);
        None
    }

    /// Returns true if another attempt can help. An agent that used its own tools has broken its
    /// contract and may do so again.
    fn can_retry(&self, outcome: &Outcome) -> bool {
        self.turn.errors < self.config.max_errors
            && self.stop_condition().is_none()
            && outcome.reason() != Some(&Reason::OwnTool)
            && matches!(
                outcome.cause,
                Cause::Protocol
                    | Cause::AgentDied
                    | Cause::ServerError
                    | Cause::Network
                    | Cause::WallLimit
                    | Cause::IdleLimit
                    | Cause::StartupLimit
                    | Cause::OutputLimit
            )
    }

    /// Handles a failed summary. A loop continues with the conversation unchanged; returns true if
    /// it does.
    pub(super) fn on_failed_summary(&mut self, outcome: &Outcome, out: &mut Outbox) -> bool {
        self.turn.errors += 1;
        let continues = self.agent_loop().is_some() && self.can_retry(outcome);
        if continues {
            let message = format!(
                "The context is nearly full, and summarizing it failed: {}",
                outcome.message
            );
            out.warn(NoticeCode::ContextNotSummarised, message);
            self.request_answer(out);
        }
        continues
    }

    /// Called after all tools of a step. Returns an outcome after too many consecutive failed
    /// steps.
    pub(super) fn end_of_step(&mut self) -> Option<Outcome> {
        let failed = std::mem::take(&mut self.turn.failed_step);
        self.turn.errors = if failed { self.turn.errors + 1 } else { 0 };
        self.turn.any_worked = false;
        if self.agent_loop().is_none() || self.turn.errors < self.config.max_errors {
            return None;
        }
        let message = format!("The tools failed in {} steps in a row.", self.turn.errors);
        Some(
            Outcome::new(Cause::TurnLimit, message)
                .because(Reason::Errors)
                .hint("Allow more failed steps (--max-errors), or give another task."),
        )
    }

    /// Records the result of a call.
    pub(super) fn record_result(&mut self, ok: bool, denied: bool) {
        self.turn.any_worked |= ok || denied;
        self.turn.failed_step = !self.turn.any_worked;
    }

    // --- Hooks ---

    /// Runs the caller's hooks before continuing.
    pub(super) fn hook(&mut self, when: When, next: Next, out: &mut Outbox) {
        // Approved calls run before the first round.
        let is_round = when == When::Before || self.turn.steps > 0;
        if !(is_round && self.agent_loop().is_some_and(|features| features.hooks)) {
            return self.proceed(next, out);
        }
        let iteration = if when == When::Before {
            self.turn.steps + 1
        } else {
            self.turn.steps
        };
        self.phase = Phase::Hooked(next);
        send_command(&RunnerCommand::Hook { when, iteration }, out);
    }

    pub(super) fn on_flow(&mut self, flow: Flow, out: &mut Outbox) {
        let next = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Hooked(next) => next,
            // Too late: the turn is being cancelled.
            other => return self.phase = other,
        };
        match flow {
            Flow::Go => self.proceed(next, out),
            Flow::Say(text) => {
                self.notify(
                    Notice::new(
                        Level::Warning,
                        NoticeCode::HookSaid,
                        "A hook sent a message to the model.",
                    ),
                    Some(text),
                    out,
                );
                // A message from a hook needs an answer.
                let next = if let Next::Finish(..) = next {
                    Next::Round
                } else {
                    next
                };
                self.proceed(next, out);
            }
            Flow::Stop(why) => {
                let text = if let Next::Finish(text, _) = next {
                    Some(text)
                } else {
                    None
                };
                let outcome = Outcome::new(Cause::Stopped, why).because(Reason::Hook);
                self.end(outcome, text, out);
            }
        }
    }

    fn proceed(&mut self, next: Next, out: &mut Outbox) {
        match next {
            Next::Ask => self.call_model(out),
            Next::Round => self.next_round(None, out),
            Next::Finish(text, structured)
                if self.agent_loop().is_some_and(|features| features.verifies) =>
            {
                out.notice(Level::Debug, NoticeCode::Verifying, "Verifying the result.");
                send_command(&RunnerCommand::Verify(text.clone()), out);
                self.phase = Phase::Verifying(text, structured);
            }
            Next::Finish(text, _) if !self.steered.is_empty() => self.next_round(Some(text), out),
            Next::Finish(text, structured) => self.complete(text, structured, out),
        }
    }

    // --- Verification ---

    /// Handles the result of the verification; `api_error` is the reason for a failure.
    pub(super) fn on_verified(&mut self, failure: Option<String>, out: &mut Outbox) {
        let (text, structured) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Verifying(text, structured) => (text, structured),
            other => return self.phase = other,
        };
        let Some(why) = failure else {
            out.notice(
                Level::Info,
                NoticeCode::Verified,
                "The result passed verification.",
            );
            // Steering messages come first; then the result is verified again.
            return if self.steered.is_empty() {
                self.complete(text, structured, out);
            } else {
                self.next_round(Some(text), out);
            };
        };
        let message = format!(
            "The result failed verification: {}",
            why.lines().next().unwrap_or_default()
        );
        let message_to_model = format!(
            "Your work was verified and is not done yet. The verification \
             says:\n\n{why}\n\nContinue until it passes."
        );
        self.notify(
            Notice::new(Level::Warning, NoticeCode::NotVerified, message),
            Some(message_to_model),
            out,
        );
        self.next_round(Some(text), out);
    }

    /// Requests another answer, or ends the turn with this text if a limit is reached.
    pub(super) fn next_round(&mut self, text: Option<String>, out: &mut Outbox) {
        match self.stop_condition() {
            Some(outcome) => self.end(outcome, text, out),
            None => {
                self.emit_usage(out);
                self.request_answer(out);
            }
        }
    }

    /// Emits a notice, and adds a message for the model if there is one.
    fn notify(&mut self, notice: Notice, message_to_model: Option<String>, out: &mut Outbox) {
        let raw = message_to_model.as_deref().map(RawJson::string);
        out.event(Notice { raw, ..notice });
        self.history.0.extend(message_to_model.map(Entry::Injected));
    }

    // --- Approvals ---

    /// Denies calls that would change something in plan mode.
    pub(super) fn deny_in_plan_mode(&mut self, calls: &[Call], out: &mut Outbox) {
        if self.config.mode != Mode::Plan {
            return;
        }
        for call in calls {
            if self.is_mutating(&call.name) {
                out.event(decision_event(
                    call,
                    Decision::Denied,
                    DecidedBy::Rule,
                    Some(PLAN_MODE_DENIAL),
                ));
                self.turn
                    .refused
                    .insert(call.id.clone(), PLAN_MODE_DENIAL.to_owned());
            }
        }
    }

    /// Returns true if a person must approve the call.
    pub(super) fn needs_approval(&self, call: &Call) -> bool {
        self.config.mode == Mode::Approve
            && self.is_mutating(&call.name)
            && !self.turn.approved.contains(&call.id)
    }

    /// Returns the outcome if the turn needs input from a person, once its tools are done.
    pub(super) fn needs_input(&mut self) -> Option<Outcome> {
        let mut needs = std::mem::take(&mut self.turn.questions);
        if self.pending.is_empty() {
            let hint = "Send the answer as the next message.";
            return (!needs.is_empty()).then(|| {
                Outcome::new(Cause::NeedsInput, needs.join("\n"))
                    .because(Reason::Question)
                    .hint(hint)
            });
        }
        let names: Vec<&str> = self.pending.iter().map(|call| call.name.as_str()).collect();
        needs.push(format!(
            "These calls are waiting for approval: {}.",
            names.join(", ")
        ));
        let hint = "Approve them, or say what to do instead.";
        let outcome = Outcome::new(Cause::NeedsInput, needs.join("\n")).because(Reason::Approval);
        Some(self.with_pending_calls(outcome).hint(hint))
    }

    fn with_pending_calls(&self, outcome: Outcome) -> Outcome {
        let ids = self.pending.iter().map(|call| call.id.clone()).collect();
        outcome.with(|detail| detail.pending_calls = ids)
    }

    /// Makes the approved calls; the others that waited are not made. If one of the ids is not
    /// waiting, nothing is made and all calls keep waiting.
    pub(super) fn on_approved(&mut self, ids: &[String], out: &mut Outbox) {
        let waits = |id: &String| self.pending.iter().any(|call| call.id == *id);
        if ids.is_empty() || !ids.iter().all(waits) {
            let message = "An approved call does not wait for approval.";
            let outcome = self.with_pending_calls(Outcome::new(Cause::BadRequest, message));
            return self.end(outcome, None, out);
        }
        let mut calls = std::mem::take(&mut self.pending);
        calls.retain(|call| ids.contains(&call.id));
        self.assign_ids(&mut calls);
        self.record_answer("", &calls);
        for call in &calls {
            out.event(tool_call_event(call));
            out.event(decision_event(
                call,
                Decision::Allowed,
                DecidedBy::Person,
                None,
            ));
        }
        self.turn
            .approved
            .extend(calls.iter().map(|call| call.id.clone()));
        self.decide_calls(calls, out);
    }
}

/// Converts a call to its event.
pub(super) fn tool_call_event(call: &Call) -> ToolCall {
    let input = call
        .input()
        .unwrap_or_else(|_| RawJson::string(&call.arguments));
    ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        input,
        parent: None,
    }
}

/// Builds the event for a decision made without the session.
pub(super) fn decision_event(
    call: &Call,
    decision: Decision,
    by: DecidedBy,
    why: Option<&str>,
) -> Permission {
    Permission {
        id: call.id.clone(),
        tool: call.name.clone(),
        kind: None,
        input: call.input().ok(),
        decision,
        by,
        message: why.map(str::to_owned),
    }
}
