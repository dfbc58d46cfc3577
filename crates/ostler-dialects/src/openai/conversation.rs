//! The tool loop, as pure thinking: what to ask the model, what its answer means, when a turn is over.
//!
//! The body that calls the model and runs tools is elsewhere; the two talk in [`orders`](super::orders).

mod ending;
mod live;
mod looping;
mod room;
mod tools;

use std::collections::{HashMap, HashSet};

use ostler_core::dialect::{Conversation, Exit, FromConversation, Outbox, ToAgent};
use ostler_core::event::{Event, EventKind, Level, Notice, Started};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;

use super::calls::Call;
use super::chunk::Chunk;
use super::context::Meter;
use super::history::{Called, History, Message};
use super::orders::{Line, Order, Ready, Retrying, When, Word};
use super::plan::Plan;
use super::prices::Price;
use super::rebuild::codes;
use super::reply::{Audience, Reply};
use super::request::Request;
use super::usage::Bill;
use super::{blame, rebuild, structured, system};
use looping::{ASKED, Next};
use tools::{Approval, Asking};

/// How often an answer that does not keep to the schema is sent back.
const SCHEMA_TRIES: u32 = 2;

/// One session with a model.
pub(super) struct ModelConversation {
    plan: Plan,
    ready: Option<Ready>,
    /// Whether the body tried to say what is there, and could not.
    unintroduced: bool,
    system: String,
    history: History,
    meter: Meter,
    phase: Phase,
    /// The model that the caller changed to.
    model: Option<String>,
    /// Messages for the turn under way that are in no request yet.
    steered: Vec<String>,
    turn: Turn,
    turns: u64,
    /// Calls that wait for a person's approval, and the message that may be it.
    pending: Vec<Call>,
    answer: Option<String>,
    /// Ids of tool calls that were used: servers exist that begin anew with each answer.
    ids: HashSet<String>,
}

/// What is awaited.
enum Phase {
    /// The next message.
    Idle,
    /// The body.
    Waiting,
    /// The model.
    Answering(Box<Reply>),
    /// Its summary of what comes before this message.
    Summarising(Box<Reply>, usize),
    /// Whether tools may run.
    Asking(Asking),
    /// Tools.
    Working(Vec<Call>),
    /// The caller's hooks.
    Hooked(Next),
    /// The check of this answer.
    Verifying(String, Option<RawJson>),
    /// That the body leaves off, with the tools that were running.
    Cancelling(Vec<Call>),
}

impl Phase {
    /// Whether an answer is awaited that is all there.
    fn is_whole(&self) -> bool {
        matches!(self, Self::Answering(reply) if reply.is_whole() && reply.problem.is_none())
    }
}

/// What is kept for the length of a turn.
#[derive(Default)]
struct Turn {
    steps: u64,
    bill: Bill,
    denied: Vec<String>,
    /// What the session did not allow: each call with what the model is told.
    refused: HashMap<String, String>,
    schema_tries: u32,
    /// The step before which the conversation was last summarised.
    summarised: Option<u64>,
    /// What was done about the server's word that the conversation is too long.
    squeezed: Squeezed,
    /// How many tools were called.
    calls: u64,
    /// How many steps in a row came to nothing.
    errors: u32,
    /// Whether a call of this step did what it was to do, and whether none did.
    any_worked: bool,
    failed_step: bool,
    /// What a person was asked, with nobody there.
    questions: Vec<String>,
    /// The calls that a person approved.
    approved: HashSet<String>,
    /// Running tools that wait for a person's approval, by the question.
    approvals: HashMap<String, Approval>,
    /// The last step that was told.
    told: u64,
}

/// What was done about a conversation that is too long.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Squeezed {
    #[default]
    Not,
    Shortened,
    Summarised,
}

impl ModelConversation {
    /// A conversation, or one that goes on with what these events say.
    pub(super) fn new(plan: Plan, past: &[Event]) -> Self {
        let history = History::rebuild(past.iter().map(|event| &event.kind));
        // Ids and names go on too, so that none of them comes twice.
        let call = |event: &Event| {
            if let EventKind::ToolCall(call) = &event.kind {
                Some(call.id.clone())
            } else {
                None
            }
        };
        let begins = |event: &&Event| matches!(event.kind, EventKind::TurnStarted(_));
        Self {
            model: plan.model.clone(),
            plan,
            ready: None,
            unintroduced: false,
            system: String::new(),
            history,
            meter: Meter::default(),
            phase: Phase::Idle,
            steered: Vec::new(),
            pending: rebuild::pending(past),
            answer: None,
            turn: Turn::default(),
            turns: past.iter().filter(begins).count() as u64,
            ids: past.iter().filter_map(call).collect(),
        }
    }

