//! Harness that drives a conversation with a model line by line: the test plays the runner and the
//! session.

use std::sync::Arc;

use ostler_core::dialect::{
    Action, Conversation, FromConversation, Launching, Outbox, ToAgent, TurnResult,
};
use ostler_core::event::{
    Event, EventKind, Level, Notice, NoticeCode, Origin, Timestamp, ToolResult, TurnEnded,
    TurnStarted,
};
use ostler_core::outcome::Cause;
use ostler_core::permission::{PermissionRequest, Verdict};
use ostler_core::spec::{Attendance, Spec};
use ostler_model::openai::RequestOptions;
use ostler_model::{LoopAgent, LoopConfig, ModelConversation, ModelRequest};
use serde_json::{Value, json};

/// An agent whose model can be changed.
pub(super) const API: LoopAgent = LoopAgent {
    name: "api",
    set_model: true,
    max_errors: 1,
};

/// An agent whose model cannot be changed.
pub(super) const SCRIPTED: LoopAgent = LoopAgent {
    name: "scripted",
    set_model: false,
    max_errors: 1,
};

/// An agent that continues after a failure.
const LOOP: LoopAgent = LoopAgent {
    name: "loop",
    set_model: false,
    max_errors: 3,
};

/// A conversation and all its output.
pub(super) struct Harness {
    pub(super) conversation: Box<dyn Conversation>,
    pub(super) outs: Vec<FromConversation>,
    /// Events that the session's log would contain.
    pub(super) events: Vec<EventKind>,
    /// Whether the server counts the request; otherwise it always reports the same.
    pub(super) counts: bool,
}

impl Harness {
    pub(super) fn new(settings: &[(&str, &str)]) -> Self {
        Self::of(API, &spec(settings))
    }

    /// Creates a conversation in an attended session.
    pub(super) fn attended() -> Self {
        Self::of(API, &Spec::default().attendance(Attendance::Attended))
    }

    pub(super) fn of(agent: LoopAgent, spec: &Spec) -> Self {
        Self::with(agent, &Launching::new(spec), &Value::Null)
    }

    /// Creates a loop with these features.
    pub(super) fn with_loop(spec: &Spec, around: &Value) -> Self {
        Self::with(LOOP, &Launching::new(spec), around)
    }

    fn with(agent: LoopAgent, launching: &Launching<'_>, looping: &Value) -> Self {
        let mut harness = Self {
            conversation: converse(agent, launching),
            outs: Vec::new(),
            events: Vec::new(),
            counts: false,
        };
        let tools = ["read_file", "write_file", "weather"];
        let tools = tools.map(|name| json!({"name": name, "description": "does it", "parameters": {"type": "object"}}));
        harness.feed(&json!({"ostler": {"ready": {"model": "m", "cwd": "/work", "tools": tools, "looping": looping}}}));
        harness
    }

    /// Creates a conversation that resumes from the log of this one.
    pub(super) fn resumed(&self, agent: LoopAgent) -> Self {
        self.resumed_with(agent, &spec(&[("resume", "s")]), &Value::Null)
    }

    /// Creates a loop that resumes from the log of this one.
    pub(super) fn resumed_loop(&self, spec: &Spec, around: &Value) -> Self {
        self.resumed_with(LOOP, spec, around)
    }

    fn resumed_with(&self, agent: LoopAgent, spec: &Spec, around: &Value) -> Self {
        let launching = Launching {
            past: &self.past(),
            ..Launching::new(spec)
        };
        Self::with(agent, &launching, around)
    }

    fn past(&self) -> Arc<[Event]> {
        let line = |(n, kind): (usize, &EventKind)| {
            let event = Event {
                seq: n as u64 + 1,
                at: Timestamp(0),
                session: "s".into(),
                turn: 1,
                kind: kind.clone(),
            };
            Event::from_json(&event.to_json()).unwrap()
        };
        self.events.iter().enumerate().map(line).collect()
    }

    /// Sends anything other than a prompt.
    pub(super) fn send(&mut self, say: ToAgent) {
        let mut out = Outbox::default();
        self.conversation.send(say, &mut out);
        self.take(out);
    }

    pub(super) fn steer(&mut self, text: &str) {
        self.events
            .push(Notice::new(Level::Info, NoticeCode::Steered, text).into());
        self.send(ToAgent::Steer(text.into()));
    }

    pub(super) fn verdict(&mut self, id: &str, verdict: Verdict) {
        self.send(ToAgent::Verdict {
            id: id.into(),
            verdict,
        });
    }

    pub(super) fn prompt(&mut self, prompt: &str) {
        self.events.push(
            TurnStarted {
                origin: Origin::Caller,
                prompt: Some(prompt.into()),
            }
            .into(),
        );
        self.send(ToAgent::Prompt(prompt.into()));
    }

