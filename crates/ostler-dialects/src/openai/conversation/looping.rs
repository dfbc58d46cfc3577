//! The outer loop: what is done around the model's answers. Conditions that stop it, hooks between two answers, a check of the
//! result, a person who is asked or who approves.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Decision, Level, Notice, Permission, ToolCall};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;

use super::{ModelConversation, Phase, order};
use crate::openai::blame;
use crate::openai::calls::Call;
use crate::openai::history::Message;
use crate::openai::orders::{Flow, Looping, Order, When};
use crate::openai::plan::Mode;
use crate::openai::rebuild::codes;
use crate::openai::reply::Reply;

/// What comes after a hook.
pub(super) enum Next {
    /// The model is asked.
    Ask,
    /// The next round begins.
    Round,
    /// The answer is checked, and then it is the answer.
    Finish(String, Option<RawJson>),
}

/// What the model is told of a question that nobody answered.
pub(super) const ASKED: &str =
    "The question was put to the person. The answer is the next message.";

/// What the model is told of a call that changes something.
const PLAN: &str =
    "denied: this is plan mode, nothing is to be changed. Say what you would do instead.";

impl ModelConversation {
    /// What there is around the loop.
    pub(super) fn looping(&self) -> Option<&Looping> {
        self.ready.as_ref().and_then(|ready| ready.looping.as_ref())
    }

    /// Whether a tool changes something, as far as is known.
    fn is_mutating(&self, tool: &str) -> bool {
        self.looping()
            .is_some_and(|looping| looping.mutating.iter().any(|name| name == tool))
    }

    // --- conditions ---------------------------------------------------------------------------------------------

    /// Why the model must not be asked again.
    pub(super) fn stop(&self) -> Option<Outcome> {
        let plan = &self.plan;
        if self.turn.steps >= plan.max_turns {
            return Some(self.too_many_steps());
        }
        if plan.budget && !self.turn.bill.is_priced() {
            return Some(blame::unpriced());
        }
        if let (Some(most), Some(spent)) = (plan.max_cost, self.turn.bill.cost())
            && self.looping().is_some()
            && spent >= most
        {
            let message = format!("The loop has cost ${spent:.4}; its limit is ${most}.");
            return Some(
                blame::ending(Cause::Budget, &message, "cost")
                    .hint("Raise the budget (--max-budget-usd)."),
            );
        }
        let (input, output) = self.turn.bill.tokens();
        let spent = [
            (
                plan.max_input_tokens,
                input,
                "input_tokens",
                "--max-input-tokens",
            ),
            (
                plan.max_output_tokens,
                output,
                "output_tokens",
                "--max-output-tokens",
            ),
        ];
        for (most, spent, word, flag) in spent {
            let Some(most) = most else { continue };
            let words = word.replace('_', " ");
            if self.turn.bill.is_uncounted() {
                let message =
                    format!("The limit on {words} cannot be kept: the model does not count them.");
                let hint = format!("Leave out the limit ({flag}), or use another model.");
                return Some(blame::ending(Cause::Budget, &message, word).hint(hint));
            }
            if spent >= most {
                let message = format!("The loop has used {spent} {words}; its limit is {most}.");
                return Some(
                    blame::ending(Cause::Budget, &message, word)
                        .hint(format!("Allow more tokens ({flag}).")),
                );
            }
        }
        None
    }

    /// Whether these calls are more than the loop may make.
    pub(super) fn too_many_calls(&mut self, calls: usize) -> Option<Outcome> {
        self.turn.calls = self.turn.calls.saturating_add(calls as u64);
        let most = self
            .plan
            .max_tool_calls
            .filter(|most| self.turn.calls > *most)?;
        let message = format!("The model wanted to make more than {most} tool calls.");
        Some(
            blame::ending(Cause::TurnLimit, &message, "tool_calls")
                .hint("Allow more tool calls (--max-tool-calls)."),
        )
    }