    // --- asking -------------------------------------------------------------------------------------------------

    /// Asks for the next answer, after making room for it where that is needed.
    fn ask(&mut self, out: &mut Outbox) {
        if self.ready.is_none() {
            self.phase = Phase::Waiting;
            if std::mem::take(&mut self.unintroduced) {
                order(&Order::Introduce, out);
            }
            return;
        }
        self.take_steered(out);
        if self.is_full() {
            self.shorten(out);
        }
        // Once per step: if a summary does not help, another one does not either.
        if self.is_full() && self.turn.summarised != Some(self.turn.steps) && self.summarise(out) {
            return;
        }
        self.hook(When::Before, Next::Ask, out);
    }

    fn call_model(&mut self, out: &mut Outbox) {
        self.turn.steps += 1;
        // Once, also when it is tried again with less.
        if self.looping().is_some() && self.turn.told < self.turn.steps {
            self.turn.told = self.turn.steps;
            out.notice(
                Level::Debug,
                "iteration",
                format!("Iteration {}.", self.turn.steps),
            );
        }
        self.phase = Phase::Answering(Box::new(self.reply(Audience::Caller)));
        self.order_call(&self.history.0, true, out);
    }

    fn reply(&self, audience: Audience) -> Reply {
        Reply::new(
            audience,
            format!("{}.{}", self.turns, self.turn.steps),
            self.model().to_owned(),
        )
    }

    fn order_call(&self, messages: &[Message], with_tools: bool, out: &mut Outbox) {
        let Some(ready) = &self.ready else { return };
        let (system, tools) = if with_tools {
            (&*self.system, &*ready.tools)
        } else {
            ("", &[][..])
        };
        // A summary is no answer: the schema is not for it.
        let plan = if with_tools {
            self.plan.clone()
        } else {
            Plan {
                json_schema: None,
                ..self.plan.clone()
            }
        };
        let body = Request {
            plan: &plan,
            ready,
            model: self.model(),
            system,
            messages,
            tools,
        }
        .to_json();
        order(&Order::Call(body), out);
    }

    // --- the model's answer -------------------------------------------------------------------------------------

    fn piece(&mut self, line: &str, out: &mut Outbox) {
        if line.trim() == "[DONE]" {
            if let Phase::Answering(reply) | Phase::Summarising(reply, _) = &mut self.phase {
                reply.done = true;
            }
            return;
        }
        let mended = crate::surrogates::mend(line);
        let chunk = serde_json::from_str::<Chunk<'_>>(&mended);
        if matches!(self.phase, Phase::Idle)
            && chunk
                .as_ref()
                .is_ok_and(|chunk| !chunk.choices.0.is_empty())
        {
            // Only a recording goes on without being asked.
            self.begin();
            out.push(FromConversation::TurnBegan);
            self.turn.steps += 1;
            self.phase = Phase::Answering(Box::new(self.reply(Audience::Caller)));
        }
        match (&mut self.phase, chunk) {
            (Phase::Answering(reply) | Phase::Summarising(reply, _), Ok(chunk)) => {
                reply.take(&chunk, out)
            }
            (Phase::Answering(reply) | Phase::Summarising(reply, _), Err(error)) => {
                reply.unreadable += 1;
                out.unreadable(line, &format!("not a piece of an answer: {error}"));
            }
            (Phase::Cancelling(_), _) => {} // the rest of an answer that nobody wants any more
            (_, Ok(_)) => out.unreadable(line, "nothing was asked"),
            (_, Err(error)) => out.unreadable(line, &format!("not a piece of an answer: {error}")),
        }
    }

