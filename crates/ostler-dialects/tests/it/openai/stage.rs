//! A conversation with a model, driven line by line: the test says what the body and the session would say.

use std::sync::Arc;

use ostler_core::dialect::{Conversation, Dialect, FromConversation, Outbox, ToAgent, TurnOver};
use ostler_core::event::{
    At, Event, EventKind, Level, Notice, Origin, ToolResult, TurnEnded, TurnStarted,
};
use ostler_core::outcome::Cause;
use ostler_core::permission::{PermissionRequest, Verdict};
use ostler_core::spec::{Attendance, Spec};
use ostler_dialects::openai::OpenAi;
use ostler_dialects::tool_loop::Outer;
use serde_json::{Value, json};

/// A conversation and everything that came of it.
pub(super) struct Stage {
    pub(super) talk: Box<dyn Conversation>,
    pub(super) outs: Vec<FromConversation>,
    /// What a session's log would hold.
    pub(super) events: Vec<EventKind>,
    /// Whether the server counts what it is sent; else it always says the same.
    pub(super) counts: bool,
}

impl Stage {
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        Self::of(&OpenAi, &spec(settings))
    }

    /// A conversation in which somebody is asked whether tools may run.
    pub(super) fn asking() -> Self {
        Self::of(
            &OpenAi,
            &Spec {
                attendance: Attendance::Attended,
                ..Spec::default()
            },
        )
    }

    pub(super) fn of(dialect: &dyn Dialect, spec: &Spec) -> Self {
        Self::with(dialect, spec, &Value::Null)
    }

    /// A loop with these things around it.
    pub(super) fn looping(spec: &Spec, around: &Value) -> Self {
        Self::with(&Outer, spec, around)
    }

    fn with(dialect: &dyn Dialect, spec: &Spec, looping: &Value) -> Self {
        dialect.launch(spec).unwrap();
        let mut stage = Self {
            talk: dialect.converse(spec),
            outs: Vec::new(),
            events: Vec::new(),
            counts: false,
        };
        let tools = ["read_file", "write_file", "weather"];
        let tools = tools.map(|name| json!({"name": name, "description": "does it", "parameters": {"type": "object"}}));
        stage.hear(&json!({"ostler": {"ready": {"model": "m", "cwd": "/work", "tools": tools, "looping": looping}}}));
        stage
    }

    /// A conversation that goes on with what the log of this one says.
    pub(super) fn resumed(&self, dialect: &dyn Dialect) -> Self {
        Self::of(
            dialect,
            &Spec {
                past: self.past(),
                ..spec(&[("resume", "s")])
            },
        )
    }

    /// The same for a loop.
    pub(super) fn resumed_loop(&self, spec: &Spec, around: &Value) -> Self {
        Self::looping(
            &Spec {
                past: self.past(),
                ..spec.clone()
            },
            around,
        )
    }

    fn past(&self) -> Arc<[Event]> {
        let line = |(n, kind): (usize, &EventKind)| {
            let event = Event {
                seq: n as u64 + 1,
                at: At(0),
                session: "s".into(),
                turn: 1,
                kind: kind.clone(),
            };
            Event::from_json(&event.to_json()).unwrap()
        };
        self.events.iter().enumerate().map(line).collect()
    }

    /// Says something other than a message.
    pub(super) fn tell(&mut self, say: ToAgent) {
        let mut out = Outbox::default();
        self.talk.send(say, &mut out);
        self.take(out);
    }

    pub(super) fn steer(&mut self, text: &str) {
        self.events
            .push(Notice::new(Level::Info, "steered", text).into());
        self.tell(ToAgent::Steer(text.into()));
    }

    pub(super) fn verdict(&mut self, id: &str, verdict: Verdict) {
        self.tell(ToAgent::Verdict {
            id: id.into(),
            verdict,
        });
    }

    pub(super) fn say(&mut self, prompt: &str) {
        self.events.push(
            TurnStarted {
                origin: Origin::Caller,
                prompt: Some(prompt.into()),
            }
            .into(),
        );
        self.tell(ToAgent::Prompt(prompt.into()));
    }

    pub(super) fn interrupt(&mut self) {
        self.tell(ToAgent::Interrupt);
    }

    pub(super) fn hear(&mut self, line: &Value) {
        self.hear_text(&line.to_string());
    }

    pub(super) fn hear_text(&mut self, line: &str) {
        let mut out = Outbox::default();
        self.talk.on_line(line, &mut out);
        self.take(out);
    }

    pub(super) fn take(&mut self, mut out: Outbox) {
        for out in out.drain() {
            match &out {
                FromConversation::Event(kind) => self.events.push(kind.clone()),
                FromConversation::TurnOver(over) => self.close(over),
                _ => {}
            }
            self.outs.push(out);
        }
    }

    /// What a session says when a turn is over.
    fn close(&mut self, over: &TurnOver) {
        for call in self.open_calls() {
            let (id, output) = (call, "no result: the turn ended".to_owned());
            let result = ToolResult {
                id,
                name: None,
                ok: false,
                output,
                denied: false,
                content: None,
            };
            self.events.push(result.into());
        }
        let (outcome, text) = (over.outcome.clone(), over.text.clone().unwrap_or_default());
        self.events.push(
            TurnEnded {
                outcome,
                text,
                structured: None,
                usage: None,
            }
            .into(),
        );
    }

    /// Tool calls without a result.
    pub(super) fn open_calls(&self) -> Vec<String> {
        let done = |id: &str| {
            self.events
                .iter()
                .any(|kind| matches!(kind, EventKind::ToolResult(r) if r.id == id))
        };
        let call = |kind: &EventKind| {
            if let EventKind::ToolCall(call) = kind {
                Some(call.id.clone())
            } else {
                None
            }
        };
        self.events
            .iter()
            .filter_map(call)
            .filter(|id| !done(id))
            .collect()
    }

    /// Questions, in the order in which they were asked.
    pub(super) fn asks(&self) -> Vec<&PermissionRequest> {
        self.outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::Ask(ask) = out {
                    Some(ask)
                } else {
                    None
                }
            })
            .collect()
    }

    /// The model answers with text.
    pub(super) fn text(&mut self, text: &str) {
        self.hear(&json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]}));
        self.finish("stop");
    }

    /// The model calls tools.
    pub(super) fn calls(&mut self, calls: &[(&str, &str, &str)]) {
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(n, (id, name, arguments))| json!({"index": n, "id": id, "function": {"name": name, "arguments": arguments}}))
            .collect();
        self.hear(&json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}));
        self.finish("tool_calls");
    }

    pub(super) fn finish(&mut self, reason: &str) {
        self.hear(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
        let sent = if self.counts {
            Value::from(self.asked()).to_string().len() / 4
        } else {
            100
        };
        self.hear(
            &json!({"choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 40}}}),
        );
        self.hear_text("[DONE]");
        self.over();
    }

    pub(super) fn over(&mut self) {
        self.hear(&json!({"ostler": "over"}));
    }

    pub(super) fn result(&mut self, id: &str, output: &str) {
        self.hear(&json!({"ostler": {"result": {"id": id, "ok": true, "output": output}}}));
    }

    pub(super) fn orders(&self) -> Vec<Value> {
        let written = self.outs.iter().filter_map(|out| {
            if let FromConversation::Write(bytes) = out {
                Some(bytes)
            } else {
                None
            }
        });
        written
            .map(|bytes| serde_json::from_slice(bytes).unwrap())
            .collect()
    }

    /// The messages of the last request.
    pub(super) fn asked(&self) -> Vec<Value> {
        let orders = self.orders();
        let call = orders
            .iter()
            .rev()
            .find_map(|order| order.get("call"))
            .unwrap();
        call["messages"].as_array().unwrap().clone()
    }

    pub(super) fn ended(&self) -> Vec<&TurnOver> {
        self.outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::TurnOver(over) = out {
                    Some(over)
                } else {
                    None
                }
            })
            .collect()
    }

    pub(super) fn cause(&self) -> Cause {
        self.ended().last().unwrap().outcome.cause
    }

    pub(super) fn notices(&self) -> Vec<&str> {
        let notice = |kind: &'_ EventKind| {
            if let EventKind::Notice(notice) = kind {
                Some(notice.code.clone())
            } else {
                None
            }
        };
        self.events
            .iter()
            .filter_map(notice)
            .map(|code| &*code.leak())
            .collect()
    }
}

pub(super) fn spec(settings: &[(&str, &str)]) -> Spec {
    let mut spec = Spec::default();
    settings
        .iter()
        .for_each(|(key, value)| spec.settings.push(key, *value));
    spec
}
