//! Normalized logs from the events of a session.

use std::borrow::Borrow;

use ostler_core::event::{Event, EventKind, TextKind};
use ostler_core::usage::Usage;

use super::{
    ExecutionFacts, LogError, LogMessage, LogToolCall, LogUsage, MessageRole, NormalizedLog,
    complete, empty,
};

/// Builds the log of a session.
#[must_use]
pub fn from_events(
    execution: &ExecutionFacts,
    events: impl IntoIterator<Item = impl Borrow<Event>>,
) -> NormalizedLog {
    let mut builder = Builder {
        log: empty(execution),
        open: None,
    };
    for event in events {
        builder.push(event.borrow());
    }
    builder.close();
    complete(builder.log)
}

/// A message of the agent that may still grow.
struct OpenMessage {
    message: LogMessage,
    /// The agent's id of the message.
    id: Option<String>,
}

struct Builder {
    log: NormalizedLog,
    open: Option<OpenMessage>,
}

impl Builder {
    fn push(&mut self, event: &Event) {
        let at = || Some(event.at.to_string());
        match &event.kind {
            EventKind::Started(started) => {
                if let Some(version) = &started.agent_version {
                    self.log.agent_info.version.clone_from(version);
                }
                if started.model.is_some() {
                    self.log.model_info.name.clone_from(&started.model);
                }
            }
            EventKind::TurnStarted(turn) => {
                self.close();
                if let Some(prompt) = &turn.prompt {
                    self.log.messages.push(LogMessage {
                        role: MessageRole::User,
                        content: prompt.clone(),
                        timestamp: at(),
                        tool_call_ids: Vec::new(),
                        tool_call_id: None,
                    });
                }
            }
            EventKind::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                self.text(event, &text.text, text.message.as_deref());
            }
            EventKind::ToolCall(call) => {
                let open = self.open.get_or_insert_with(|| assistant(event, None));
                open.message.tool_call_ids.push(call.id.clone());
                self.log.tool_calls.push(LogToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.input.get().to_owned(),
                    result: None,
                    ok: None,
                    timestamp: at(),
                });
            }
            EventKind::ToolResult(result) => {
                self.close();
                let calls = self.log.tool_calls.iter_mut().rev();
                if let Some(call) = calls.into_iter().find(|call| call.id == result.id) {
                    call.result = Some(result.output.clone());
                    call.ok = Some(result.ok);
                }
                self.log.messages.push(LogMessage {
                    role: MessageRole::Tool,
                    content: result.output.clone(),
                    timestamp: at(),
                    tool_call_ids: Vec::new(),
                    tool_call_id: Some(result.id.clone()),
                });
            }
            EventKind::TurnEnded(turn) => {
                self.close();
                if !turn.outcome.is_success() {
                    self.error(event, &turn.outcome);
                }
            }
            EventKind::Ended(ended) => {
                self.close();
                self.log.usage = ended.usage.as_ref().and_then(usage);
                if !ended.outcome.is_success() {
                    self.error(event, &ended.outcome);
                }
            }
            _ => {}
        }
    }

    /// Adds text to the open message, or starts another one.
    fn text(&mut self, event: &Event, text: &str, id: Option<&str>) {
        let continues = self.open.as_ref().is_some_and(|open| {
            open.message.tool_call_ids.is_empty() && (open.id.as_deref() == id || id.is_none())
        });
        if !continues {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| assistant(event, id));
        open.message.content.push_str(text);
    }

    /// Adds how a turn or the session ended, unless it is there already.
    fn error(&mut self, event: &Event, outcome: &ostler_core::outcome::Outcome) {
        let code = outcome.cause.as_str();
        let mut known = self.log.errors.iter();
        if known.any(|error| error.code.as_deref() == Some(code)) {
            return;
        }
        let message = match &outcome.hint {
            Some(hint) => format!("{} {hint}", outcome.message),
            None => outcome.message.clone(),
        };
        self.log.errors.push(LogError {
            code: Some(code.to_owned()),
            message,
            timestamp: Some(event.at.to_string()),
        });
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.log.messages.push(open.message);
        }
    }
}

fn assistant(event: &Event, id: Option<&str>) -> OpenMessage {
    OpenMessage {
        message: LogMessage {
            role: MessageRole::Assistant,
            content: String::new(),
            timestamp: Some(event.at.to_string()),
            tool_call_ids: Vec::new(),
            tool_call_id: None,
        },
        id: id.map(str::to_owned),
    }
}

/// Converts disjoint counters; `None` if nothing is known.
fn usage(usage: &Usage) -> Option<LogUsage> {
    let parts = [usage.input, usage.cache_read, usage.cache_write];
    let input = parts.into_iter().flatten().reduce(|a, b| a + b);
    let total = match (input, usage.output) {
        (Some(input), Some(output)) => Some(input + output),
        _ => None,
    };
    let known = input.is_some() || usage.output.is_some() || usage.cost_usd.is_some();
    known.then(|| LogUsage {
        input_tokens: input,
        cached_input_tokens: usage.cache_read,
        output_tokens: usage.output,
        reasoning_tokens: usage.reasoning,
        total_tokens: total,
        cost_usd: usage.cost_usd,
        cost_source: cost_source(usage),
    })
}

fn cost_source(usage: &Usage) -> String {
    use ostler_core::usage::CostSource;
    let name = match usage.cost_source {
        CostSource::Reported => "reported",
        CostSource::Estimated => "estimated",
        CostSource::Partial => "partial",
        CostSource::Unknown => "unknown",
    };
    name.to_owned()
}
