//! The tool loop, as pure thinking: what to ask the model, what its answer means, when a turn is over.
//!
//! The body that calls the model and runs tools is elsewhere; the two talk in [`orders`](super::orders).

use std::collections::HashSet;

use ostler_core::dialect::{Conversation, Exit, Out, Outbox, Say, TurnOver};
use ostler_core::event::{DecidedBy, Decision, Level, Permission, Started, ToolCall, ToolResult};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw::Raw;
use ostler_core::spec::Denials;

use super::bill::Bill;
use super::calls::Call;
use super::chunk::Chunk;
use super::context::{self, Meter};
use super::history::{Called, History, LOST, Message};
use super::orders::{self, Failed, Line, Order, Ready, Retrying, ToolOrder, Word};
use super::plan::Plan;
use super::prices::{self, Price};
use super::reply::{Audience, Reply};
use super::request::Request;
use super::{blame, structured, system};

/// How often an answer that does not keep to the schema is sent back.
const SCHEMA_TRIES: u32 = 2;

/// One session with a model.
pub(super) struct Talk {
    plan: Plan,
    ready: Option<Ready>,
    system: String,
    history: History,
    meter: Meter,
    phase: Phase,
    turn: Turn,
    turns: u64,
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
    /// Tools.
    Working(Vec<Call>),
    /// That the body leaves off, with the tools that were running.
    Cancelling(Vec<Call>),
}

/// What is kept for the length of a turn.
#[derive(Default)]
struct Turn {
    steps: u64,
    bill: Bill,
    denied: Vec<String>,
    schema_tries: u32,
    /// The step before which the conversation was last summarised.
    summarised: Option<u64>,
    /// What was done about the server's word that the conversation is too long.
    squeezed: Squeezed,
}

/// What was done about a conversation that is too long.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Squeezed {
    #[default]
    Not,
    Shortened,
    Summarised,
}

