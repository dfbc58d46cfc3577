//! The tool loop without I/O: what to request from the model, how to interpret its answer, and when
//! a turn is over.
//!
//! The runner that calls the model and runs tools is elsewhere; the two communicate through
//! [`runner_protocol`](super::runner_protocol).

mod ending;
mod steering;
mod agent_loop;
mod compaction;
mod tools;

use std::collections::{HashMap, HashSet};

use ostler_core::dialect::{Action, Conversation, Exit, FromConversation, Outbox, ToAgent};
use ostler_core::event::{Event, EventKind, Level, Notice, NoticeCode, Started};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::usage::Usage;

use crate::calls::Call;
use crate::config::LoopConfig;
use crate::context::Meter;
use crate::history::{Entry, History};
use crate::message::{Message, ToolRequest};
use crate::part::{Finish, Part};
use crate::prices::Price;
use crate::reply::{PartialReply, ReplyContent};
use crate::request::ModelRequest;
use crate::runner_protocol::{
    Ready, Retrying, RunnerCommand, RunnerEvent, RunnerLine, ToolOutcome, When,
};
use crate::usage::TurnUsage;
use crate::{openai, rebuild, structured, system};
use agent_loop::{Next, QUESTION_FORWARDED};
use tools::{Approval, UndecidedCalls};

/// Maximum number of retries for an answer that does not match the schema.
const SCHEMA_TRIES: u32 = 2;

/// One session with a model.
pub struct ModelConversation {
    config: LoopConfig,
    ready: Option<Ready>,
    /// Whether the runner failed to get ready.
    not_ready: bool,
    system: String,
    history: History,
    meter: Meter,
    phase: Phase,
    /// Model selected by the caller during the session.
    model: Option<String>,
    /// Steering messages that are not in a request yet.
    steered: Vec<String>,
    turn: Turn,
    turns: u64,
    /// Calls that wait for a person's approval.
    pending: Vec<Call>,
    /// Ids of the approved calls, until the runner is ready.
    approved: Option<Vec<String>>,
    /// Ids of tool calls used so far: some servers restart their numbering with each answer.
    ids: HashSet<String>,
}

/// What the conversation is waiting for.
enum Phase {
    /// The next prompt.
    Idle,
    /// The runner.
    Waiting,
    /// The model's answer.
    Answering(Box<PartialReply>),
    /// The model's summary of everything before this message.
    Summarising(Box<PartialReply>, usize),
    /// Permission to run tools.
    Deciding(UndecidedCalls),
    /// Tool results.
    Working(Vec<Call>),
    /// The caller's hooks.
    Hooked(Next),
    /// Verification of this answer.
    Verifying(String, Option<RawJson>),
    /// The runner to cancel, along with these running tools.
    Cancelling(Vec<Call>),
}

/// State of a turn.
#[derive(Default)]
struct Turn {
    steps: u64,
    usage: TurnUsage,
    denied: Vec<String>,
    /// Calls denied by the session, with the message for the model.
    refused: HashMap<String, String>,
    schema_tries: u32,
    /// Step before which the conversation was last summarized.
    summarised: Option<u64>,
    /// What was done after the server reported that the conversation is too long.
    compaction: Compaction,
    /// Number of tool calls.
    calls: u64,
    /// Number of consecutive failed steps.
    errors: u32,
    /// Whether a call of this step succeeded, and whether all of them failed.
    any_worked: bool,
    failed_step: bool,
    /// Questions to a person in an unattended session.
    questions: Vec<String>,
    /// Ids of calls that a person approved.
    approved: HashSet<String>,
    /// Running tools that wait for a person's approval, by request id.
    approvals: HashMap<String, Approval>,
    /// Last step that was emitted.
    emitted_step: u64,
}

/// What was done about a conversation that is too long.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Compaction {
    #[default]
    Not,
    Shortened,
    Summarised,
}

