//! Session export: events as Markdown or as JSON lines.
//!
//! Text from an agent, a model or a tool is untrusted: no part of it may become part of the
//! document's structure.

mod markdown;

use crate::clip::sanitize;
use crate::event::{Event, EventKind, Level, Text, TextKind, Timestamp, ToolCall, ToolResult};
use crate::log::SessionRecord;
use crate::outcome::Outcome;
use crate::usage::Usage;
use crate::{display, event};

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Markdown.
    Markdown,
    /// Each event as one line of JSON.
    Jsonl,
}

/// Incremental export of a session's events. At most one message and the open tool calls are in
/// memory.
#[derive(Debug)]
pub struct Export {
    page: Option<Page>,
    text: Option<OpenMessage>,
    calls: Vec<ToolCall>,
    has_replied: bool,
}

type Page = fn(&Block<'_>) -> String;

/// A message that is still being collected.
#[derive(Debug)]
struct OpenMessage {
    kind: TextKind,
    message: Option<String>,
    text: String,
}

/// A part of a transcript. All texts are free of escape sequences and control characters.
enum Block<'a> {
    Head(Head<'a>),
    /// Start of a turn, with the caller's message.
    Turn {
        number: u32,
        at: Timestamp,
        prompt: Option<String>,
    },
    Reply(String),
    Thinking(String),
    Tool {
        name: String,
        /// The command alone if it is the only argument, otherwise pretty-printed JSON.
        input: String,
        /// `None` if the call did not finish.
        result: Option<(CallStatus, String)>,
    },
    Warning(String),
    /// How the turn ended, in one line.
    TurnEnded(String),
    /// How the session ended, in one line.
    Ended(String),
    Foot,
}

struct Head<'a> {
    title: String,
    facts: Vec<(&'static str, std::borrow::Cow<'a, str>)>,
}

#[derive(Clone, Copy)]
enum CallStatus {
    Ok,
    Denied,
    Failed,
}

