//! Mapping from events to the protocol's session updates. Pure.

use std::collections::HashMap;
use std::path::PathBuf;

use ostler::dialect::Dialect;
use ostler::event::{
    Decision, Level, Notice, Permission, RawJson, Text, TextKind, ToolCall, ToolResult, TurnStarted,
};
use ostler::{Event, EventKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::tool::{self, Content, Location, PlanEntry, TextBlock};

/// A session update.
#[derive(Debug, Serialize)]
#[serde(
    tag = "sessionUpdate",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Update {
    UserMessageChunk(Chunk),
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall(ToolCallUpdate),
    #[serde(rename = "tool_call_update")]
    ToolCallChanged(ToolCallUpdate),
    Plan {
        entries: Vec<PlanEntry>,
    },
    Notice {
        severity: &'static str,
        title: String,
    },
}

/// A chunk of a message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk {
    content: TextBlock,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

/// A tool call, or a change of it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCallUpdate {
    tool_call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<Content>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<Vec<Location>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_input: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_output: Option<RawJson>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

/// Returns extension data that the protocol does not define: the tool call that started the
/// sub-agent.
fn belongs_to(parent: Option<&String>) -> Option<Value> {
    parent.map(|parent| json!({"ostler": {"parent": parent}}))
}

/// A tool call to show.
struct ShownCall {
    update: ToolCallUpdate,
    diffs: Vec<Content>,
    plan: Vec<PlanEntry>,
}

/// Whether events are live or from the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Live,
    History,
}

/// Maps the events of a session to updates.
pub(crate) struct UpdateMapper {
    dialect: &'static dyn Dialect,
    /// Base directory of relative paths.
    dir: PathBuf,
    /// Whether the editor shows notices.
    notices: bool,
    /// Calls without a result, and whether each shows a diff.
    open: HashMap<String, bool>,
}

impl UpdateMapper {
    pub(crate) fn new(dialect: &'static dyn Dialect, dir: PathBuf, notices: bool) -> Self {
        Self {
            dialect,
            dir,
            notices,
            open: HashMap::new(),
        }
    }

    /// Returns the updates for an event. Events that only concern Ostler and the agent have none.
    pub(crate) fn updates_for(&mut self, event: &Event, when: When) -> Vec<Update> {
        match &event.kind {
            EventKind::TurnStarted(TurnStarted {
                prompt: Some(prompt),
                ..
            }) if when == When::History => {
                vec![Update::UserMessageChunk(chunk(prompt, None, None))]
            }
            EventKind::Text(text) => text_update(text),
            EventKind::ToolCall(call) => self.on_tool_call(call),
            EventKind::Permission(permission) if when == When::Live => {
                self.on_permission(permission)
            }
            EventKind::ToolResult(result) => {
                vec![Update::ToolCallChanged(self.on_tool_result(result))]
            }
            EventKind::Notice(notice) if when == When::Live => self.on_notice(notice),
            _ => Vec::new(),
        }
    }

    /// Returns the update that shows a call, except for its state and its diffs.
    fn shown(&self, name: &str, input: Option<&RawJson>) -> ShownCall {
        let null = RawJson::null();
        let wants = self.dialect.tool_use(name, input.unwrap_or(&null));
        let view = tool::view(name, input, &wants, &self.dir);
        let update = ToolCallUpdate {
            title: Some(view.title),
            name: Some(name.to_owned()),
            kind: Some(view.kind),
            locations: Some(view.locations),
            raw_input: input.cloned(),
            ..ToolCallUpdate::default()
        };
        ShownCall {
            update,
            diffs: view.diffs,
            plan: view.plan,
        }
    }

    fn on_tool_call(&mut self, call: &ToolCall) -> Vec<Update> {
        let shown = self.shown(&call.name, Some(&call.input));
        self.open.insert(call.id.clone(), !shown.diffs.is_empty());
        let update = Update::ToolCall(ToolCallUpdate {
            tool_call_id: call.id.clone(),
            status: Some("in_progress"),
            content: Some(shown.diffs),
            meta: belongs_to(call.parent.as_ref()),
            ..shown.update
        });
        let entries = Some(shown.plan).filter(|plan| !plan.is_empty());
        let plan = entries.map(|entries| Update::Plan { entries });
        std::iter::once(update).chain(plan).collect()
    }

    /// A call is pending while the user is asked about it.
    fn on_permission(&self, permission: &Permission) -> Vec<Update> {
        let status = match permission.decision {
            Decision::Asked => "pending",
            Decision::Allowed => "in_progress",
            Decision::Denied => return Vec::new(), // the result follows
        };
        if !self.open.contains_key(&permission.id) {
            return Vec::new();
        }
        vec![Update::ToolCallChanged(ToolCallUpdate {
            tool_call_id: permission.id.clone(),
            status: Some(status),
            ..ToolCallUpdate::default()
        })]
    }

    fn on_tool_result(&mut self, result: &ToolResult) -> ToolCallUpdate {
        let shows_change = self.open.remove(&result.id).unwrap_or(false);
        // New content replaces the old. A diff says more than a success message, so it stays.
        let keeps_diff = shows_change && result.ok;
        let text = || vec![Content::text(&*result.output)];
        ToolCallUpdate {
            tool_call_id: result.id.clone(),
            status: Some(if result.ok { "completed" } else { "failed" }),
            content: (!keeps_diff && !result.output.is_empty()).then(text),
            raw_output: result
                .content
                .clone()
                .or_else(|| keeps_diff.then(|| RawJson::string(&result.output))),
            ..ToolCallUpdate::default()
        }
    }