impl ModelConversation {
    /// Creates a conversation, continuing from the given events.
    #[must_use]
    pub fn new(config: LoopConfig, past: &[Event]) -> Self {
        let history = History::rebuild(past.iter().map(|event| &event.kind));
        // Ids and names continue too, so that none is used twice.
        let call = |event: &Event| {
            if let EventKind::ToolCall(call) = &event.kind {
                Some(call.id.clone())
            } else {
                None
            }
        };
        let begins = |event: &&Event| matches!(event.kind, EventKind::TurnStarted(_));
        Self {
            model: config.model.clone(),
            config,
            ready: None,
            not_ready: false,
            system: String::new(),
            history,
            meter: Meter::default(),
            phase: Phase::Idle,
            steered: Vec::new(),
            pending: rebuild::pending(past),
            approved: None,
            turn: Turn::default(),
            turns: past.iter().filter(begins).count() as u64,
            ids: past.iter().filter_map(call).collect(),
        }
    }

    // --- Requests ---

    /// Requests the next answer, after making room in the context if necessary.
    fn request_answer(&mut self, out: &mut Outbox) {
        if self.ready.is_none() {
            self.phase = Phase::Waiting;
            if std::mem::take(&mut self.not_ready) {
                send_command(&RunnerCommand::Introduce, out);
            }
            return;
        }
        self.take_steered(out);
        if self.is_full() {
            self.shorten(out);
        }
        // Once per step: if one summary does not help, another will not either.
        if self.is_full() && self.turn.summarised != Some(self.turn.steps) && self.summarise(out) {
            return;
        }
        self.hook(When::Before, Next::Ask, out);
    }

    fn call_model(&mut self, out: &mut Outbox) {
        self.turn.steps += 1;
        // Once per step, even if it is retried with a shorter conversation.
        if self.agent_loop().is_some() && self.turn.emitted_step < self.turn.steps {
            self.turn.emitted_step = self.turn.steps;
            out.notice(
                Level::Debug,
                NoticeCode::Iteration,
                format!("Iteration {}.", self.turn.steps),
            );
        }
        self.phase = Phase::Answering(self.new_reply());
        let tools = self.ready.iter().flat_map(|ready| &ready.tools);
        let request = ModelRequest {
            model: self.model().to_owned(),
            messages: self
                .system_message()
                .chain(self.history.messages())
                .collect(),
            tools: tools.cloned().collect(),
            schema: self.config.json_schema.clone(),
        };
        send_command(&RunnerCommand::Call(request), out);
    }

    fn system_message(&self) -> impl Iterator<Item = Message> {
        let text = Some(&*self.system).filter(|text| !text.is_empty());
        text.map(Message::system).into_iter()
    }

    fn new_reply(&self) -> Box<PartialReply> {
        let message = format!("{}.{}", self.turns, self.turn.steps);
        Box::new(PartialReply::new(message, self.model()))
    }

    // --- Answers ---

    fn on_parts(&mut self, line: &str, parts: Vec<Part>, out: &mut Outbox) {
        if matches!(self.phase, Phase::Idle) && parts.iter().any(Part::is_content) {
            // Only a recording contains an answer without a request.
            self.reset_turn();
            out.push(FromConversation::TurnStarted);
            self.turn.steps += 1;
            self.phase = Phase::Answering(self.new_reply());
        }
        match &mut self.phase {
            Phase::Answering(reply) => reply.push(parts, |text| out.event(text)),
            Phase::Summarising(reply, _) => reply.push(parts, |_| {}),
            Phase::Cancelling(_) => {} // the rest of a cancelled answer
            _ if parts == [Part::Done] => {}
            _ => out.unreadable(line, "no request is pending"),
        }
    }

    fn on_bad_chunk(&mut self, line: &str, error: &serde_json::Error, out: &mut Outbox) {
        match &mut self.phase {
            Phase::Answering(reply) | Phase::Summarising(reply, _) => reply.push_unreadable(),
            Phase::Cancelling(_) => return,
            _ => {}
        }
        out.unreadable(line, &format!("not a chunk of an answer: {error}"));
    }