impl CallStatus {
    fn of(result: &ToolResult) -> Self {
        match (result.ok, result.denied) {
            (true, _) => Self::Ok,
            (false, true) => Self::Denied,
            (false, false) => Self::Failed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

impl Export {
    /// Starts an export.
    #[must_use]
    pub fn new(format: ExportFormat) -> Self {
        let page: Option<Page> = match format {
            ExportFormat::Markdown => Some(markdown::block),
            ExportFormat::Jsonl => None,
        };
        Self {
            page,
            text: None,
            calls: Vec::new(),
            has_replied: false,
        }
    }

    /// Returns the beginning of the document.
    #[must_use]
    pub fn head(&self, session: &SessionRecord, began_at: Timestamp) -> String {
        let version = session
            .agent_version
            .as_deref()
            .map(|it| format!(" {}", one_line(it)))
            .unwrap_or_default();
        let mut facts = vec![
            ("Session", one_line(&session.session).into()),
            (
                "Agent",
                format!("{}{version}", one_line(&session.agent)).into(),
            ),
            ("Directory", one_line(&session.dir.to_string_lossy()).into()),
            ("Started", began_at.to_string().into()),
        ];
        if let Some(native) = &session.native_session {
            facts.insert(2, ("Agent's session id", one_line(native).into()));
        }
        let title = format!(
            "{} session {}",
            one_line(&session.agent),
            one_line(display::short_id(&session.session))
        );
        self.write(&Block::Head(Head { title, facts }))
    }

    /// Returns what an event adds to the document; often nothing.
    #[must_use]
    pub fn event(&mut self, event: &Event) -> String {
        if self.page.is_none() {
            return format!("{}\n", event.to_json());
        }
        match &event.kind {
            EventKind::Text(text) if text.parent.is_none() => self.text(text),
            EventKind::TurnStarted(turn) => {
                self.has_replied = false;
                let prompt = turn.prompt.as_deref().map(sanitize);
                self.then_block(&Block::Turn {
                    number: event.turn,
                    at: event.at,
                    prompt,
                })
            }
            EventKind::ToolCall(call) => {
                self.calls.push(call.clone());
                self.end_message()
            }
            EventKind::ToolResult(result) => self.tool_result(result),
            EventKind::Notice(notice) if notice.level >= Level::Warning => {
                self.then_block(&Block::Warning(one_line(&notice.message)))
            }
            EventKind::TurnEnded(turn) => self.turn_ended(turn),
            EventKind::Ended(ended) => {
                let end = summary(&ended.outcome, ended.usage.as_ref());
                let cut = self.unfinished_calls();
                cut + &self.then_block(&Block::Ended(end))
            }
            _ => String::new(),
        }
    }

    /// Returns the end of the document.
    #[must_use]
    pub fn foot(mut self) -> String {
        let cut = self.unfinished_calls();
        cut + &self.then_block(&Block::Foot)
    }

    fn write(&self, block: &Block<'_>) -> String {
        self.page.map_or_else(String::new, |page| page(block))
    }

    /// Ends the current message.
    fn end_message(&mut self) -> String {
        match self.text.take() {
            Some(OpenMessage { text, .. }) if text.trim().is_empty() => String::new(),
            Some(OpenMessage {
                kind: TextKind::Reply,
                text,
                ..
            }) => {
                self.has_replied = true;
                self.write(&Block::Reply(sanitize(&text)))
            }
            Some(OpenMessage {
                kind: TextKind::Thinking,
                text,
                ..
            }) => self.write(&Block::Thinking(sanitize(&text))),
            None => String::new(),
        }
    }

    /// Ends the current message and appends a block.
    fn then_block(&mut self, block: &Block<'_>) -> String {
        let before = self.end_message();
        before + &self.write(block)
    }

    fn text(&mut self, text: &Text) -> String {
        let continues = |open: &OpenMessage| {
            text.delta && open.kind == text.kind && open.message == text.message
        };
        if let Some(open) = self.text.as_mut().filter(|open| continues(open)) {
            open.text.push_str(&text.text);
            return String::new();
        }
        let before = self.end_message();
        self.text = Some(OpenMessage {
            kind: text.kind,
            message: text.message.clone(),
            text: text.text.clone(),
        });
        before
    }

    fn tool_result(&mut self, result: &ToolResult) -> String {
        let call = self
            .calls
            .iter()
            .position(|call| call.id == result.id)
            .map(|at| self.calls.remove(at));
        let name = result
            .name
            .as_deref()
            .or(call.as_ref().map(|call| &*call.name))
            .unwrap_or("tool");
        let input = call.as_ref().map(call_input).unwrap_or_default();
        let result = Some((CallStatus::of(result), sanitize(&result.output)));
        self.then_block(&Block::Tool {
            name: one_line(name),
            input,
            result,
        })
    }

    fn turn_ended(&mut self, turn: &event::TurnEnded) -> String {
        let mut text = self.unfinished_calls();
        text += &self.end_message();
        if !self.has_replied && !turn.text.trim().is_empty() {
            text += &self.write(&Block::Reply(sanitize(&turn.text)));
        }
        text + &self.write(&Block::TurnEnded(summary(
            &turn.outcome,
            turn.usage.as_ref(),
        )))
    }

    /// Returns the calls that did not finish.
    fn unfinished_calls(&mut self) -> String {
        let calls = std::mem::take(&mut self.calls);
        calls
            .iter()
            .map(|call| {
                self.then_block(&Block::Tool {
                    name: one_line(&call.name),
                    input: call_input(call),
                    result: None,
                })
            })
            .collect()
    }
}

/// Returns a value on one line.
fn one_line(text: &str) -> String {
    sanitize(text).replace(['\n', '\t'], " ")
}

/// Returns the arguments of a call as text.
fn call_input(call: &ToolCall) -> String {
    let Ok(serde_json::Value::Object(map)) = serde_json::from_str(call.input.get()) else {
        return sanitize(call.input.get());
    };
    let command = map.get("command").and_then(serde_json::Value::as_str);
    match command.filter(|command| map.len() == 1 && !command.is_empty()) {
        Some(command) => sanitize(command),
        None => sanitize(&format!("{:#}", serde_json::Value::from(map))),
    }
}

fn summary(outcome: &Outcome, usage: Option<&Usage>) -> String {
    let mut parts = vec![outcome.cause.to_string()];
    if let Some(usage) = usage {
        parts.extend(usage.total().map(|total| format!("{total} tokens")));
        parts.extend(
            usage
                .cost_usd
                .map(|cost| display::cost(cost, usage.cost_source)),
        );
    }
    if !outcome.is_success() {
        parts.push(one_line(&outcome.message));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests;
