//! Export of a session: its events as Markdown, as a self-contained HTML page, or as JSON lines.
//!
//! What an agent, a model or a tool wrote is hostile: no part of it may become part of the page's structure.

mod html;
mod markdown;

use crate::clip::plain;
use crate::event::{At, Event, EventKind, Level, Text, TextKind, ToolCall, ToolResult};
use crate::log::SessionRecord;
use crate::outcome::Outcome;
use crate::usage::Usage;
use crate::{brief, event};

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Markdown.
    Markdown,
    /// One HTML page without scripts or anything to load.
    Html,
    /// Every event as one line of JSON.
    Jsonl,
}

/// Turns a session's events into a text, piece by piece. At most one message and the open tool calls are in memory.
#[derive(Debug)]
pub struct Export {
    page: Option<Page>,
    text: Option<Pending>,
    calls: Vec<ToolCall>,
    has_replied: bool,
}

type Page = fn(&Block<'_>) -> String;

/// A message whose pieces are being gathered.
#[derive(Debug)]
struct Pending {
    kind: TextKind,
    message: Option<String>,
    text: String,
}

/// A part of a transcript. All texts are free of escape sequences and control characters.
enum Block<'a> {
    Head(Head<'a>),
    /// A turn begins, with the caller's message.
    Turn {
        number: u32,
        at: At,
        prompt: Option<String>,
    },
    Reply(String),
    Thinking(String),
    Tool {
        name: String,
        input: Input,
        /// None if the call never came to its end.
        result: Option<(Verdict, String)>,
    },
    Warning(String),
    /// How the turn ended, in one line.
    TurnEnded(String),
    /// How the session ended, in one line.
    Ended(String),
    Foot,
}

/// The arguments of a call.
#[derive(Default)]
struct Input {
    /// What the call is about, on one line.
    subject: String,
    /// The command alone if that is all there is, otherwise JSON with line breaks.
    text: String,
}

/// Maximum number of characters of a call's subject.
const SUBJECT: usize = 100;

struct Head<'a> {
    title: String,
    facts: Vec<(&'static str, std::borrow::Cow<'a, str>)>,
}

#[derive(Clone, Copy)]
enum Verdict {
    Ok,
    Denied,
    Failed,
}

impl Verdict {
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
    /// Prepares an export.
    #[must_use]
    pub fn new(format: ExportFormat) -> Self {
        let page: Option<Page> = match format {
            ExportFormat::Markdown => Some(markdown::block),
            ExportFormat::Html => Some(html::block),
            ExportFormat::Jsonl => None,
        };
        Self {
            page,
            text: None,
            calls: Vec::new(),
            has_replied: false,
        }
    }

    /// Returns the beginning of the text.
    #[must_use]
    pub fn head(&self, session: &SessionRecord, began_at: At) -> String {
        let version = session
            .agent_version
            .as_deref()
            .map(|it| format!(" {}", line(it)))
            .unwrap_or_default();
        let mut facts = vec![
            ("Session", line(&session.session).into()),
            ("Agent", format!("{}{version}", line(&session.agent)).into()),
            ("Directory", line(&session.dir.to_string_lossy()).into()),
            ("Started", began_at.to_string().into()),
        ];
        if let Some(native) = &session.native_session {
            facts.insert(2, ("Agent's session id", line(native).into()));
        }
        let title = format!(
            "{} session {}",
            line(&session.agent),
            line(brief::short_id(&session.session))
        );
        self.write(&Block::Head(Head { title, facts }))
    }

    /// Returns what an event adds to the text; often nothing.
    #[must_use]
    pub fn event(&mut self, event: &Event) -> String {
        if self.page.is_none() {
            return format!("{}\n", event.to_json());
        }
        match &event.kind {
            EventKind::Text(text) if text.parent.is_none() => self.text(text),
            EventKind::TurnStarted(turn) => {
                self.has_replied = false;
                let prompt = turn.prompt.as_deref().map(plain);
                self.settled(&Block::Turn {
                    number: event.turn,
                    at: event.at,
                    prompt,
                })
            }
            EventKind::ToolCall(call) => {
                self.calls.push(call.clone());
                self.settle()
            }
            EventKind::ToolResult(result) => self.tool_result(result),
            EventKind::Notice(notice) if notice.level >= Level::Warning => {
                self.settled(&Block::Warning(line(&notice.message)))
            }
            EventKind::TurnEnded(turn) => self.turn_ended(turn),
            EventKind::Ended(ended) => {
                let end = ending(&ended.outcome, ended.usage.as_ref());
                let cut = self.cut_off();
                cut + &self.settled(&Block::Ended(end))
            }
            _ => String::new(),
        }
    }