    /// Approves calls, in a turn without a prompt.
    pub(super) fn approve(&mut self, ids: Vec<String>) {
        let (origin, prompt) = (Origin::Caller, None);
        self.events.push(TurnStarted { origin, prompt }.into());
        self.send(ToAgent::Approve(ids));
    }

    /// Returns the ids of the calls that the last turn ended with.
    pub(super) fn pending_calls(&self) -> Vec<String> {
        let ended = self.ended();
        let detail = ended.last().and_then(|ended| ended.outcome.detail.as_ref());
        detail.map_or_else(Vec::new, |detail| detail.pending_calls.clone())
    }

    pub(super) fn interrupt(&mut self) {
        self.send(ToAgent::Interrupt);
    }

    pub(super) fn feed(&mut self, line: &Value) {
        self.feed_text(&line.to_string());
    }

    pub(super) fn feed_text(&mut self, line: &str) {
        let mut out = Outbox::default();
        self.conversation.on_line(line, &mut out);
        self.take(out);
    }

    pub(super) fn take(&mut self, mut out: Outbox) {
        for out in out.drain() {
            match &out {
                FromConversation::Event(kind) => self.events.push(kind.clone()),
                FromConversation::TurnEnded(result) => self.close(result),
                _ => {}
            }
            self.outs.push(out);
        }
    }

    /// Emits what a session emits at the end of a turn.
    fn close(&mut self, result: &TurnResult) {
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
        let (outcome, text) = (
            result.outcome.clone(),
            result.text.clone().unwrap_or_default(),
        );
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

    /// Returns tool calls without a result.
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

    /// Returns the permission requests, in order.
    pub(super) fn permission_requests(&self) -> Vec<&PermissionRequest> {
        self.outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::AskPermission(ask) = out {
                    Some(ask)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Feeds a text answer of the model.
    pub(super) fn text(&mut self, text: &str) {
        self.feed(&json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]}));
        self.finish("stop");
    }

    /// Feeds the model's tool calls.
    pub(super) fn calls(&mut self, calls: &[(&str, &str, &str)]) {
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(n, (id, name, arguments))| json!({"index": n, "id": id, "function": {"name": name, "arguments": arguments}}))
            .collect();
        self.feed(&json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}));
        self.finish("tool_calls");
    }

    pub(super) fn finish(&mut self, reason: &str) {
        self.feed(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
        let sent = if self.counts {
            Value::from(self.last_request()).to_string().len() / 4
        } else {
            100
        };
        self.feed(
            &json!({"choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 40}}}),
        );
        self.feed_text("[DONE]");
        self.end_answer();
    }

    pub(super) fn end_answer(&mut self) {
        self.feed(&json!({"ostler": "over"}));
    }

    pub(super) fn result(&mut self, id: &str, output: &str) {
        self.feed(&json!({"ostler": {"result": {"id": id, "ok": true, "output": output}}}));
    }

    pub(super) fn commands(&self) -> Vec<Value> {
        let written = self.outs.iter().filter_map(|out| {
            if let FromConversation::Do(Action::Write(bytes)) = out {
                Some(bytes)
            } else {
                None
            }
        });
        written
            .map(|bytes| serde_json::from_slice(bytes).unwrap())
            .collect()
    }

    /// Returns the messages of the last request, as a server gets them.
    pub(super) fn last_request(&self) -> Vec<Value> {
        let commands = self.commands();
        let call = commands
            .iter()
            .rev()
            .find_map(|command| command.get("call"))
            .unwrap();
        let request: ModelRequest = serde_json::from_str(&call.to_string()).unwrap();
        wire_messages(&request)
    }

    pub(super) fn ended(&self) -> Vec<&TurnResult> {
        self.outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::TurnEnded(result) = out {
                    Some(result)
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
        self.events
            .iter()
            .filter_map(|kind| match kind {
                EventKind::Notice(notice) => Some(notice.code.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// Returns the messages of a request, as a server gets them.
pub(super) fn wire_messages(request: &ModelRequest) -> Vec<Value> {
    let body = RequestOptions::default().encode(request);
    let body: Value = serde_json::from_str(body.get()).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Creates the conversation of an agent.
pub(super) fn converse(agent: LoopAgent, launching: &Launching<'_>) -> Box<dyn Conversation> {
    Box::new(ModelConversation::new(
        LoopConfig::of(launching.spec, agent),
        launching.past,
    ))
}

pub(super) fn spec(settings: &[(&str, &str)]) -> Spec {
    let mut spec = Spec::default();
    spec.apply(&settings.iter().copied().collect()).unwrap();
    spec
}
