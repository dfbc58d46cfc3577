//! Items: what the agent says and does, over either transport.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, NoticeCode, Text, TextKind, ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::json;
use serde_json::value::RawValue;

use super::wire::Item;
use super::{TITLE, tool_use};
use crate::json_lines::{report_unknown, without_nulls};
use crate::lenient::Scalar;

/// A part of a message that is streamed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delta<'a> {
    pub(super) kind: TextKind,
    pub(super) message: &'a str,
    pub(super) text: &'a str,
}

/// The items of a turn.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Whether text is streamed as it is written.
    partial: bool,
    /// Directory of the session.
    pub(super) session_dir: Option<String>,
    /// Messages and thoughts that were streamed.
    streamed: BTreeSet<String>,
    /// Tool calls by id: the tool and its arguments.
    pub(super) calls: BTreeMap<String, (String, RawJson)>,
    /// Servers of calls to MCP tools, by call id.
    servers: BTreeMap<String, String>,
    /// Calls whose result was reported.
    finished: BTreeSet<String>,
    /// Reasons of denials, by call id.
    pub(super) denials: BTreeMap<String, String>,
    /// Tools whose calls were denied.
    pub(super) denied: Vec<String>,
    /// Last message.
    pub(super) reply: Option<String>,
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Thought,
    Call,
    /// A warning of Codex.
    Warning,
    Compaction,
    /// Nothing new: the caller's own messages, the plan, mode markers.
    Silent,
    Unknown,
}

fn kind(item: &Item<'_>) -> ItemKind {
    match item.kind.or_empty() {
        "agentMessage" | "agent_message" => ItemKind::Message,
        "reasoning" => ItemKind::Thought,
        "commandExecution"
        | "command_execution"
        | "fileChange"
        | "file_change"
        | "mcpToolCall"
        | "mcp_tool_call"
        | "dynamicToolCall"
        | "collabAgentToolCall"
        | "collab_tool_call"
        | "webSearch"
        | "web_search"
        | "imageView" => ItemKind::Call,
        "error" => ItemKind::Warning,
        "contextCompaction" => ItemKind::Compaction,
        "userMessage" | "hookPrompt" | "plan" | "todo_list" | "subAgentActivity" | "sleep"
        | "functionCallOutput" | "enteredReviewMode" | "exitedReviewMode" => ItemKind::Silent,
        _ => ItemKind::Unknown,
    }
}

impl Items {
    /// Creates an empty set of items for a session in this directory.
    pub(super) fn new(session_dir: Option<String>) -> Self {
        Self {
            session_dir,
            ..Self::default()
        }
    }