    /// An answer came to nothing. It is given back when the model is not asked again.
    pub(super) fn again(
        &mut self,
        reply: Reply,
        outcome: &Outcome,
        out: &mut Outbox,
    ) -> Option<Reply> {
        if self.looping().is_none() {
            return Some(reply);
        }
        // What it has cost nobody knows; a limit cannot be kept any more.
        self.turn.bill.incomplete |= reply.spent.is_none();
        self.turn.errors += 1;
        if !is_worth_another(outcome)
            || self.turn.errors >= self.plan.max_errors
            || self.stop().is_some()
        {
            return Some(reply);
        }
        let (text, _) = reply.into_parts();
        self.keep(&text, &[]);
        let message = format!(
            "The model's answer came to nothing ({}): {}",
            self.turn.errors, outcome.message
        );
        let told = format!(
            "Your last answer came to nothing: {} Go on.",
            outcome.message
        );
        self.tell(
            Notice::new(Level::Warning, codes::ANSWER_FAILED, message),
            (!text.is_empty()).then_some(told),
            out,
        );
        self.tell_usage(out);
        self.ask(out);
        None
    }

    /// There is no summary. In a loop the conversation then stays as it is, and the loop goes on. True when it does.
    pub(super) fn without_summary(&mut self, outcome: &Outcome, out: &mut Outbox) -> bool {
        self.turn.errors += 1;
        let goes_on = self.looping().is_some()
            && is_worth_another(outcome)
            && self.turn.errors < self.plan.max_errors
            && self.stop().is_none();
        if goes_on {
            let message = format!(
                "The context is nearly full, and there is no summary of it: {}",
                outcome.message
            );
            out.notice(Level::Warning, "context_not_summarised", message);
            self.ask(out);
        }
        goes_on
    }

    /// All tools of a step are through. An ending when too many steps in a row came to nothing.
    pub(super) fn tools_failed(&mut self) -> Option<Outcome> {
        let failed = std::mem::take(&mut self.turn.failed_step);
        self.turn.errors = if failed { self.turn.errors + 1 } else { 0 };
        self.turn.any_worked = false;
        if self.looping().is_none() || self.turn.errors < self.plan.max_errors {
            return None;
        }
        let message = format!("The tools failed in {} steps in a row.", self.turn.errors);
        Some(
            blame::ending(Cause::TurnLimit, &message, "errors")
                .hint("Allow more failed steps (--max-errors), or give another task."),
        )
    }

    /// Takes note of what became of a call.
    pub(super) fn note_result(&mut self, ok: bool, denied: bool) {
        self.turn.any_worked |= ok || denied;
        self.turn.failed_step = !self.turn.any_worked;
    }

    // --- hooks --------------------------------------------------------------------------------------------------

    /// Lets the caller's hooks have their say, and then goes on.
    pub(super) fn hook(&mut self, when: When, next: Next, out: &mut Outbox) {
        // Calls that a person approved are made before the first round.
        let is_round = when == When::Before || self.turn.steps > 0;
        if !(is_round && self.looping().is_some_and(|looping| looping.hooks)) {
            return self.proceed(next, out);
        }
        let iteration = if when == When::Before {
            self.turn.steps + 1
        } else {
            self.turn.steps
        };
        self.phase = Phase::Hooked(next);
        order(&Order::Hook { when, iteration }, out);
    }