    /// Returns the tool call of a permission request.
    pub(crate) fn question(&self, permission: &Permission) -> ToolCallUpdate {
        let shown = self.shown(&permission.tool, permission.input.as_ref());
        let mut content = shown.diffs;
        content.extend(permission.message.iter().map(|why| Content::text(&**why)));
        ToolCallUpdate {
            tool_call_id: permission.id.clone(),
            status: Some("pending"),
            content: (!content.is_empty()).then_some(content),
            ..shown.update
        }
    }

    fn on_notice(&self, notice: &Notice) -> Vec<Update> {
        let severity = match notice.level {
            Level::Warning if self.notices => "warning",
            Level::Error if self.notices => "error",
            _ => return Vec::new(),
        };
        vec![Update::Notice {
            severity,
            title: notice.message.clone(),
        }]
    }
}

fn text_update(text: &Text) -> Vec<Update> {
    if text.text.is_empty() {
        return Vec::new();
    }
    let chunk = chunk(&text.text, text.message.as_ref(), text.parent.as_ref());
    // Text of a sub-agent is for the agent, not for the user.
    vec![match (text.kind, &text.parent) {
        (TextKind::Reply, None) => Update::AgentMessageChunk(chunk),
        _ => Update::AgentThoughtChunk(chunk),
    }]
}

fn chunk(text: &str, message: Option<&String>, parent: Option<&String>) -> Chunk {
    Chunk {
        content: TextBlock::Text {
            text: text.to_owned(),
        },
        message_id: message.cloned(),
        meta: belongs_to(parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler::Agents;
    use ostler::event::Timestamp;

    fn updates(notices: bool) -> UpdateMapper {
        UpdateMapper::new(
            Agents::builtin().get("claude").unwrap().dialect(),
            "/w".into(),
            notices,
        )
    }

    fn updates_of(updates: &mut UpdateMapper, when: When, kind: &Value) -> Vec<Value> {
        let kind = EventKind::from_json(&kind.to_string()).unwrap();
        let event = Event {
            seq: 1,
            at: Timestamp(0),
            session: "s".into(),
            turn: 1,
            kind,
        };
        updates
            .updates_for(&event, when)
            .iter()
            .map(|update| serde_json::to_value(update).unwrap())
            .collect()
    }

    fn one(kind: &Value) -> Vec<Value> {
        updates_of(&mut updates(false), When::Live, kind)
    }

    #[test]
    fn text_becomes_chunks() {
        let text = |kind: &str, parent: Option<&str>| {
            json!({
                "type": "text", "kind": kind, "text": "a", "delta": true, "message": "m",
                "parent": parent,
            })
        };
        let chunk = |kind: &str| {
            json!({
                "sessionUpdate": kind, "content": {"type": "text", "text": "a"}, "messageId": "m",
            })
        };
        assert_eq!(one(&text("reply", None)), [chunk("agent_message_chunk")]);
        assert_eq!(one(&text("thinking", None)), [chunk("agent_thought_chunk")]);
        let mut sub = chunk("agent_thought_chunk");
        sub["_meta"] = json!({"ostler": {"parent": "t"}});
        assert_eq!(one(&text("reply", Some("t"))), [sub]);
    }

    #[test]
    fn prompts_are_sent_only_for_history() {
        let turn = json!({"type": "turn_started", "origin": "caller", "prompt": "hi"});
        assert!(one(&turn).is_empty());
        let sent = updates_of(&mut updates(false), When::History, &turn);
        assert_eq!(
            sent,
            [
                json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}})
            ]
        );
    }

    #[test]
    fn tool_call_from_start_to_result() {
        let mut updates = updates(false);
        let mut send = |kind: &Value| updates_of(&mut updates, When::Live, kind);
        let input = json!({"file_path": "a.rs", "old_string": "1", "new_string": "2"});
        let call = send(
            &json!({"type": "tool_call", "id": "c", "name": "Edit", "input": input, "parent": null}),
        );
        let diff = json!({"type": "diff", "path": "/w/a.rs", "oldText": "1", "newText": "2"});
        assert_eq!(
            call,
            [
                json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit a.rs", "name": "Edit", "kind": "edit",
                "status": "in_progress", "content": [diff], "locations": [{"path": "/w/a.rs"}], "rawInput": input})
            ]
        );
        let permission = |decision: &str| {
            json!({
                "type": "permission", "id": "c", "tool": "Edit", "input": null,
                "decision": decision, "by": "person",
            })
        };
        let update = |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status});
        assert_eq!(send(&permission("asked")), [update("pending")]);
        assert_eq!(send(&permission("allowed")), [update("in_progress")]);
        assert!(send(&permission("denied")).is_empty());
        let result = json!({"type": "tool_result", "id": "c", "name": "Edit", "ok": true, "output": "ok", "denied": false});
        let mut ended = update("completed");
        ended["rawOutput"] = json!("ok");
        assert_eq!(send(&result), [ended], "the diff stays visible");
    }

    #[test]
    fn failed_call_shows_its_output() {
        let result = json!({"type": "tool_result", "id": "c", "name": "Bash", "ok": false, "output": "no", "denied": true});
        let content = json!([{"type": "content", "content": {"type": "text", "text": "no"}}]);
        let want = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "content": content});
        assert_eq!(one(&result), [want]);
    }

    #[test]
    fn notices_require_the_capability() {
        let notice =
            |level: &str| json!({"type": "notice", "level": level, "code": "c", "message": "m"});
        let mut wants = updates(true);
        assert!(one(&notice("error")).is_empty());
        assert!(updates_of(&mut wants, When::Live, &notice("info")).is_empty());
        let sent = updates_of(&mut wants, When::Live, &notice("warning"));
        assert_eq!(
            sent,
            [json!({"sessionUpdate": "notice", "severity": "warning", "title": "m"})]
        );
    }
}