impl Talk {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            ready: None,
            system: String::new(),
            history: History::default(),
            meter: Meter::default(),
            phase: Phase::Idle,
            turn: Turn::default(),
            turns: 0,
            ids: HashSet::new(),
        }
    }

    // --- asking -------------------------------------------------------------------------------------------------

    /// Asks for the next answer, after making room for it where that is needed.
    fn ask(&mut self, out: &mut Outbox) {
        if self.ready.is_none() {
            self.phase = Phase::Waiting;
            return;
        }
        if self.is_full() {
            self.shorten(out);
        }
        // Once per step: if a summary does not help, another one does not either.
        if self.is_full() && self.turn.summarised != Some(self.turn.steps) && self.summarise(out) {
            return;
        }
        self.turn.steps += 1;
        self.phase = Phase::Answering(Box::new(self.reply(Audience::Caller)));
        self.order_call(&self.history.0, true, out);
    }

    fn reply(&self, audience: Audience) -> Reply {
        Reply::new(audience, format!("{}.{}", self.turns, self.turn.steps))
    }

    fn order_call(&self, messages: &[Message], with_tools: bool, out: &mut Outbox) {
        let Some(ready) = &self.ready else { return };
        let (system, tools) = if with_tools { (&*self.system, &*ready.tools) } else { ("", &[][..]) };
        // A summary is no answer: the schema is not for it.
        let plan = if with_tools { self.plan.clone() } else { Plan { json_schema: None, ..self.plan.clone() } };
        let body = Request { plan: &plan, ready, system, messages, tools }.to_json();
        order(&Order::Call(body), out);
    }

    fn window(&self) -> Option<u64> {
        let listed = || self.ready.as_ref().filter(|r| r.official).and_then(|r| prices::window(&r.model));
        self.plan.context_window.or_else(listed)
    }

    fn is_full(&self) -> bool {
        self.window().is_some_and(|window| self.meter.is_full(&self.history, self.overhead(), window))
    }

    /// The characters that come with every request.
    fn overhead(&self) -> usize {
        let tools = self.ready.iter().flat_map(|ready| &ready.tools);
        self.system.len() + tools.map(|t| t.description.len() + t.parameters.get().len()).sum::<usize>()
    }

    /// Shortens old tool results. True when there was something to shorten.
    fn shorten(&mut self, out: &mut Outbox) -> bool {
        let Some((count, bytes)) = context::shorten(&mut self.history) else { return false };
        let message = format!("The context is nearly full: {count} old tool results were shortened by {bytes} bytes.");
        out.notice(Level::Info, "context_shortened", message);
        true
    }

    /// Asks for a summary of what is old. True when the next answer must wait for it.
    fn summarise(&mut self, out: &mut Outbox) -> bool {
        // Where the window is not known, the server has just said that the conversation is too long for it.
        let window = self.window().unwrap_or_else(|| self.meter.tokens(&self.history).max(2));
        let Some(cut) = context::cut(&self.history, window) else { return false };
        self.turn.summarised = Some(self.turn.steps);
        let question = context::question(&self.history, cut, window);
        self.phase = Phase::Summarising(Box::new(self.reply(Audience::Nobody)), cut);
        self.order_call(&[Message::User(question)], false, out);
        true
    }

    fn summarised(&mut self, cut: usize, summary: &str, out: &mut Outbox) {
        context::replace(&mut self.history, cut, summary);
        self.meter.forget();
        let message = format!("The context is nearly full: the first {cut} messages were replaced by a summary.");
        out.notice(Level::Info, "context_summarised", message);
        self.ask(out);
    }

    // --- the model's answer -------------------------------------------------------------------------------------

    fn piece(&mut self, line: &str, out: &mut Outbox) {
        if matches!(self.phase, Phase::Idle) {
            // Only a recording goes on without being asked.
            self.begin();
            out.push(Out::TurnBegan);
            self.turn.steps += 1;
            self.phase = Phase::Answering(Box::new(self.reply(Audience::Caller)));
        }
        let (Phase::Answering(reply) | Phase::Summarising(reply, _)) = &mut self.phase else { return };
        if line.trim() == "[DONE]" {
            reply.done = true;
            return;
        }
        let mended = crate::surrogates::mend(line);
        match serde_json::from_str::<Chunk<'_>>(&mended) {
            Ok(chunk) => reply.take(&chunk, out),
            Err(error) => {
                reply.unreadable += 1;
                out.unreadable(line, &format!("not a piece of an answer: {error}"));
            }
        }
    }

    /// The answer came to its end.
    fn over(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Answering(reply) => {
                self.count(&reply, out);
                match unfinished(&reply) {
                    Some(outcome) => self.broken(*reply, outcome, out),
                    None => self.answered(*reply, out),
                }
            }
            Phase::Summarising(reply, cut) => {
                self.count(&reply, out);
                match unfinished(&reply) {
                    Some(outcome) => self.end(outcome, None, out),
                    None => self.summarised(cut, &reply.into_parts().0, out),
                }
            }
            other => self.phase = other,
        }
    }

    /// Puts what an answer used on the bill.
    fn count(&mut self, reply: &Reply, out: &mut Outbox) {
        let Some(ready) = &self.ready else { return };
        let model = reply.model.as_deref().unwrap_or(&ready.model);
        let listed = || if ready.official { Price::listed(model) } else { None };
        let missed = !ready.uncounted && !self.turn.bill.incomplete;
        self.turn.bill.add(model, reply.spent, self.plan.price.or_else(listed));
        if let Some(spent) = reply.spent.filter(|_| !reply.is_private()) {
            let tokens = spent.tokens;
            self.meter.note(tokens.input + tokens.cache_read + tokens.output, &self.history);
        } else if reply.spent.is_none() && missed && reply.pieces > 0 {
            let message = "The server did not say how many tokens an answer took; the turn's usage is incomplete.";
            out.notice(Level::Warning, "usage_missing", message);
        }
    }

    /// An answer that is all there: tools to run, or the end of the turn.
    fn answered(&mut self, reply: Reply, out: &mut Outbox) {
        self.turn.squeezed = Squeezed::Not;
        let (finish, refused) = (reply.finish.clone().unwrap_or_default(), reply.refused);
        let (text, mut calls) = reply.into_parts();
        self.name(&mut calls);
        self.keep(&text, &calls);
        if refused || finish == "content_filter" {
            return self.end(native(Cause::Refused, "The model refused to answer.", &finish), Some(text), out);
        }
        let cut_short = finish == "length" && calls.last().is_none_or(|call| input(call).is_err());
        if cut_short {
            let message = "The answer reached the model's limit on output.";
            let outcome = native(Cause::OutputLimit, message, &finish).hint("Allow more (--set max_tokens=…).");
            return self.end(outcome, Some(text), out);
        }
        if !calls.is_empty() && self.plan.budget && !self.turn.bill.is_priced() {
            return self.end(unpriced(), Some(text), out);
        }
        // Whatever `finish_reason` says: servers get it wrong.
        if calls.is_empty() { self.final_answer(text, out) } else { self.work(calls, out) }
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
            let arguments = input(call).map_or_else(|_| "{}".to_owned(), |raw| raw.get().to_owned());
            Called { id: call.id.clone(), name: call.name.clone(), arguments }
        });
        self.history.push(Message::Assistant { text: text.to_owned(), calls: calls.collect() });
    }

    fn final_answer(&mut self, text: String, out: &mut Outbox) {
        let Some(schema) = self.plan.json_schema.clone() else {
            return self.complete(text, None, out);
        };
        match structured::check(&schema, &text) {
            Ok(value) => self.complete(text, Some(value), out),
            Err(why) if self.turn.schema_tries < SCHEMA_TRIES => {
                self.turn.schema_tries += 1;
                out.notice(
                    Level::Warning,
                    "schema_not_kept",
                    format!("The answer does not keep to the schema: {why}."),
                );
                let question = format!(
                    "Your answer does not keep to the schema: {why}. Answer again, with nothing but JSON of this schema: {schema}"
                );
                self.history.push(Message::User(question));
                self.ask(out);
            }
            Err(why) => {
                let message = format!("The model's answer does not keep to the schema: {why}.");
                let outcome = Outcome::new(Cause::Protocol, message).hint("Try a simpler schema, or another model.");
                self.end(outcome, Some(text), out);
            }
        }
    }

    fn complete(&mut self, text: String, structured: Option<Raw>, out: &mut Outbox) {
        let denied = std::mem::take(&mut self.turn.denied);
        let outcome = if denied.is_empty() || self.plan.denials == Denials::Tolerate {
            Outcome::completed()
        } else {
            Outcome::new(Cause::Denied, format!("Tool calls were denied: {}.", denied.join(", ")))
                .hint("Allow it in .ostler/sandbox.toml, or pass --tolerate-denials.")
                .with(|detail| detail.denied_tools = denied)
        };
        if text.is_empty() {
            out.notice(Level::Warning, "empty_answer", "The model ended its turn without a word.");
        }
        let text = Some(text).filter(|text| !text.is_empty());
        self.close(TurnOver { outcome, text, structured, usage: Vec::new() }, out);
    }

    // --- tools --------------------------------------------------------------------------------------------------

    fn work(&mut self, calls: Vec<Call>, out: &mut Outbox) {
        for call in &calls {
            let input = input(call).unwrap_or_else(|_| Raw::string(&call.arguments));
            out.event(ToolCall { id: call.id.clone(), name: call.name.clone(), input, parent: None });
        }
        if self.turn.steps >= self.plan.max_turns {
            let message = format!("The model wanted to go on after {} steps.", self.turn.steps);
            let outcome = Outcome::new(Cause::TurnLimit, message).hint("Allow more steps (--max-turns).");
            return self.end(outcome, None, out);
        }
        let mut orders = Vec::new();
        let mut wrong = Vec::new();
        for call in &calls {
            match input(call) {
                Ok(input) => orders.push(ToolOrder { id: call.id.clone(), name: call.name.clone(), input }),
                Err(why) => wrong.push(orders::Outcome {
                    id: call.id.clone(),
                    ok: false,
                    denied: false,
                    output: format!("bad_arguments: the arguments are not a JSON object ({why}). Call the tool again."),
                }),
            }
        }
        self.phase = Phase::Working(calls);
        if !orders.is_empty() {
            order(&Order::Tools(orders), out);
        }
        for outcome in wrong {
            self.result(outcome, out);
        }
    }

    fn result(&mut self, outcome: orders::Outcome, out: &mut Outbox) {
        let (Phase::Working(calls) | Phase::Cancelling(calls)) = &mut self.phase else { return };
        let Some(at) = calls.iter().position(|call| call.id == outcome.id) else { return };
        let call = calls.remove(at);
        let orders::Outcome { id, ok, denied, output } = outcome;
        if denied {
            if !self.turn.denied.contains(&call.name) {
                self.turn.denied.push(call.name.clone());
            }
            out.event(Permission {
                id: id.clone(),
                tool: call.name.clone(),
                input: input(&call).ok(),
                decision: Decision::Denied,
                by: DecidedBy::Rule,
                message: Some(output.clone()),
            });
        }
        self.history.push(Message::Tool { id: id.clone(), text: output.clone() });
        out.event(ToolResult { id, name: Some(call.name), ok, output, denied, content: None });
        if matches!(&self.phase, Phase::Working(calls) if calls.is_empty()) {
            self.turn.bill.usage().into_iter().for_each(|usage| out.event(usage));
            self.ask(out);
        }
    }

    // --- endings ------------------------------------------------------------------------------------------------

    fn failed(&mut self, failed: &Failed, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Answering(_) if blame::is_too_long(failed) && self.turn.squeezed != Squeezed::Summarised => {
                self.squeeze(failed, out);
            }
            Phase::Answering(reply) => {
                self.count(&reply, out);
                self.broken(*reply, blame::of_failure(failed), out);
            }
            Phase::Summarising(..) | Phase::Waiting => self.end(blame::of_failure(failed), None, out),
            other => self.phase = other,
        }
    }

    /// The server says that the conversation is too long: first old tool results go, then old messages.
    fn squeeze(&mut self, failed: &Failed, out: &mut Outbox) {
        self.turn.steps -= 1; // nothing was said in it
        if self.turn.squeezed == Squeezed::Not {
            self.turn.squeezed = Squeezed::Shortened;
            if self.shorten(out) {
                return self.ask(out);
            }
        }
        self.turn.squeezed = Squeezed::Summarised;
        if !self.summarise(out) {
            self.end(blame::of_failure(failed), None, out);
        }
    }

    /// An answer that broke off: what was said of it was said.
    fn broken(&mut self, reply: Reply, outcome: Outcome, out: &mut Outbox) {
        let (text, _) = reply.into_parts();
        self.keep(&text, &[]);
        self.end(outcome, None, out);
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Waiting => self.interrupted(out),
            Phase::Answering(reply) => {
                self.keep(&reply.into_parts().0, &[]);
                self.phase = Phase::Cancelling(Vec::new());
                order(&Order::Cancel, out);
            }
            Phase::Summarising(..) => {
                self.phase = Phase::Cancelling(Vec::new());
                order(&Order::Cancel, out);
            }
            Phase::Working(calls) => {
                self.phase = Phase::Cancelling(calls);
                order(&Order::Cancel, out);
            }
            Phase::Cancelling(calls) => self.phase = Phase::Cancelling(calls),
        }
    }

    fn interrupted(&mut self, out: &mut Outbox) {
        let outcome =
            Outcome::new(Cause::Interrupted, "The turn was interrupted.").with(|d| d.acknowledged = Some(true));
        self.end(outcome, None, out);
    }

    fn end(&mut self, outcome: Outcome, text: Option<String>, out: &mut Outbox) {
        let text = text.filter(|text| !text.is_empty());
        self.close(TurnOver { outcome, text, structured: None, usage: Vec::new() }, out);
    }

    fn close(&mut self, mut over: TurnOver, out: &mut Outbox) {
        self.phase = Phase::Idle;
        self.history.settle(LOST);
        over.usage = self.turn.bill.usage();
        out.push(Out::TurnOver(over));
    }

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
            Word::Result(outcome) => self.result(outcome, out),
            Word::Cancelled if matches!(self.phase, Phase::Cancelling(_)) => self.interrupted(out),
            Word::Cancelled => {}
        }
    }

    fn ready(&mut self, ready: Ready, out: &mut Outbox) {
        self.system = system::prompt(&self.plan, &ready);
        out.event(Started {
            agent: self.plan.agent.to_owned(),
            agent_version: None,
            native_session: None,
            model: Some(ready.model.clone()).filter(|model| !model.is_empty()),
            cwd: Some(ready.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            tools: ready.tools.iter().map(|tool| tool.name.clone()).collect(),
        });
        ready.notices.iter().for_each(|notice| out.event(notice.clone()));
        self.ready = Some(ready);
        if matches!(self.phase, Phase::Waiting) {
            self.ask(out);
        }
    }
}