    /// Handles the end of an answer.
    fn on_answer_end(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Answering(reply) => {
                self.measure(&reply);
                self.record_usage(&reply, out);
                match reply.unfinished() {
                    Some(outcome) => self.on_broken_answer(*reply, outcome, out),
                    None => self.on_answer(*reply, out),
                }
            }
            Phase::Summarising(reply, cut) => {
                self.record_usage(&reply, out);
                match reply.unfinished() {
                    Some(outcome) if self.on_failed_summary(&outcome, out) => {}
                    Some(outcome) => self.end(outcome, None, out),
                    None => self.on_summary(cut, *reply, out),
                }
            }
            other => self.phase = other,
        }
    }

    /// Adds the usage of an answer to the turn. An answer cancelled before its first text is not
    /// counted.
    fn add_usage(&mut self, reply: &PartialReply) {
        self.turn.usage.open |= reply.usage_later;
        if !reply.has_begun || reply.usage_later {
            return;
        }
        let Some(ready) = &self.ready else { return };
        let listed = || Price::listed(reply.model()).filter(|_| ready.official);
        let price = self
            .config
            .price
            .filter(|_| self.is_first(reply.requested_model()))
            .or_else(listed);
        self.turn.usage.add(&reply.usage, reply.model(), price);
    }

    /// Adds the usage of an answer to the turn, and reports that it is missing.
    fn record_usage(&mut self, reply: &PartialReply, out: &mut Outbox) {
        let missed = self.ready.as_ref().is_some_and(|ready| !ready.uncounted)
            && !self.turn.usage.incomplete
            && !self.covers_more(reply);
        self.add_usage(reply);
        if reply.usage.is_empty() && missed && reply.has_begun {
            let message = "The server did not report the tokens of an answer; the turn's usage is \
                incomplete.";
            out.warn(NoticeCode::UsageMissing, message);
        }
    }

    /// Updates the context meter with the usage of an answer.
    fn measure(&mut self, reply: &PartialReply) {
        if !self.covers_more(reply) && !reply.usage.is_empty() {
            let tokens = reply.usage.iter().filter_map(Usage::total);
            let tokens = tokens.fold(0, u64::saturating_add);
            self.meter.record(tokens, &self.history);
        }
    }

    /// Returns true if the next usage covers several answers, which says nothing about the context
    /// window.
    fn covers_more(&self, reply: &PartialReply) -> bool {
        self.turn.usage.open || reply.usage_later
    }

    /// Handles a complete answer: runs its tools, or ends the turn.
    fn on_answer(&mut self, reply: PartialReply, out: &mut Outbox) {
        self.turn.compaction = Compaction::Not;
        let finish = reply.finish().cloned();
        let (refused, too_many_calls) = (reply.is_refused(), reply.exceeds_limits());
        let ReplyContent { text, mut calls } = reply.into_content();
        // Arguments that have not started are truncated too.
        let whole = |call: &Call| !call.arguments.trim().is_empty() && call.input().is_ok();
        let cut_short = finish == Some(Finish::Length) && !calls.last().is_some_and(whole);
        let native = |outcome: Outcome| match finish {
            Some(finish) => outcome.with(|detail| detail.native = Some(finish.into())),
            None => outcome,
        };
        let ending = if refused {
            let outcome = Outcome::new(Cause::Refused, "The model refused to answer.");
            Some(native(outcome))
        } else if cut_short || too_many_calls {
            let message = "The answer reached the model's output limit.";
            let outcome = Outcome::new(Cause::OutputLimit, message);
            Some(native(outcome.hint("Allow more (--set max_tokens=…).")))
        } else if !calls.is_empty() && self.config.has_budget && !self.turn.usage.is_priced() {
            Some(unpriced())
        } else {
            None
        };
        if let Some(outcome) = ending {
            self.record_answer(&text, &[]); // calls that were not emitted were not made
            return self.end(outcome, Some(text), out);
        }
        self.assign_ids(&mut calls);
        self.record_answer(&text, &calls);
        // Ignores `finish_reason`, which servers get wrong.
        if calls.is_empty() {
            self.final_answer(text, out);
        } else {
            self.on_tool_calls(calls, out);
        }
    }

    fn assign_ids(&mut self, calls: &mut [Call]) {
        for (n, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty() || self.ids.contains(&call.id) {
                let stem = if call.id.is_empty() { "call" } else { &call.id };
                call.id = format!("{stem}_{}_{}_{}", self.turns, self.turn.steps, n + 1);
            }
            self.ids.insert(call.id.clone());
        }
    }

    /// Adds the model's answer to the history.
    fn record_answer(&mut self, text: &str, calls: &[Call]) {
        if text.is_empty() && calls.is_empty() {
            return;
        }
        // Servers reject a conversation with arguments that are not JSON, even if they wrote them.
        let calls = calls.iter().map(|call| ToolRequest {
            id: call.id.clone(),
            name: call.name.clone(),
            args: call.input().unwrap_or_else(|_| RawJson::empty_object()),
        });
        self.history.push(Entry::Assistant {
            text: text.to_owned(),
            calls: calls.collect(),
        });
    }

    fn final_answer(&mut self, text: String, out: &mut Outbox) {
        self.turn.errors = 0;
        if !self.steered.is_empty() {
            return self.next_round(Some(text), out);
        }
        let Some(schema) = self.config.json_schema.clone() else {
            return self.hook(When::After, Next::Finish(text, None), out);
        };
        let checked = structured::check(&schema, &text);
        if let (Err(_), Some(outcome)) = (&checked, self.stop_condition()) {
            return self.end(outcome, Some(text), out);
        }
        match checked {
            Ok(value) => self.hook(When::After, Next::Finish(text, Some(value)), out),
            Err(why) if why.is_answers_fault() && self.turn.schema_tries < SCHEMA_TRIES => {
                self.turn.schema_tries += 1;
                let message = format!("The answer does not match the schema: {why}.");
                let question = format!(
                    "Your answer does not match the schema: {why}. Answer again with only JSON \
                     that matches this schema: {}",
                    schema.get()
                );
                let raw = Some(RawJson::string(&question));
                out.event(Notice {
                    raw,
                    ..Notice::new(Level::Warning, NoticeCode::SchemaNotKept, message)
                });
                self.history.push(Entry::Injected(question));
                self.emit_usage(out);
                self.request_answer(out);
            }
            Err(why) => {
                let message = format!("The model's answer does not match the schema: {why}.");
                let outcome = Outcome::new(Cause::Protocol, message)
                    .hint("Try a simpler schema, or another model.");
                self.end(outcome, Some(text), out);
            }
        }
    }

    // --- Runner events ---

    fn reset_turn(&mut self) {
        self.turns += 1;
        self.turn = Turn::default();
    }

    fn on_runner_event(&mut self, line: &str, event: RunnerEvent, out: &mut Outbox) {
        match event {
            RunnerEvent::Ready(ready) => self.on_ready(ready, out),
            RunnerEvent::Parts(parts) => self.on_parts(line, parts, out),
            RunnerEvent::Over => self.on_answer_end(out),
            RunnerEvent::Failed(failed) => self.on_failure(&failed, out),
            RunnerEvent::Retrying(retrying) => {
                out.warn(NoticeCode::Retrying, retry_message(&retrying));
            }
            RunnerEvent::Alive => {}
            RunnerEvent::Progress(message) => {
                out.notice(Level::Info, NoticeCode::ToolProgress, message);
            }
            RunnerEvent::Result(outcome) => self.on_result(outcome, out),
            RunnerEvent::Unanswered { id, question } => {
                self.turn.questions.push(question);
                self.on_result(
                    ToolOutcome {
                        id,
                        ok: true,
                        denied: false,
                        output: QUESTION_FORWARDED.to_owned(),
                    },
                    out,
                );
            }
            RunnerEvent::NeedsApproval { id, paths, output } => {
                self.on_approval_needed(Approval { id, paths, output }, out);
            }
            RunnerEvent::Flow(flow) => self.on_flow(flow, out),
            RunnerEvent::Verified(failure) => self.on_verified(failure, out),
            RunnerEvent::Cancelled if matches!(self.phase, Phase::Idle | Phase::Waiting) => {}
            RunnerEvent::Cancelled => {
                self.interrupt(out); // a recording has no interrupt from the caller
                self.end_interrupted(out);
            }
        }
    }

    fn on_ready(&mut self, ready: Ready, out: &mut Outbox) {
        self.system = system::prompt(&self.config, &ready);
        out.event(Started {
            agent: self.config.agent.to_owned(),
            agent_version: None,
            native_session: None,
            model: Some(self.model.as_ref().unwrap_or(&ready.model).clone())
                .filter(|model| !model.is_empty()),
            cwd: Some(ready.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            tools: ready.tools.iter().map(|tool| tool.name.clone()).collect(),
        });
        out.events(ready.notices.iter().cloned());
        self.ready = Some(ready);
        if matches!(self.phase, Phase::Waiting) {
            self.start_turn(out);
        }
    }

    /// Starts a turn, with the approved calls or with a request.
    fn start_turn(&mut self, out: &mut Outbox) {
        match self.approved.take_if(|_| self.ready.is_some()) {
            Some(ids) => self.on_approved(&ids, out),
            None => self.request_answer(out),
        }
    }
}

