//! Timeline of a session: turns, tools, waits, thinking and tokens over time.

use std::collections::HashMap;

use ostler_core::event::{Decision, Event, EventKind, TextKind, Timestamp};
use ostler_core::outcome::Cause;
use ostler_core::usage::{Scope, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::ToolContext;

/// Maximum number of spans, and of token counts. Beyond that, neighbours are merged.
pub const MAX_SPANS: usize = 2_000;

/// Number of kinds of spans.
const KINDS: usize = 3;

/// Timeline of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// Time of the first event.
    pub from: Option<Timestamp>,
    /// Time of the last event.
    pub to: Option<Timestamp>,
    /// The turns.
    pub turns: Vec<TurnSpan>,
    /// Tools, waits and thinking, by their start.
    pub spans: Vec<Span>,
    /// Tokens of the session so far, over time.
    pub tokens: Vec<TokenCount>,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TurnSpan {
    /// Its number.
    pub turn: u32,
    /// When it started.
    pub from: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Its first event.
    pub seq: u64,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// A span of time in which something was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Span {
    /// What was done.
    pub kind: SpanKind,
    /// When it started.
    pub from: Timestamp,
    /// When it ended; absent if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Its first event.
    pub seq: u64,
    /// Name of the tool and its path or command, or the number of merged spans.
    pub label: String,
    /// Whether it succeeded; for a wait, whether it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

/// What was done in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A tool ran.
    Tool,
    /// A permission request waited for an answer.
    Wait,
    /// The model was thinking.
    Thinking,
}

/// Tokens of the session at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenCount {
    /// When they were counted.
    pub at: Timestamp,
    /// The event that reported them.
    pub seq: u64,
    /// Input tokens, cached or not, if known.
    pub input: Option<u64>,
    /// Output tokens, if known.
    pub output: Option<u64>,
    /// All tokens, if known.
    pub total: Option<u64>,
}

/// Incremental timeline of a session.
#[derive(Debug, Default)]
pub struct TimelineLog {
    tools: ToolContext,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    turns: Vec<TurnSpan>,
    spans: Vec<Span>,
    tokens: Vec<TokenCount>,
    calls: HashMap<String, usize>,
    waits: HashMap<String, usize>,
    thinking: Option<usize>,
    /// Tokens of the turns that have ended, and of the current turn by model.
    ended: Counters,
    current: HashMap<Option<String>, Counters>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
}

impl Counters {
    fn of(usage: &Usage) -> Self {
        let input = [usage.input, usage.cache_read, usage.cache_write];
        Self {
            input: input.into_iter().flatten().reduce(u64::saturating_add),
            output: usage.output,
            total: usage.total(),
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| {
            [a, b].into_iter().flatten().reduce(u64::saturating_add)
        };
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            total: sum(self.total, other.total),
        }
    }
}

