//! One conversation with an agent that speaks ACP: which file reads which of its messages, and what is said to it.

use std::collections::{BTreeMap, VecDeque};

use ostler_core::dialect::{
    Change, Conversation, Exit, FromConversation, Outbox, ToAgent, TurnOver,
};
use ostler_core::event::{Level, Notice};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec};
use serde::Serialize;
use serde::de::IgnoredAny;

use super::calls::Calls;
use super::entry::Entry;
use super::files::Files;
use super::handshake::{Start, Step};
use super::options::Options;
use super::quirks::Quirks;
use super::rpc::{self, Rpc, Wanted};
use super::updates::Told;
use super::usage::Spend;
use super::version::Version;
use super::wire::{Fault, Message, Params};
use super::{
    blame, bridge_calls, ending, files, handshake, options, permissions, settings, updates,
};
use crate::lenient::Node;
use crate::mcp::{Custom, Server};
use crate::surrogates;

/// The state of one conversation. What belongs to a turn is in [`Turn`] and goes with it.
pub(super) struct AcpConversation {
    pub(super) entry: &'static Entry,
    pub(super) quirks: Quirks,
    pub(super) denials: Denials,
    /// Whether there are rules.
    pub(super) policy: bool,
    pub(super) start: Start,
    pub(super) phase: Phase,
    pub(super) version: Version,
    pub(super) rpc: Rpc,
    /// The session, by the agent's name for it.
    pub(super) session: String,
    pub(super) options: Options,
    /// What is still to be set before the first message.
    pub(super) steps: VecDeque<Step>,
    /// Whether what is heard is the history of a session that is being loaded.
    pub(super) replaying: bool,
    /// A message that came before the session was there.
    waiting: Option<String>,
    /// Changes that came before the session was there.
    pub(super) changes: Vec<(u64, Change)>,
    pub(super) permissions: BTreeMap<String, permissions::Question>,
    pub(super) files: Files,
    pub(super) server: Server,
    /// The caller's tools, by its names.
    pub(super) bound: Vec<String>,
    pub(super) calls: Calls,
    pub(super) spend: Spend,
    turns: u64,
    /// How many orders of tools there were, or could have been.
    pub(super) orders: u64,
    /// Whether the agent was given a way to the caller's tools and has not been seen on it.
    pub(super) unreached: bool,
    pub(super) turn: Turn,
}

/// How far the agent is.
#[derive(Debug)]
pub(super) enum Phase {
    /// The handshake is under way.
    Opening,
    /// There is a session.
    Ready,
    /// There is none, and there will be none: why.
    Broken(Box<Outcome>),
}

/// What is known of the turn under way.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether one is under way.
    pub(super) open: bool,
    /// Whether the agent was told to end it.
    pub(super) interrupted: bool,
    /// Whether a tool was called.
    pub(super) used_tools: bool,
    /// The tools whose calls were denied.
    pub(super) denied: Vec<String>,
    /// Set once the agent has said that it no longer has the session: how the turn ends when its
    /// process is gone.
    pub(super) lost: Option<Outcome>,
    /// That it failed, although it ends well: the agent's words, once it has said so.
    pub(super) failure: Option<String>,
    /// The last status of the model's service that was told.
    pub(super) status: Option<u16>,
    pub(super) told: Told,
}

#[derive(Serialize)]
struct Prompt<'a> {
    #[serde(rename = "sessionId")]
    session: &'a str,
    prompt: [Block<'a>; 1],
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct OfSession<'a> {
    #[serde(rename = "sessionId")]
    session: &'a str,
}

impl AcpConversation {
    pub(super) fn new(entry: &'static Entry, spec: &Spec) -> Self {
        let quirks = settings::quirks(entry, &spec.settings);
        let start = Start::new(entry, spec);
        Self {
            entry,
            quirks,
            denials: spec.denials,
            policy: spec.policy.is_some(),
            phase: Phase::Opening,
            version: Version::One,
            rpc: Rpc::default(),
            session: String::new(),
            options: Options::default(),
            steps: VecDeque::new(),
            replaying: false,
            waiting: None,
            changes: Vec::new(),
            permissions: BTreeMap::new(),
            files: Files::new(start.fs, quirks.missing_reads_empty),
            server: Server::new(
                &spec.tools,
                &Custom {
                    meta: quirks.tool_meta.and_then(|meta| RawJson::parse(meta).ok()),
                    reads_json: quirks.reads_json,
                    ..Custom::default()
                },
            ),
            bound: spec.tools.iter().map(|tool| tool.name.clone()).collect(),
            calls: Calls::default(),
            spend: Spend::new(start.resume.is_some()),
            start,
            turns: 0,
            orders: 0,
            unreached: spec.bridge.is_some(),
            turn: Turn::default(),
        }
    }