    /// Sets whether text is streamed as it is written.
    pub(super) fn streaming(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Starts a turn.
    pub(super) fn start_turn(&mut self) {
        *self = Self {
            partial: self.partial,
            session_dir: self.session_dir.take(),
            ..Self::default()
        };
    }

    /// Handles the start of an item.
    pub(super) fn on_started(&mut self, item: &Item<'_>, out: &mut Outbox) {
        if kind(item) == ItemKind::Call {
            self.call(item, out);
        }
    }

    /// Handles a delta of a message or a thought.
    pub(super) fn on_delta(&mut self, delta: Delta<'_>, out: &mut Outbox) {
        let Delta {
            kind,
            message,
            text,
        } = delta;
        if !self.partial || text.is_empty() {
            return;
        }
        if !self.streamed.contains(message) {
            self.streamed.insert(message.to_owned());
        }
        out.event(Text {
            kind,
            text: text.to_owned(),
            delta: true,
            message: Some(message.to_owned()),
            parent: None,
        });
    }

    /// Handles a completed item.
    pub(super) fn on_completed(&mut self, item: &Item<'_>, raw: &str, out: &mut Outbox) {
        match kind(item) {
            ItemKind::Message => {
                let text = item.text.or_empty();
                self.reply = Some(text.to_owned())
                    .filter(|text| !text.is_empty())
                    .or(self.reply.take());
                self.emit_text(whole(item, TextKind::Reply, text.to_owned()), out);
            }
            ItemKind::Thought => {
                self.emit_text(whole(item, TextKind::Thinking, thought(item)), out);
            }
            ItemKind::Call => self.result(item, out),
            ItemKind::Warning => {
                out.warn(NoticeCode::AgentWarning, item.message.or_empty());
            }
            ItemKind::Compaction => {
                out.notice(
                    Level::Info,
                    NoticeCode::Compacted,
                    "The conversation was compacted.",
                );
            }
            ItemKind::Silent => {}
            ItemKind::Unknown => {
                let kind = format!("an item of type {:?}", item.kind.or_empty());
                report_unknown(TITLE, &kind, raw, out);
            }
        }
    }

    /// Emits a whole message, unless it was streamed.
    fn emit_text(&mut self, text: Text, out: &mut Outbox) {
        let id = text.message.as_deref().unwrap_or_default();
        if !text.text.is_empty() && !self.streamed.contains(id) {
            out.event(text);
        }
    }

    fn call(&mut self, item: &Item<'_>, out: &mut Outbox) {
        let id = item.id.or_empty();
        if self.calls.contains_key(id) {
            return;
        }
        let (name, input) = (tool_name(item), self.input(item));
        self.calls
            .insert(id.to_owned(), (name.clone(), input.clone()));
        self.servers
            .extend(item.server.owned().map(|server| (id.to_owned(), server)));
        out.event(ToolCall {
            id: id.to_owned(),
            name,
            input,
            parent: None,
        });
    }

    /// Removes a finished call whose result is not reported.
    pub(super) fn remove(&mut self, id: &str) {
        self.calls.remove(id);
        self.servers.remove(id);
    }

    /// Updates the changes of a file change.
    pub(super) fn on_patch_updated(&mut self, id: &str, changes: Option<&RawValue>) {
        if let (Some((_, input)), Some(_)) = (self.calls.get_mut(id), changes) {
            *input = tool_use::changes_input(changes);
        }
    }

    /// Returns the open calls to this MCP server's tools with these arguments. Codex asks about one
    /// without naming it.
    pub(super) fn open_calls(&self, server: &str, input: &RawJson) -> Vec<(&String, &String)> {
        let of_server = |id: &String| self.servers.get(id).is_some_and(|of| of == server);
        let fits = |id: &String, given: &RawJson| {
            !self.finished.contains(id) && of_server(id) && given == input
        };
        let all = self.calls.iter().filter(|(id, (_, given))| fits(id, given));
        all.map(|(id, (name, _))| (id, name)).collect()
    }

    /// Handles the start of another part of a thought.
    pub(super) fn on_part_added(&mut self, id: &str, out: &mut Outbox) {
        if self.streamed.contains(id) {
            let delta = Delta {
                kind: TextKind::Thinking,
                message: id,
                text: "\n\n",
            };
            self.on_delta(delta, out);
        }
    }

    fn input(&self, item: &Item<'_>) -> RawJson {
        match item.kind.or_empty() {
            "commandExecution" | "command_execution" => {
                let command = tool_use::CommandInput {
                    command: item.command.or_empty(),
                    cwd: item.cwd.text(),
                    session_dir: self.session_dir.as_deref(),
                    reason: None,
                };
                command.arguments()
            }
            "fileChange" | "file_change" => tool_use::changes_input(item.changes),
            _ => match item.arguments {
                Some(arguments) => RawJson::from_raw(arguments),
                None => RawJson::of(&without_nulls(json!({
                    "query": item.query.text(),
                    "path": item.path.text(),
                    "prompt": item.prompt.text(),
                }))),
            },
        }
    }

    fn result(&mut self, item: &Item<'_>, out: &mut Outbox) {
        // Some calls are reported only when they have finished.
        self.call(item, out);
        let id = item.id.or_empty();
        self.finished.insert(id.to_owned());
        let name = self.calls.get(id).map(|(name, _)| name.clone());
        let reason = self.denials.remove(id);
        let denied = item.status.text() == Some("declined") || reason.is_some();
        if denied {
            self.denied.extend(name.clone());
        }
        let failed = denied
            || item.status.text() == Some("failed")
            || item.success.is_false()
            || matches!(item.exit_code, Scalar::Count(1..) | Scalar::Amount(_));
        let output = if denied {
            reason.unwrap_or_else(|| "Denied.".to_owned())
        } else {
            tool_output(item)
        };
        out.event(ToolResult {
            id: id.to_owned(),
            name,
            ok: !failed,
            output,
            denied,
            content: None,
        });
    }
}

/// Returns the event of a whole message.
fn whole(item: &Item<'_>, kind: TextKind, text: String) -> Text {
    Text {
        kind,
        text,
        delta: false,
        message: item.id.owned(),
        parent: None,
    }
}

/// Returns the tool of a call, as the model knows it.
fn tool_name(item: &Item<'_>) -> String {
    match item.kind.or_empty() {
        "commandExecution" | "command_execution" => tool_use::COMMAND.to_owned(),
        "fileChange" | "file_change" => tool_use::PATCH.to_owned(),
        "mcpToolCall" | "mcp_tool_call" => {
            tool_use::mcp(item.server.or_empty(), item.tool.or_empty())
        }
        "webSearch" | "web_search" => tool_use::SEARCH.to_owned(),
        "imageView" => tool_use::IMAGE.to_owned(),
        _ => item.tool.text().unwrap_or("unknown").to_owned(),
    }
}

/// Returns the result of a call as text.
fn tool_output(item: &Item<'_>) -> String {
    if let Some(text) = item.aggregated_output.text() {
        return text.to_owned();
    }
    let error = item
        .error
        .map()
        .and_then(|error| error.message.owned())
        .or_else(|| item.error.text().map(str::to_owned));
    let pieces = item
        .result
        .map()
        .map_or(&item.content_items, |result| &result.content);
    let texts: Vec<&str> = pieces.iter().filter_map(|item| item.text.text()).collect();
    match (error, item.changes) {
        (Some(error), _) => error,
        (None, Some(changes)) => changed_files(changes),
        _ => texts.join("\n"),
    }
}

/// Returns the changed files.
fn changed_files(changes: &RawValue) -> String {
    tool_use::paths(changes.get()).join("\n")
}

fn thought(item: &Item<'_>) -> String {
    let texts = |list: &[Scalar<'_>]| {
        list.iter()
            .filter_map(Scalar::text)
            .collect::<Vec<_>>()
            .join("\n\n")
    };
    let summary = texts(&item.summary.0);
    match (summary.is_empty(), item.text.text()) {
        (false, _) => summary,
        (true, Some(text)) => text.to_owned(),
        (true, None) => texts(&item.content.0),
    }
}
