//! Items: what the agent says and does, in both languages.

use std::collections::{BTreeMap, BTreeSet};

use ostler_core::dialect::Outbox;
use ostler_core::event::{Level, Notice, Text, TextKind, ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::value::RawValue;

use super::tool_use;
use super::wire::{Item, Piece};
use crate::lenient::{Node, Scalar};

/// The items of a turn.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Whether text is shown as it is written.
    partial: bool,
    /// Where the session is.
    pub(super) home: Option<String>,
    /// Messages and thoughts that came in pieces.
    streamed: BTreeSet<String>,
    /// Tool calls by their ids: the tool and its arguments.
    pub(super) calls: BTreeMap<String, (String, RawJson)>,
    /// Calls of tools of MCP servers: which server.
    servers: BTreeMap<String, String>,
    /// Calls whose result was told.
    over: BTreeSet<String>,
    /// Why calls were denied here.
    pub(super) denials: BTreeMap<String, String>,
    /// The tools whose calls were denied.
    pub(super) denied: Vec<String>,
    /// What was said last.
    pub(super) answer: Option<String>,
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Thought,
    Call,
    /// Codex says that something is not as it should be.
    Warning,
    Compaction,
    /// It says nothing new: the caller's own words, the plan, marks of a mode.
    Silent,
    Unknown,
}

fn kind(item: &Item<'_>) -> Kind {
    match item.kind.or_empty() {
        "agentMessage" | "agent_message" => Kind::Message,
        "reasoning" => Kind::Thought,
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
        | "imageView" => Kind::Call,
        "error" => Kind::Warning,
        "contextCompaction" => Kind::Compaction,
        "userMessage" | "hookPrompt" | "plan" | "todo_list" | "subAgentActivity" | "sleep"
        | "functionCallOutput" | "enteredReviewMode" | "exitedReviewMode" => Kind::Silent,
        _ => Kind::Unknown,
    }
}

impl Items {
    /// None yet, in a session that is at home there.
    pub(super) fn new(home: Option<String>) -> Self {
        Self {
            home,
            ..Self::default()
        }
    }

    /// The same, with text as it is written if that is wanted.
    pub(super) fn showing(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Another turn begins.
    pub(super) fn renew(&mut self) {
        *self = Self {
            partial: self.partial,
            home: self.home.take(),
            ..Self::default()
        };
    }

    /// An item was begun.
    pub(super) fn begun(&mut self, item: &Item<'_>, out: &mut Outbox) {
        if kind(item) == Kind::Call {
            self.call(item, out);
        }
    }

    /// A piece of a message or a thought.
    pub(super) fn piece(&mut self, kind: TextKind, (id, text): (&str, &str), out: &mut Outbox) {
        if !self.partial || text.is_empty() {
            return;
        }
        if !self.streamed.contains(id) {
            self.streamed.insert(id.to_owned());
        }
        out.event(Text {
            kind,
            text: text.to_owned(),
            delta: true,
            message: Some(id.to_owned()),
            parent: None,
        });
    }

    /// An item is complete.
    pub(super) fn done(&mut self, item: &Item<'_>, raw: &str, out: &mut Outbox) {
        match kind(item) {
            Kind::Message => {
                let text = item.text.or_empty();
                self.answer = Some(text.to_owned())
                    .filter(|text| !text.is_empty())
                    .or(self.answer.take());
                self.whole(item, (TextKind::Reply, text.to_owned()), out);
            }
            Kind::Thought => self.whole(item, (TextKind::Thinking, thought(item)), out),
            Kind::Call => self.result(item, out),
            Kind::Warning => out.notice(Level::Warning, "agent_warning", item.message.or_empty()),
            Kind::Compaction => out.notice(
                Level::Info,
                "compacted",
                "The conversation was made shorter.",
            ),
            Kind::Silent => {}
            Kind::Unknown => unknown(
                raw,
                &format!("an item of type {:?}", item.kind.or_empty()),
                out,
            ),
        }
    }

    /// A message that did not come in pieces.
    fn whole(&mut self, item: &Item<'_>, (kind, text): (TextKind, String), out: &mut Outbox) {
        if !text.is_empty() && !self.streamed.contains(item.id.or_empty()) {
            out.event(Text {
                kind,
                text,
                delta: false,
                message: item.id.owned(),
                parent: None,
            });
        }
    }

    fn call(&mut self, item: &Item<'_>, out: &mut Outbox) {
        let id = item.id.or_empty();
        if self.calls.contains_key(id) {
            return;
        }
        let (name, input) = (tool(item), self.input(item));
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

    /// A call is over, and its result is nobody's business.
    pub(super) fn forget(&mut self, id: &str) {
        self.calls.remove(id);
        self.servers.remove(id);
    }

    /// What a change of files is to be has changed.
    pub(super) fn patched(&mut self, id: &str, changes: Option<&RawValue>) {
        if let (Some((_, input)), Some(_)) = (self.calls.get_mut(id), changes) {
            *input = tool_use::changes_input(changes);
        }
    }

    /// The open calls of tools of this MCP server with these arguments: Codex asks about one without saying which.
    pub(super) fn open_calls(&self, server: &str, input: &RawJson) -> Vec<(&String, &String)> {
        let of_server = |id: &String| self.servers.get(id).is_some_and(|of| of == server);
        let fits = |id: &String, given: &RawJson| {
            !self.over.contains(id) && of_server(id) && given == input
        };
        let all = self.calls.iter().filter(|(id, (_, given))| fits(id, given));
        all.map(|(id, (name, _))| (id, name)).collect()
    }

    /// A piece of a thought that is apart from the one before.
    pub(super) fn apart(&mut self, id: &str, out: &mut Outbox) {
        if self.streamed.contains(id) {
            self.piece(TextKind::Thinking, (id, "\n\n"), out);
        }
    }

    fn input(&self, item: &Item<'_>) -> RawJson {
        #[derive(Serialize)]
        struct Said<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            query: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            path: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            prompt: Option<&'a str>,
        }
        match item.kind.or_empty() {
            "commandExecution" | "command_execution" => tool_use::command_input(
                item.command.or_empty(),
                (item.cwd.text(), self.home.as_deref()),
                None,
            ),
            "fileChange" | "file_change" => tool_use::changes_input(item.changes),
            _ => match item.arguments {
                Some(arguments) => RawJson::keep(arguments),
                None => RawJson::of(&Said {
                    query: item.query.text(),
                    path: item.path.text(),
                    prompt: item.prompt.text(),
                }),
            },
        }
    }

    fn result(&mut self, item: &Item<'_>, out: &mut Outbox) {
        // Some are told of only when they are over.
        self.call(item, out);
        let id = item.id.or_empty();
        self.over.insert(id.to_owned());
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
            output(item)
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

/// The tool of a call, as the model knows it.
fn tool(item: &Item<'_>) -> String {
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

/// What came of a call, as text.
fn output(item: &Item<'_>) -> String {
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
    let text = |piece: &Node<'_, Piece<'_>>| piece.map().and_then(|piece| piece.text.owned());
    let texts: Vec<String> = pieces.0.iter().filter_map(text).collect();
    match (error, item.changes) {
        (Some(error), _) => error,
        (None, Some(changes)) => changed(changes),
        _ => texts.join("\n"),
    }
}

/// The files that were changed.
fn changed(changes: &RawValue) -> String {
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

/// Keeps a message that is not known here.
pub(super) fn unknown(raw: &str, kind: &str, out: &mut Outbox) {
    out.event(Notice::unknown_message(
        "Codex",
        kind,
        RawJson::parse(raw).ok(),
    ));
}
