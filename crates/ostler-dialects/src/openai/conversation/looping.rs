//! The outer loop: what is done around the model's answers. Conditions that stop it, hooks between two answers, a check of the
//! result, a person who is asked or who approves.

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice, ToolCall};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw::Raw;

use super::{Phase, Talk, order};
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
    Finish(String, Option<Raw>),
}

/// What the model is told of a question that nobody answered.
pub(super) const ASKED: &str = "The question was put to the person. The answer is the next message.";

/// What the model is told of a call that changes something.
const PLAN: &str = "denied: this is plan mode, nothing is to be changed. Say what you would do instead.";

impl Talk {
    /// What there is around the loop.
    pub(super) fn looping(&self) -> Option<&Looping> {
        self.ready.as_ref().and_then(|ready| ready.looping.as_ref())
    }

    /// Whether a tool changes something, as far as is known.
    fn is_mutating(&self, tool: &str) -> bool {
        self.looping().is_some_and(|looping| looping.mutating.iter().any(|name| name == tool))
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
        let (input, output) = self.turn.bill.tokens();
        let spent = [
            (plan.max_input_tokens, input, "input_tokens", "input tokens"),
            (plan.max_output_tokens, output, "output_tokens", "output tokens"),
        ];
        for (most, spent, word, words) in spent {
            let Some(most) = most else { continue };
            if self.turn.bill.incomplete {
                let message = format!("The limit on {words} cannot be kept: the model does not count them.");
                return Some(
                    blame::ending(Cause::Budget, &message, word).hint("Leave out the limit, or use another model."),
                );
            }
            if spent >= most {
                let message = format!("The loop has used {spent} {words}; its limit is {most}.");
                return Some(blame::ending(Cause::Budget, &message, word));
            }
        }
        None
    }

    /// Whether these calls are more than the loop may make.
    pub(super) fn too_many_calls(&mut self, calls: usize) -> Option<Outcome> {
        self.turn.calls = self.turn.calls.saturating_add(calls as u64);
        let most = self.plan.max_tool_calls.filter(|most| self.turn.calls > *most)?;
        let message = format!("The model wanted to make more than {most} tool calls.");
        Some(blame::ending(Cause::TurnLimit, &message, "tool_calls"))
    }

    /// An answer came to nothing. It is given back when the model is not asked again.
    pub(super) fn again(&mut self, reply: Reply, outcome: &Outcome, out: &mut Outbox) -> Option<Reply> {
        let worth = matches!(
            outcome.cause,
            Cause::Protocol
                | Cause::AgentDied
                | Cause::WallLimit
                | Cause::IdleLimit
                | Cause::StartupLimit
                | Cause::OutputLimit
        );
        self.turn.errors += 1;
        if !worth || self.turn.errors >= self.plan.max_errors || self.stop().is_some() {
            return Some(reply);
        }
        let (text, _) = reply.into_parts();
        self.keep(&text, &[]);
        let message = format!("The model's answer came to nothing ({}): {}", self.turn.errors, outcome.message);
        let told = format!("Your last answer came to nothing: {} Go on.", outcome.message);
        self.tell(codes::ANSWER_FAILED, message, (!text.is_empty()).then_some(told), out);
        self.tell_usage(out);
        self.ask(out);
        None
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
        Some(blame::ending(Cause::TurnLimit, &message, "errors"))
    }

    /// Takes note of what became of a call.
    pub(super) fn note_result(&mut self, ok: bool, denied: bool) {
        self.turn.any_worked |= ok || denied;
        self.turn.failed_step = !self.turn.any_worked;
    }

    // --- hooks --------------------------------------------------------------------------------------------------

    /// Lets the caller's hooks have their say, and then goes on.
    pub(super) fn hook(&mut self, when: When, next: Next, out: &mut Outbox) {
        if !self.looping().is_some_and(|looping| looping.hooks) {
            return self.proceed(next, out);
        }
        let iteration = if when == When::Before { self.turn.steps + 1 } else { self.turn.steps };
        self.phase = Phase::Hooked(next);
        order(&Order::Hook { when, iteration }, out);
    }