impl TimelineLog {
    /// Creates an empty timeline.
    #[must_use]
    pub fn new(tools: ToolContext) -> Self {
        Self {
            tools,
            ..Self::default()
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        self.from.get_or_insert(event.at);
        self.to = Some(event.at);
        let is_thinking =
            matches!(&event.kind, EventKind::Text(it) if it.kind == TextKind::Thinking);
        if !is_thinking && !matches!(event.kind, EventKind::Usage(_) | EventKind::Notice(_)) {
            self.end_thinking(event.at);
        }
        match &event.kind {
            EventKind::Text(_) if is_thinking => self.think(event),
            EventKind::TurnStarted(_) => self.turns.push(TurnSpan {
                turn: event.turn,
                from: event.at,
                to: None,
                seq: event.seq,
                cause: None,
            }),
            EventKind::TurnEnded(ended) => {
                if let Some(turn) = self.turns.last_mut().filter(|it| it.turn == event.turn) {
                    turn.to = Some(event.at);
                    turn.cause = Some(ended.outcome.cause);
                }
                self.end_turn(event, ended.usage.as_ref());
            }
            EventKind::ToolCall(call) => {
                let wants = self.tools.tool_use(&call.name, &call.input);
                let summary = self.tools.summary(&wants, &call.input);
                let label = format!("{} {summary}", call.name);
                let at = self.begin(event, SpanKind::Tool, label.trim().to_owned());
                self.calls.insert(call.id.clone(), at);
            }
            EventKind::ToolResult(result) => {
                if let Some(at) = self.calls.remove(&result.id) {
                    self.end(at, event.at, Some(result.ok));
                }
            }
            EventKind::Permission(it) if it.decision == Decision::Asked => {
                let at = self.begin(event, SpanKind::Wait, it.tool.clone());
                self.waits.insert(it.id.clone(), at);
            }
            EventKind::Permission(it) => {
                if let Some(at) = self.waits.remove(&it.id) {
                    self.end(at, event.at, Some(it.decision == Decision::Allowed));
                }
            }
            EventKind::Usage(usage) => self.usage(event, usage),
            _ => {}
        }
    }

    /// Returns the timeline so far.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        Timeline {
            from: self.from,
            to: self.to,
            turns: self.turns.clone(),
            spans: merged(&self.spans, self.from, self.to),
            tokens: thinned(&self.tokens),
        }
    }

    fn begin(&mut self, event: &Event, kind: SpanKind, label: String) -> usize {
        self.spans.push(Span {
            kind,
            from: event.at,
            to: None,
            seq: event.seq,
            label,
            ok: None,
        });
        self.spans.len() - 1
    }

    fn end(&mut self, at: usize, to: Timestamp, ok: Option<bool>) {
        if let Some(span) = self.spans.get_mut(at) {
            span.to = Some(to);
            span.ok = ok;
        }
    }

    fn think(&mut self, event: &Event) {
        match self.thinking {
            Some(at) => self.end(at, event.at, None),
            None => {
                let at = self.begin(event, SpanKind::Thinking, "thinking".to_owned());
                self.thinking = Some(at);
                self.end(at, event.at, None);
            }
        }
    }

    fn end_thinking(&mut self, to: Timestamp) {
        if let Some(at) = self.thinking.take() {
            self.end(at, to, None);
        }
    }

    fn usage(&mut self, event: &Event, usage: &Usage) {
        let counters = Counters::of(usage);
        match usage.scope {
            Scope::Session => self.count(event, counters),
            Scope::Turn => {
                self.current.insert(usage.model.clone(), counters);
                let current = self.current.values().copied();
                let total = current.fold(self.ended, Counters::plus);
                self.count(event, total);
            }
        }
    }

    fn end_turn(&mut self, event: &Event, usage: Option<&Usage>) {
        let current = std::mem::take(&mut self.current);
        let turn = match usage.filter(|usage| usage.total().is_some()) {
            Some(usage) => Counters::of(usage),
            None => current
                .into_values()
                .fold(Counters::default(), Counters::plus),
        };
        self.ended = self.ended.plus(turn);
        if self.ended.total.is_some() {
            self.count(event, self.ended);
        }
    }

    fn count(&mut self, event: &Event, counters: Counters) {
        self.tokens.push(TokenCount {
            at: event.at,
            seq: event.seq,
            input: counters.input,
            output: counters.output,
            total: counters.total,
        });
    }
}

/// Merges spans of the same kind that start close to each other, until there are few enough.
fn merged(spans: &[Span], from: Option<Timestamp>, to: Option<Timestamp>) -> Vec<Span> {
    let (Some(from), Some(to), true) = (from, to, spans.len() > MAX_SPANS) else {
        return spans.to_vec();
    };
    let buckets = i64::try_from(MAX_SPANS / KINDS).unwrap_or(1);
    let width = ((to.0 - from.0) / buckets).max(0) + 1;
    let mut merged: Vec<(Span, u64)> = Vec::new();
    let mut last: HashMap<(SpanKind, i64), usize> = HashMap::new();
    for span in spans {
        let bucket = (span.from.0 - from.0).clamp(0, width * buckets) / width;
        match last
            .get(&(span.kind, bucket))
            .and_then(|at| merged.get_mut(*at))
        {
            Some((group, count)) => {
                *count += 1;
                // One that has not ended leaves the group open, and one that failed counts.
                group.to = group.to.zip(span.to).map(|(a, b)| a.max(b));
                group.ok = match (group.ok, span.ok) {
                    (Some(a), Some(b)) => Some(a && b),
                    (a, b) => a.or(b),
                };
            }
            None => {
                last.insert((span.kind, bucket), merged.len());
                merged.push((span.clone(), 1));
            }
        }
    }
    let label = |(span, count): (Span, u64)| match (count, span.kind) {
        (1, _) => span,
        (_, kind) => Span {
            label: match kind {
                SpanKind::Tool => format!("{count} tool calls"),
                SpanKind::Wait => format!("{count} permission requests"),
                SpanKind::Thinking => format!("thinking, {count} times"),
            },
            ..span
        },
    };
    merged.into_iter().map(label).collect()
}

/// Leaves out token counts evenly, except the last, until there are few enough.
fn thinned(tokens: &[TokenCount]) -> Vec<TokenCount> {
    let step = tokens.len().div_ceil(MAX_SPANS).max(1);
    let last = tokens.len().saturating_sub(1);
    let is_wanted = |at: &usize| at.is_multiple_of(step) || *at == last;
    let wanted = (0..tokens.len()).filter(is_wanted);
    wanted.filter_map(|at| tokens.get(at).copied()).collect()
}

#[cfg(test)]
mod tests;
