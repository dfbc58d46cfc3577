//! A conversation with an ACP agent, driven message by message.

use ostler_core::dialect::{
    Action, Bridge, Conversation, Dialect, Exit, FromConversation, Launching, Outbox, ToAgent,
    TurnResult,
};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::permission::{PermissionRequest, Verdict};
use ostler_core::spec::Spec;
use serde_json::{Value, json};

/// A conversation that records its output.
pub(super) struct Harness {
    conversation: Box<dyn Conversation>,
    pub(super) outs: Vec<FromConversation>,
}

impl Harness {
    /// Starts a conversation that has received nothing yet.
    pub(super) fn started(dialect: &dyn Dialect, spec: &Spec) -> Self {
        Self::launched(dialect, &Launching::new(spec))
    }

    /// Starts a conversation with a bridge to the caller's tools.
    pub(super) fn bridged(dialect: &dyn Dialect, spec: &Spec) -> Self {
        let bridge = Bridge {
            program: "/bin/ostler".into(),
            args: vec!["bridge".into()],
        };
        let launching = Launching {
            bridge: Some(&bridge),
            ..Launching::new(spec)
        };
        Self::launched(dialect, &launching)
    }

    fn launched(dialect: &dyn Dialect, launching: &Launching<'_>) -> Self {
        let mut harness = Self {
            conversation: dialect.converse(launching),
            outs: Vec::new(),
        };
        harness.act(|conversation, out| conversation.on_start(out));
        harness
    }

    /// Starts a conversation with the session `s` and a turn in progress, which is request 3.
    pub(super) fn asked(dialect: &dyn Dialect, spec: &Spec) -> Self {
        Self::started(dialect, spec).in_turn()
    }

    /// Opens the session `s` and starts a turn, which is request 3.
    pub(super) fn in_turn(mut self) -> Self {
        self.send(ToAgent::Prompt("hello".into()));
        self.answer(1, &hello(&json!({})));
        self.answer(2, &json!({"sessionId": "s"}));
        self.outs.clear();
        self
    }

    fn act(&mut self, act: impl FnOnce(&mut dyn Conversation, &mut Outbox)) {
        let mut out = Outbox::default();
        act(&mut *self.conversation, &mut out);
        self.outs.extend(out.drain());
    }

    pub(super) fn send(&mut self, message: ToAgent) {
        self.act(|conversation, out| conversation.send(message, out));
    }

    pub(super) fn line(&mut self, line: &str) {
        self.act(|conversation, out| conversation.on_line(line, out));
    }

    pub(super) fn bridge_line(&mut self, from: u32, message: &Value) {
        self.act(|conversation, out| conversation.on_bridge_line(from, &message.to_string(), out));
    }

    pub(super) fn owes_bridge_reply(&self, bridge: u32) -> bool {
        self.conversation.owes_bridge_reply(bridge)
    }

    pub(super) fn bridge_closed(&mut self, bridge: u32) {
        self.act(|conversation, out| conversation.on_bridge_closed(bridge, out));
    }

    pub(super) fn exit(&mut self, exit: &Exit) {
        self.act(|conversation, out| conversation.on_exit(exit, out));
    }

    /// Returns the notices with this code.
    pub(super) fn notices(&self, code: &str) -> Vec<&str> {
        let notices = self.outs.iter().filter_map(|out| match out {
            FromConversation::Event(EventKind::Notice(notice)) if notice.code.as_str() == code => {
                Some(notice.message.as_str())
            }
            _ => None,
        });
        notices.collect()
    }

    pub(super) fn message(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    pub(super) fn answer(&mut self, id: u64, result: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(super) fn fail(&mut self, id: u64, code: i64, message: &str) {
        self.message(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        );
    }

    pub(super) fn update(&mut self, update: &Value) {
        self.message(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        );
    }

    pub(super) fn text(&mut self, text: &str) {
        self.update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
    }

    /// Sends a permission request with the id 7.
    pub(super) fn permission(&mut self, call: &Value, options: &Value) {
        let params = json!({"sessionId": "s", "toolCall": call, "options": options});
        self.message(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
    }

    pub(super) fn verdict(&mut self, verdict: Verdict) {
        let id = self.asks().last().unwrap().id.clone();
        self.send(ToAgent::Verdict { id, verdict });
    }

    pub(super) fn asks(&self) -> Vec<&PermissionRequest> {
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

    /// Returns the messages written to the agent, as JSON.
    pub(super) fn writes(&self) -> Vec<Value> {
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

    /// Returns a summary of the events.
    pub(super) fn story(&self) -> Vec<String> {
        let events = self.outs.iter().filter_map(|out| {
            if let FromConversation::Event(kind) = out {
                Some(kind)
            } else {
                None
            }
        });
        events
            .map(|kind| match kind {
                EventKind::Text(it) => format!("{:?} {}", it.kind, it.text),
                EventKind::ToolCall(it) => format!("call {} {} {}", it.id, it.name, it.input.get()),
                EventKind::ToolResult(it) => {
                    let how = if it.denied {
                        "denied"
                    } else if it.ok {
                        "ok"
                    } else {
                        "failed"
                    };
                    format!("result {} {how} {}", it.id, it.output)
                }
                EventKind::Notice(it) => format!("notice {}", it.code),
                EventKind::Unreadable(it) => format!("unreadable {}", it.raw),
                other => other.as_str().to_owned(),
            })
            .collect()
    }

    pub(super) fn turn_result(&self) -> Option<&TurnResult> {
        self.outs.iter().rev().find_map(|out| {
            if let FromConversation::TurnEnded(over) = out {
                Some(over)
            } else {
                None
            }
        })
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        self.turn_result().map(|over| over.outcome.cause)
    }
}

/// Returns a response to `initialize`.
pub(super) fn hello(capabilities: &Value) -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": {"name": "x", "version": "1.2.3"}})
}

/// Returns the options that most agents offer.
pub(super) fn usual() -> Value {
    json!([
        {"optionId": "always", "kind": "allow_always", "name": "Always"},
        {"optionId": "yes", "kind": "allow_once", "name": "Yes"},
        {"optionId": "no", "kind": "reject_once", "name": "No"},
    ])
}