    /// Whether the agent was given a message and has not answered it.
    pub(super) fn is_working(&self) -> bool {
        self.turn.open && self.waiting.is_none() && matches!(self.phase, Phase::Ready)
    }

    fn prompt(&mut self, prompt: String, out: &mut Outbox) {
        self.turns += 1;
        self.turn = Turn {
            open: true,
            told: Told::new(self.turns),
            ..Turn::default()
        };
        match &self.phase {
            Phase::Opening => self.waiting = Some(prompt),
            Phase::Ready => self.send(&prompt, out),
            Phase::Broken(why) => {
                let why = (**why).clone();
                self.end(TurnOver::bare(why), out);
            }
        }
    }

    fn send(&mut self, prompt: &str, out: &mut Outbox) {
        self.spend.begin();
        let prompt = Prompt {
            session: &self.session,
            prompt: [Block {
                r#type: "text",
                text: prompt,
            }],
        };
        self.rpc
            .request(Wanted::Prompt, ("session/prompt", prompt), out);
        out.push(FromConversation::TurnBegan);
    }

    /// The session is there: what waited for it goes out.
    pub(super) fn ready(&mut self, out: &mut Outbox) {
        self.phase = Phase::Ready;
        self.replaying = false;
        for (id, change) in std::mem::take(&mut self.changes) {
            options::change(self, id, &change, out);
        }
        if let Some(prompt) = self.waiting.take() {
            self.send(&prompt, out);
        }
    }

    /// There will be no session.
    pub(super) fn broken(&mut self, why: Outcome, out: &mut Outbox) {
        self.waiting = None;
        for (id, _) in std::mem::take(&mut self.changes) {
            out.push(FromConversation::Changed {
                id,
                error: Some(why.message.clone()),
            });
        }
        if self.turn.open {
            self.end(TurnOver::bare(why.clone()), out);
        } else {
            self.lament(&why, out);
        }
        self.phase = Phase::Broken(Box::new(why));
    }

    /// There is no session, and nobody waits for one: whoever is going to say something is told before.
    fn lament(&self, why: &Outcome, out: &mut Outbox) {
        let (cause, message) = (why.cause.as_str(), &why.message);
        let hint = why.hint.as_deref().unwrap_or_default();
        let message = format!(
            "{} opened no session ({cause}): {message} {hint}",
            self.entry.name
        );
        out.notice(Level::Error, "handshake_failed", message.trim_end());
    }

    /// The turn is over.
    pub(super) fn end(&mut self, over: TurnOver, out: &mut Outbox) {
        self.turn.told.release(out);
        permissions::forget(self, out);
        bridge_calls::call_off(self, out);
        self.calls.close(self.turn.interrupted, out);
        if self.is_working() && std::mem::take(&mut self.unreached) {
            let Entry {
                name, unreached, ..
            } = self.entry;
            let message = format!(
                "{name} has not started the program that leads to the caller's tools: it has none of them.{unreached}"
            );
            out.notice(Level::Warning, "tools_unreached", message);
        }
        self.turn = Turn::default();
        out.push(FromConversation::TurnOver(over));
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        if !self.turn.open {
            return;
        }
        if self.is_working() {
            self.turn.interrupted = true;
            rpc::notify(
                "session/cancel",
                OfSession {
                    session: &self.session,
                },
                out,
            );
            permissions::forget(self, out);
            bridge_calls::call_off(self, out);
        } else {
            // The agent has not heard of the message, and never will.
            self.waiting = None;
            let outcome = Outcome::new(
                Cause::Interrupted,
                "The turn was interrupted before the agent began it.",
            );
            self.end(
                TurnOver::bare(outcome.with(|d| d.acknowledged = Some(true))),
                out,
            );
        }
    }

    fn take(&mut self, message: &Message<'_>, raw: &str, out: &mut Outbox) {
        let id = message.id.filter(|id| id.get() != "null");
        let empty = Params::default();
        let params = message.params.map().unwrap_or(&empty);
        match (message.method.text(), id) {
            (Some("session/update"), None) => updates::hear(self, params, raw, out),
            // What an agent adds to the protocol begins so, and is for those who know it.
            (Some(method), None) if method.starts_with('_') => {}
            (Some(method), None) if self.quirks.declined.contains(&method) => {}
            (Some(method), None) => self.unknown(raw, &format!("the notification {method:?}"), out),
            (Some(method), Some(id)) => {
                self.asked((method, &RawJson::keep(id)), (params, raw), out)
            }
            (None, Some(id)) => match self.rpc.answered(id.get()) {
                Some(wanted) => self.answered(&wanted, message, out),
                None => self.unknown(raw, "an answer to nothing that was asked", out),
            },
            (None, None) => out.unreadable(raw, "a JSON object that is no message of JSON-RPC"),
        }
    }