    /// Returns the end of the text.
    #[must_use]
    pub fn foot(mut self) -> String {
        let cut = self.cut_off();
        cut + &self.settled(&Block::Foot)
    }

    fn write(&self, block: &Block<'_>) -> String {
        self.page.map_or_else(String::new, |page| page(block))
    }

    /// Ends the message under way.
    fn settle(&mut self) -> String {
        match self.text.take() {
            Some(Pending { text, .. }) if text.trim().is_empty() => String::new(),
            Some(Pending {
                kind: TextKind::Reply,
                text,
                ..
            }) => {
                self.has_replied = true;
                self.write(&Block::Reply(plain(&text)))
            }
            Some(Pending {
                kind: TextKind::Thinking,
                text,
                ..
            }) => self.write(&Block::Thinking(plain(&text))),
            None => String::new(),
        }
    }

    /// A block behind the message under way.
    fn settled(&mut self, block: &Block<'_>) -> String {
        let before = self.settle();
        before + &self.write(block)
    }

    fn text(&mut self, text: &Text) -> String {
        let goes_on =
            |open: &Pending| text.delta && open.kind == text.kind && open.message == text.message;
        if let Some(open) = self.text.as_mut().filter(|open| goes_on(open)) {
            open.text.push_str(&text.text);
            return String::new();
        }
        let before = self.settle();
        self.text = Some(Pending {
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
        let input = call.as_ref().map(Input::of).unwrap_or_default();
        let result = Some((Verdict::of(result), plain(&result.output)));
        self.settled(&Block::Tool {
            name: line(name),
            input,
            result,
        })
    }

    fn turn_ended(&mut self, turn: &event::TurnEnded) -> String {
        let mut text = self.cut_off();
        text += &self.settle();
        if !self.has_replied && !turn.text.trim().is_empty() {
            text += &self.write(&Block::Reply(plain(&turn.text)));
        }
        text + &self.write(&Block::TurnEnded(ending(
            &turn.outcome,
            turn.usage.as_ref(),
        )))
    }

    /// Calls that never came to their end.
    fn cut_off(&mut self) -> String {
        let calls = std::mem::take(&mut self.calls);
        calls
            .iter()
            .map(|call| {
                self.settled(&Block::Tool {
                    name: line(&call.name),
                    input: Input::of(call),
                    result: None,
                })
            })
            .collect()
    }
}

/// A value on one line.
fn line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

impl Input {
    fn of(call: &ToolCall) -> Self {
        let Ok(serde_json::Value::Object(map)) = serde_json::from_str(call.input.get()) else {
            return Self {
                subject: String::new(),
                text: plain(call.input.get()),
            };
        };
        let named = ["command", "path", "file_path", "pattern"]
            .iter()
            .find_map(|key| map.get(*key)?.as_str());
        let subject = named
            .or_else(|| map.values().find_map(|value| value.as_str()))
            .unwrap_or_default();
        let only_command = map.len() == 1 && map.contains_key("command") && !subject.is_empty();
        let text = if only_command {
            plain(subject)
        } else {
            plain(&format!("{:#}", serde_json::Value::from(map.clone())))
        };
        Self {
            subject: line(subject).chars().take(SUBJECT).collect(),
            text,
        }
    }
}

fn ending(outcome: &Outcome, usage: Option<&Usage>) -> String {
    let mut parts = vec![outcome.cause.to_string()];
    if let Some(usage) = usage {
        parts.extend(usage.total().map(|total| format!("{total} tokens")));
        parts.extend(
            usage
                .cost_usd
                .map(|cost| brief::cost(cost, usage.cost_source)),
        );
    }
    if !outcome.is_success() {
        parts.push(line(&outcome.message));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests;