    /// The answer came to its end.
    fn over(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Answering(reply) => {
                self.count(&reply, out);
                match blame::unfinished(&reply) {
                    Some(outcome) => self.broken(*reply, outcome, out),
                    None => self.answered(*reply, out),
                }
            }
            Phase::Summarising(reply, cut) => {
                self.count(&reply, out);
                match blame::unfinished(&reply) {
                    Some(outcome) if self.without_summary(&outcome, out) => {}
                    Some(outcome) => self.end(outcome, None, out),
                    None => self.summarised(cut, *reply, out),
                }
            }
            other => self.phase = other,
        }
    }

    /// Puts what an answer used on the bill. One that was called off before its first word is not counted.
    fn charge(&mut self, reply: &Reply) {
        if reply.later {
            self.turn.bill.open = true;
        }
        if reply.pieces == 0 || reply.later {
            return;
        }
        let Some(ready) = &self.ready else { return };
        let asked = if reply.asked.is_empty() {
            &ready.model
        } else {
            &reply.asked
        };
        let model = reply.model.as_deref().unwrap_or(asked);
        let listed = || {
            if ready.official {
                Price::listed(model)
            } else {
                None
            }
        };
        let price = self
            .plan
            .price
            .filter(|_| self.is_first(asked))
            .or_else(listed);
        self.turn.bill.add(model, reply.spent, price);
    }

    /// The same, and takes note of how full the window is.
    fn count(&mut self, reply: &Reply, out: &mut Outbox) {
        let missed =
            self.ready.as_ref().is_some_and(|ready| !ready.uncounted) && !self.turn.bill.incomplete;
        let covers_more = self.turn.bill.open || reply.later;
        self.charge(reply);
        if covers_more {
            // What several answers used together says nothing about the window.
        } else if let Some(spent) = reply.spent.filter(|_| !reply.is_private()) {
            let tokens = spent.tokens;
            self.meter.note(
                tokens.input + tokens.cache_read + tokens.output,
                &self.history,
            );
        } else if reply.spent.is_none() && missed && reply.pieces > 0 {
            let message = "The server did not say how many tokens an answer took; the turn's usage is incomplete.";
            out.notice(Level::Warning, "usage_missing", message);
        }
    }

    /// An answer that is all there: tools to run, or the end of the turn.
    fn answered(&mut self, reply: Reply, out: &mut Outbox) {
        self.turn.squeezed = Squeezed::Not;
        let (finish, refused, flood) = (
            reply.finish.clone().unwrap_or_default(),
            reply.refused,
            reply.is_flood(),
        );
        let (text, mut calls) = reply.into_parts();
        // Arguments that have not begun are cut too.
        let whole = |call: &Call| !call.arguments.trim().is_empty() && call.input().is_ok();
        let cut_short = finish == "length" && !calls.last().is_some_and(whole);
        let ending = if refused || finish == "content_filter" {
            Some(blame::ending(
                Cause::Refused,
                "The model refused to answer.",
                &finish,
            ))
        } else if cut_short || flood {
            let message = "The answer reached the model's limit on output.";
            Some(
                blame::ending(Cause::OutputLimit, message, &finish)
                    .hint("Allow more (--set max_tokens=…)."),
            )
        } else if !calls.is_empty() && self.plan.budget && !self.turn.bill.is_priced() {
            Some(blame::unpriced())
        } else {
            None
        };
        if let Some(outcome) = ending {
            self.keep(&text, &[]); // calls that nobody hears of were not made
            return self.end(outcome, Some(text), out);
        }
        self.name(&mut calls);
        self.keep(&text, &calls);
        // Whatever `finish_reason` says: servers get it wrong.
        if calls.is_empty() {
            self.final_answer(text, out)
        } else {
            self.work(calls, out)
        }
    }

    fn name(&mut self, calls: &mut [Call]) {
        for (n, call) in calls.iter_mut().enumerate() {
            if call.id.is_empty() || self.ids.contains(&call.id) {
                let stem = if call.id.is_empty() { "call" } else { &call.id };
                call.id = format!("{stem}_{}_{}_{}", self.turns, self.turn.steps, n + 1);
            }
            self.ids.insert(call.id.clone());
        }
    }

    /// Keeps what the model said for the requests to come.
    fn keep(&mut self, text: &str, calls: &[Call]) {
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let calls = calls.iter().map(|call| {
            // Servers refuse a conversation in which arguments are not JSON, even those that wrote them.
            let arguments = call
                .input()
                .map_or_else(|_| "{}".to_owned(), |raw| raw.get().to_owned());
            Called {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments,
            }
        });
        self.history.push(Message::Assistant {
            text: text.to_owned(),
            calls: calls.collect(),
        });
    }

    fn final_answer(&mut self, text: String, out: &mut Outbox) {
        self.turn.errors = 0;
        if !self.steered.is_empty() {
            return self.go_on(text, out);
        }
        let Some(schema) = self.plan.json_schema.clone() else {
            return self.hook(When::After, Next::Finish(text, None), out);
        };
        let checked = structured::check(&schema, &text);
        if let (Err(_), Some(outcome)) = (&checked, self.stop()) {
            return self.end(outcome, Some(text), out);
        }
        match checked {
            Ok(value) => self.hook(When::After, Next::Finish(text, Some(value)), out),
            Err(why) if self.turn.schema_tries < SCHEMA_TRIES => {
                self.turn.schema_tries += 1;
                let message = format!("The answer does not keep to the schema: {why}.");
                let question = format!(
                    "Your answer does not keep to the schema: {why}. Answer again, with nothing but JSON of this schema: {schema}"
                );
                let raw = Some(RawJson::string(&question));
                out.event(Notice {
                    raw,
                    ..Notice::new(Level::Warning, codes::SCHEMA_NOT_KEPT, message)
                });
                self.history.push(Message::Told(question));
                self.tell_usage(out);
                self.ask(out);
            }
            Err(why) => {
                let message = format!("The model's answer does not keep to the schema: {why}.");
                let outcome = Outcome::new(Cause::Protocol, message)
                    .hint("Try a simpler schema, or another model.");
                self.end(outcome, Some(text), out);
            }
        }
    }

    // --- what the body says -------------------------------------------------------------------------------------

    fn begin(&mut self) {
        self.turns += 1;
        self.turn = Turn::default();
    }

    fn word(&mut self, word: Word, out: &mut Outbox) {
        match word {
            Word::Ready(ready) => self.ready(ready, out),
            Word::Over => self.over(out),
            Word::Failed(failed) => self.failed(&failed, out),
            Word::Retrying(retrying) => out.notice(Level::Warning, "retrying", sentence(&retrying)),
            Word::Alive => {}
            Word::Progress(message) => out.notice(Level::Info, "tool_progress", message),
            Word::Result(outcome) => self.result(outcome, out),
            Word::Unanswered { id, question } => {
                self.turn.questions.push(question);
                self.result(
                    super::orders::Outcome {
                        id,
                        ok: true,
                        denied: false,
                        output: ASKED.to_owned(),
                    },
                    out,
                );
            }
            Word::NeedsApproval { id, paths, output } => {
                self.approval(Approval { id, paths, output }, out)
            }
            Word::Flow(flow) => self.flow(flow, out),
            Word::Verified(fault) => self.verified(fault, out),
            Word::Cancelled if matches!(self.phase, Phase::Idle | Phase::Waiting) => {}
            Word::Cancelled => {
                self.interrupt(out); // in a recording nobody has
                self.interrupted(out);
            }
        }
    }

    fn ready(&mut self, mut ready: Ready, out: &mut Outbox) {
        for tool in &mut ready.tools {
            tool.parameters = crate::mcp::adapt(&tool.parameters);
        }
        self.system = system::prompt(&self.plan, &ready);
        out.event(Started {
            agent: self.plan.agent.to_owned(),
            agent_version: None,
            native_session: None,
            model: Some(self.model.as_ref().unwrap_or(&ready.model).clone())
                .filter(|model| !model.is_empty()),
            cwd: Some(ready.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            tools: ready.tools.iter().map(|tool| tool.name.clone()).collect(),
        });
        ready
            .notices
            .iter()
            .for_each(|notice| out.event(notice.clone()));
        self.ready = Some(ready);
        if matches!(self.phase, Phase::Waiting) {
            self.take_up(out);
        }
    }

    /// Goes on with a message: it may be the answer to a question whether calls may be made.
    fn take_up(&mut self, out: &mut Outbox) {
        let answer = if self.ready.is_some() {
            self.answer.take()
        } else {
            None
        };
        if !answer.is_some_and(|answer| self.approved(&answer, out)) {
            self.ask(out);
        }
    }
}