    pub(super) fn flow(&mut self, flow: Flow, out: &mut Outbox) {
        let Phase::Hooked(next) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        match flow {
            Flow::Go => self.proceed(next, out),
            Flow::Say(text) => {
                self.tell(
                    codes::HOOK_SAID,
                    "The caller's hook has something to say to the model.".into(),
                    Some(text),
                    out,
                );
                // Whoever is told something answers it.
                let next = if let Next::Finish(..) = next { Next::Round } else { next };
                self.proceed(next, out);
            }
            Flow::Stop(why) => {
                let text = if let Next::Finish(text, _) = next { Some(text) } else { None };
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
            Next::Finish(text, structured) if self.looping().is_some_and(|looping| looping.verifies) => {
                out.notice(Level::Debug, "verifying", "The result is checked.");
                order(&Order::Verify(text.clone()), out);
                self.phase = Phase::Verifying(text, structured);
            }
            Next::Finish(text, structured) => self.complete(text, structured, out),
        }
    }

    // --- the check ----------------------------------------------------------------------------------------------

    /// What the check of the result came to: nothing to say against it, or the reason.
    pub(super) fn verified(&mut self, fault: Option<String>, out: &mut Outbox) {
        let Phase::Verifying(text, structured) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        let Some(why) = fault else {
            out.notice(Level::Info, "verified", "The result was checked, and it is right.");
            return self.complete(text, structured, out);
        };
        let message =
            format!("The result was checked, and it is not right: {}", why.lines().next().unwrap_or_default());
        let told = format!(
            "Your work was checked, and it is not done yet. The check says:\n\n{why}\n\nGo on until it passes."
        );
        self.tell(codes::NOT_VERIFIED, message, Some(told), out);
        match self.stop() {
            Some(outcome) => self.end(outcome, Some(text), out),
            None => {
                self.tell_usage(out);
                self.ask(out);
            }
        }
    }

    /// Tells the caller, and the model where there is something to tell it.
    fn tell(&mut self, code: &str, message: String, told: Option<String>, out: &mut Outbox) {
        let raw = told.as_deref().map(Raw::string);
        out.event(Notice { raw, ..Notice::new(Level::Warning, code, message) });
        self.history.0.extend(told.map(Message::User));
    }

    // --- a person -----------------------------------------------------------------------------------------------

    /// Keeps calls that change something from being made in plan mode.
    pub(super) fn only_planned(&mut self, calls: &[Call]) {
        if self.plan.mode != Mode::Plan {
            return;
        }
        let changes: Vec<String> = calls.iter().filter(|c| self.is_mutating(&c.name)).map(|c| c.id.clone()).collect();
        self.turn.refused.extend(changes.into_iter().map(|id| (id, PLAN.to_owned())));
    }

    /// Whether a call must be approved by a person before it is made.
    pub(super) fn needs_approval(&self, tool: &str) -> bool {
        self.plan.mode == Mode::Approve && self.is_mutating(tool)
    }

    /// What the turn cannot go on without, once its tools are through.
    pub(super) fn needs_input(&mut self) -> Option<Outcome> {
        if !self.pending.is_empty() {
            let names: Vec<&str> = self.pending.iter().map(|call| call.name.as_str()).collect();
            let message = format!("These calls wait for approval: {}.", names.join(", "));
            let hint = "Answer \"approve\" to have them made, or say what to do instead.";
            return Some(blame::ending(Cause::NeedsInput, &message, "approval").hint(hint));
        }
        let question = self.turn.question.take()?;
        Some(blame::ending(Cause::NeedsInput, &question, "question").hint("Send the answer as the next message."))
    }

    /// A person's answer to the question whether calls may be made.
    pub(super) fn approved(&mut self, answer: &str, out: &mut Outbox) -> bool {
        let pending = std::mem::take(&mut self.pending);
        let word = answer.trim().trim_end_matches(['.', '!']).to_lowercase();
        if pending.is_empty() || !["approve", "approved", "yes", "y", "ok", "allow"].contains(&&*word) {
            return false;
        }
        let mut calls = pending;
        self.name(&mut calls);
        self.keep("", &calls);
        for call in &calls {
            let input = call.input().unwrap_or_else(|_| Raw::string(&call.arguments));
            out.event(ToolCall { id: call.id.clone(), name: call.name.clone(), input, parent: None });
        }
        self.run(calls, out);
        true
    }
}