    /// The agent asks for something.
    fn asked(
        &mut self,
        (method, id): (&str, &RawJson),
        (params, raw): (&Params<'_>, &str),
        out: &mut Outbox,
    ) {
        match method {
            "session/request_permission" => permissions::hear(self, id, params, out),
            "fs/read_text_file" | "fs/write_text_file" if self.files.served => {
                files::hear(self, (method, id), params, out);
            }
            _ => {
                rpc::refuse(id, rpc::NO_METHOD, &format!("no method {method:?}"), out);
                if !self.quirks.declined.contains(&method) {
                    self.unknown(raw, &format!("the request {method:?}"), out);
                }
            }
        }
    }

    fn answered(&mut self, wanted: &Wanted, message: &Message<'_>, out: &mut Outbox) {
        let result = message
            .result
            .map_or("null", serde_json::value::RawValue::get);
        let empty = Fault::default();
        let fault = match &message.error {
            Node::Map(fault) => Some(fault),
            Node::Text(_) => Some(&empty),
            Node::None => None,
        };
        match wanted {
            Wanted::Prompt => ending::prompted(self, result, fault, out),
            Wanted::Change(change) => options::changed(self, *change, (result, fault), out),
            _ => handshake::answered(self, wanted, (result, fault), out),
        }
    }

    /// Keeps a message that is not known here.
    pub(super) fn unknown(&self, raw: &str, kind: &str, out: &mut Outbox) {
        out.event(Notice::unknown_message(
            self.entry.name,
            kind,
            RawJson::parse(raw).ok(),
        ));
    }
}

impl Conversation for AcpConversation {
    fn on_start(&mut self, out: &mut Outbox) {
        handshake::begin(self, out);
    }

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        match message {
            ToAgent::Prompt(prompt) => self.prompt(prompt, out),
            ToAgent::Interrupt => self.interrupt(out),
            ToAgent::Verdict { id, verdict } => permissions::decided(self, &id, &verdict, out),
            ToAgent::ToolDone { id, ok, output } => {
                bridge_calls::done(self, &id, (ok, &output), out)
            }
            ToAgent::FileDone { id, result } => self.files.done(&id, result, out),
            ToAgent::Change { id, change } => match &self.phase {
                Phase::Opening => self.changes.push((id, change)),
                Phase::Ready => options::change(self, id, &change, out),
                Phase::Broken(why) => out.push(FromConversation::Changed {
                    id,
                    error: Some(why.message.clone()),
                }),
            },
            ToAgent::ToolProgress { id, message } => {
                bridge_calls::progress(self, &id, &message, out)
            }
            ToAgent::Steer(_) => {}
        }
    }

    fn on_line(&mut self, raw: &str, out: &mut Outbox) {
        // Asked first, because serde would read a list as the fields of a struct in their order.
        if !raw.trim_start().starts_with('{') {
            let json = serde_json::from_str::<IgnoredAny>(raw);
            out.unreadable(
                raw,
                &json.map_or_else(
                    |e| format!("not JSON: {e}"),
                    |_| "JSON, but not an object".into(),
                ),
            );
            return;
        }
        match serde_json::from_str(raw) {
            Ok(message) => self.take(&message, raw, out),
            Err(error) => {
                let mended = surrogates::mend(raw);
                match serde_json::from_str(&mended) {
                    Ok(message) => self.take(&message, &mended, out),
                    Err(_) => out.unreadable(raw, &format!("not JSON: {error}")),
                }
            }
        }
    }

    fn on_bridge_line(&mut self, from: u32, line: &str, out: &mut Outbox) {
        bridge_calls::hear(self, from, line, out);
    }

    fn owes_bridge_reply(&self, to: u32) -> bool {
        self.server.open_for(to).next().is_some()
    }

    fn on_bridge_closed(&mut self, from: u32, out: &mut Outbox) {
        bridge_calls::gone(self, from, out);
    }

    fn on_exit(&mut self, exit: &Exit, out: &mut Outbox) {
        self.turn.told.release(out);
        if let Some(outcome) = self.turn.lost.take() {
            return self.end(TurnOver::bare(outcome), out);
        }
        let silent = matches!(self.phase, Phase::Opening);
        match blame::of_exit(self.entry, exit).filter(|_| silent) {
            Some(outcome) if self.turn.open => self.end(TurnOver::bare(outcome), out),
            Some(outcome) => self.lament(&outcome, out),
            None => {}
        }
    }
}