    pub(super) fn flow(&mut self, flow: Flow, out: &mut Outbox) {
        let next = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Hooked(next) => next,
            // It comes too late: the turn is being called off.
            other => return self.phase = other,
        };
        match flow {
            Flow::Go => self.proceed(next, out),
            Flow::Say(text) => {
                self.tell(
                    Notice::new(
                        Level::Warning,
                        codes::HOOK_SAID,
                        "The caller's hook has something to say to the model.",
                    ),
                    Some(text),
                    out,
                );
                // Whoever is told something answers it.
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
                self.end(blame::ending(Cause::Stopped, &why, "hook"), text, out);
            }
        }
    }

    fn proceed(&mut self, next: Next, out: &mut Outbox) {
        match next {
            Next::Ask => self.call_model(out),
            Next::Round => match self.stop() {
                Some(outcome) => self.end(outcome, None, out),
                None => {
                    self.tell_usage(out);
                    self.ask(out);
                }
            },
            Next::Finish(text, structured)
                if self.looping().is_some_and(|looping| looping.verifies) =>
            {
                out.notice(Level::Debug, "verifying", "The result is checked.");
                order(&Order::Verify(text.clone()), out);
                self.phase = Phase::Verifying(text, structured);
            }
            Next::Finish(text, _) if !self.steered.is_empty() => self.go_on(text, out),
            Next::Finish(text, structured) => self.complete(text, structured, out),
        }
    }

    // --- the check ----------------------------------------------------------------------------------------------

    /// What the check of the result came to: nothing to say against it, or the reason.
    pub(super) fn verified(&mut self, fault: Option<String>, out: &mut Outbox) {
        let (text, structured) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Verifying(text, structured) => (text, structured),
            other => return self.phase = other,
        };
        let Some(why) = fault else {
            out.notice(
                Level::Info,
                "verified",
                "The result was checked, and it is right.",
            );
            // What came in between is not done yet, and then it is checked again.
            return if self.steered.is_empty() {
                self.complete(text, structured, out)
            } else {
                self.go_on(text, out)
            };
        };
        let message = format!(
            "The result was checked, and it is not right: {}",
            why.lines().next().unwrap_or_default()
        );
        let told = format!(
            "Your work was checked, and it is not done yet. The check says:\n\n{why}\n\nGo on until it passes."
        );
        self.tell(
            Notice::new(Level::Warning, codes::NOT_VERIFIED, message),
            Some(told),
            out,
        );
        match self.stop() {
            Some(outcome) => self.end(outcome, Some(text), out),
            None => {
                self.tell_usage(out);
                self.ask(out);
            }
        }
    }

    /// Tells the caller, and the model where there is something to tell it.
    fn tell(&mut self, notice: Notice, told: Option<String>, out: &mut Outbox) {
        let raw = told.as_deref().map(RawJson::string);
        out.event(Notice { raw, ..notice });
        self.history.0.extend(told.map(Message::Told));
    }

    // --- a person -----------------------------------------------------------------------------------------------

    /// Keeps calls that change something from being made in plan mode.
    pub(super) fn only_planned(&mut self, calls: &[Call], out: &mut Outbox) {
        if self.plan.mode != Mode::Plan {
            return;
        }
        for call in calls {
            if self.is_mutating(&call.name) {
                out.event(decided(call, Decision::Denied, DecidedBy::Rule, Some(PLAN)));
                self.turn.refused.insert(call.id.clone(), PLAN.to_owned());
            }
        }
    }

    /// Whether a call must be approved by a person before it is made.
    pub(super) fn needs_approval(&self, call: &Call) -> bool {
        self.plan.mode == Mode::Approve
            && self.is_mutating(&call.name)
            && !self.turn.approved.contains(&call.id)
    }

    /// What the turn cannot go on without, once its tools are through.
    pub(super) fn needs_input(&mut self) -> Option<Outcome> {
        let mut needs = std::mem::take(&mut self.turn.questions);
        if self.pending.is_empty() {
            let hint = "Send the answer as the next message.";
            return (!needs.is_empty()).then(|| {
                blame::ending(Cause::NeedsInput, &needs.join("\n"), "question").hint(hint)
            });
        }
        let names: Vec<&str> = self.pending.iter().map(|call| call.name.as_str()).collect();
        needs.push(format!(
            "These calls wait for approval: {}.",
            names.join(", ")
        ));
        let hint = "Answer \"approve\" to have them made, or say what to do instead.";
        Some(blame::ending(Cause::NeedsInput, &needs.join("\n"), "approval").hint(hint))
    }

    /// A person's answer to the question whether calls may be made. True when they are.
    pub(super) fn approved(&mut self, answer: &str, out: &mut Outbox) -> bool {
        let mut calls = std::mem::take(&mut self.pending);
        let word = answer.trim().trim_end_matches(['.', '!']).to_lowercase();
        if calls.is_empty() || !["approve", "approved", "yes", "y", "ok", "allow"].contains(&&*word)
        {
            return false;
        }
        self.name(&mut calls);
        self.keep("", &calls);
        for call in &calls {
            out.event(called(call));
            out.event(decided(call, Decision::Allowed, DecidedBy::Person, None));
        }
        self.turn
            .approved
            .extend(calls.iter().map(|call| call.id.clone()));
        self.permitted(calls, out);
        true
    }
}

/// A call, as it is told.
pub(super) fn called(call: &Call) -> ToolCall {
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

/// What was decided on a call without the session.
fn decided(call: &Call, decision: Decision, by: DecidedBy, why: Option<&str>) -> Permission {
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

/// Whether another attempt can help. An agent that acted on its own has broken its contract, and may do so again.
fn is_worth_another(outcome: &Outcome) -> bool {
    let native = outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.as_deref());
    native != Some("own_tool")
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