impl Conversation for ModelConversation {
    fn on_start(&mut self, _: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.reset_turn();
                self.pending.clear(); // text never approves a call
                self.history.push(Entry::User(prompt));
                self.start_turn(out);
            }
            ToAgent::Approve(ids) => {
                self.reset_turn();
                self.approved = Some(ids);
                self.start_turn(out);
            }
            ToAgent::Steer(text) => self.steer(text, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => self.on_verdict(&id, verdict, out),
            ToAgent::Change { id, change } => self.change(id, change, out),
            // The runner runs the caller's tools itself; the session is never asked to.
            ToAgent::ToolDone { .. } | ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } => {}
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        if RunnerLine::is_event(line) {
            match serde_json::from_str::<RunnerLine>(line) {
                Ok(event) => self.on_runner_event(line, event.ostler, out),
                Err(error) => out.unreadable(line, &format!("not a runner event: {error}")),
            }
        } else {
            match openai::decode(line) {
                Ok(parts) => self.on_parts(line, parts, out),
                Err(error) => self.on_bad_chunk(line, &error, out),
            }
        }
    }

    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}

fn send_command(command: &RunnerCommand, out: &mut Outbox) {
    out.push(Action::Write(
        format!("{}\n", RawJson::of(command).get()).into_bytes(),
    ));
}

fn retry_message(retrying: &Retrying) -> String {
    let Retrying {
        attempt,
        of,
        after_ms,
        why,
    } = retrying;
    let seconds = *after_ms as f64 / 1000.0;
    let why = why.outcome().message;
    format!("Attempt {attempt} of {of} failed; retrying in {seconds:.1} s. {why}")
}

/// Returns the outcome for a budget that cannot be enforced.
fn unpriced() -> Outcome {
    Outcome::new(
        Cause::Budget,
        "The budget cannot be enforced because the model's price is unknown.",
    )
    .hint(
        "Set the price in dollars per million tokens (--set price=INPUT/OUTPUT), or remove the \
         budget (--max-budget-usd).",
    )
}