impl Conversation for Talk {
    fn open(&mut self, _: &mut Outbox) {}

    fn say(&mut self, say: Say, out: &mut Outbox) {
        match say {
            Say::Prompt(prompt) => {
                self.begin();
                self.history.push(Message::User(prompt));
                self.ask(out);
            }
            Say::Interrupt => self.interrupt(out),
        }
    }

    fn hear(&mut self, line: &str, out: &mut Outbox) {
        if !line.starts_with(Line::BEGINNING) {
            return self.piece(line, out);
        }
        match serde_json::from_str::<Line>(line) {
            Ok(line) => self.word(line.ostler, out),
            Err(error) => out.unreadable(line, &format!("not a word of the body: {error}")),
        }
    }

    fn finish(&mut self, _: &Exit, _: &mut Outbox) {}
}

fn order(order: &Order, out: &mut Outbox) {
    out.push(Out::Write(format!("{}\n", Raw::of(order).get()).into_bytes()));
}

/// The arguments of a call: an object, or nothing at all, which stands for an empty one.
fn input(call: &Call) -> Result<Raw, String> {
    let text = call.arguments.trim();
    if text.is_empty() {
        return Ok(Raw::of(&serde_json::Map::new()));
    }
    match Raw::parse(text) {
        Ok(raw) if text.starts_with('{') => Ok(raw),
        Ok(_) => Err("something else was given".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why an answer that came to its end is none.
fn unfinished(reply: &Reply) -> Option<Outcome> {
    if let Some(problem) = &reply.problem {
        return Some(blame::of_problem(problem));
    }
    if reply.is_whole() && reply.pieces > 0 {
        return None;
    }
    Some(blame::of_failure(&if reply.is_blank() || reply.unreadable > 0 {
        let message = match reply.unreadable {
            0 => "The server's answer holds nothing of an answer.".to_owned(),
            n => format!("The server's answer could not be understood ({n} lines)."),
        };
        Failed { kind: orders::FailedKind::Invalid, message, ..Failed::default() }
    } else {
        let message = "The answer broke off in the middle.".to_owned();
        Failed { kind: orders::FailedKind::Cut, message, ..Failed::default() }
    }))
}

/// A budget that cannot be kept is not kept by going on.
fn unpriced() -> Outcome {
    Outcome::new(Cause::Budget, "The budget cannot be kept: what the model costs is not known.")
        .hint("Give the price in dollars per million tokens (--set price=INPUT/OUTPUT), or leave out the budget.")
}

fn native(cause: Cause, message: &str, word: &str) -> Outcome {
    Outcome::new(cause, message).with(|detail| detail.native = Some(word.to_owned()).filter(|word| !word.is_empty()))
}

fn sentence(retrying: &Retrying) -> String {
    let Retrying { attempt, of, after_ms, why } = retrying;
    let seconds = *after_ms as f64 / 1000.0;
    let why = blame::of_failure(why).message;
    format!("Attempt {attempt} of {of} failed, the next one is in {seconds:.1} s. {why}")
}