impl Conversation for ModelConversation {
    fn on_start(&mut self, _: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => {
                self.begin();
                self.history.push(Message::User(prompt.clone()));
                self.answer = Some(prompt).filter(|_| !self.pending.is_empty());
                self.take_up(out);
            }
            ToAgent::Steer(text) => self.steer(text, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => self.verdict(&id, verdict, out),
            ToAgent::Change { id, change } => self.change(id, change, out),
            // The body runs the caller's tools by itself: none was ordered.
            ToAgent::ToolDone { .. } | ToAgent::ToolProgress { .. } | ToAgent::FileDone { .. } => {}
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        if !line.starts_with(Line::BEGINNING) {
            return self.piece(line, out);
        }
        match serde_json::from_str::<Line>(line) {
            Ok(line) => self.word(line.ostler, out),
            Err(error) => out.unreadable(line, &format!("not a word of the body: {error}")),
        }
    }

    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}

fn order(order: &Order, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(order).get()).into_bytes(),
    ));
}

fn sentence(retrying: &Retrying) -> String {
    let Retrying {
        attempt,
        of,
        after_ms,
        why,
    } = retrying;
    let seconds = *after_ms as f64 / 1000.0;
    let why = blame::of_failure(why).message;
    format!("Attempt {attempt} of {of} failed, the next one is in {seconds:.1} s. {why}")
}
