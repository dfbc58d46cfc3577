//! An answer of the model as it arrives: emits text and thinking as events, and assembles tool
//! calls.

use ostler_core::clip::{Capped, OUTPUT_CAP};
use ostler_core::dialect::Outbox;
use ostler_core::event::{Text, TextKind};
use ostler_core::usage::Tokens;

use super::calls::{Call, Calls};
use super::chunk::{self, ApiError, Chunk, Delta, Part};
use crate::lenient::{Content, Node};

/// Whether the answer is emitted to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// A normal answer.
    Caller,
    /// For internal use: a summary of the conversation.
    Internal,
}

/// An answer as it arrives.
#[derive(Debug)]
pub(super) struct PartialReply {
    audience: Audience,
    /// Message id of the events of this answer.
    message: String,
    named: bool,
    text: Capped,
    calls: Calls,
    pub(super) finish: Option<String>,
    pub(super) refused: bool,
    pub(super) api_error: Option<ApiError>,
    /// Requested model, and the model reported by the server.
    pub(super) requested_model: String,
    pub(super) model: Option<String>,
    pub(super) usage: Option<ReplyUsage>,
    /// Whether its usage is reported with a later answer.
    pub(super) usage_later: bool,
    /// Number of chunks that were parsed, and of those that were not.
    pub(super) chunks: u64,
    pub(super) unreadable: u64,
    pub(super) done: bool,
}

/// Usage of an answer, as reported by the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReplyUsage {
    pub(super) tokens: Tokens,
    /// Cost in dollars, from servers that report it.
    pub(super) cost: Option<f64>,
    /// Cost in dollars, from a price list.
    pub(super) estimate: Option<f64>,
    /// Known part of the cost in dollars; the rest is unknown.
    pub(super) partial: Option<f64>,
    /// Whether the tokens are known, in addition to the cost.
    pub(super) counted: bool,
}

impl PartialReply {
    /// Creates an empty answer. `message` is its id until the server sends one.
    pub(super) fn new(audience: Audience, message: String, requested_model: String) -> Self {
        Self {
            audience,
            message,
            named: false,
            text: Capped::new(OUTPUT_CAP),
            calls: Calls::default(),
            finish: None,
            refused: false,
            api_error: None,
            requested_model,
            model: None,
            usage: None,
            usage_later: false,
            chunks: 0,
            unreadable: 0,
            done: false,
        }
    }

    /// Adds a chunk.
    pub(super) fn push(&mut self, chunk: &Chunk<'_>, out: &mut Outbox) {
        self.chunks += 1;
        if let Some(api_error) = chunk.api_error() {
            self.api_error = Some(api_error);
            return;
        }
        // The step's name stays as a prefix: some servers give every answer the same id.
        if let (false, Some(id)) = (self.named, chunk.id.text().filter(|id| !id.is_empty())) {
            self.message = format!("{}:{id}", self.message);
            self.named = true;
        }
        if let Some(model) = chunk.model.text().filter(|model| !model.is_empty()) {
            self.model.get_or_insert_with(|| model.to_owned());
        }
        self.usage_later |= chunk
            .usage
            .map()
            .is_some_and(|usage| usage.later.text() == Some("true"));
        let extra = chunk.x_groq.map().and_then(|extra| extra.usage.map());
        if let Some(tokens) = chunk.usage.map().or(extra).and_then(usage) {
            self.usage = Some(tokens); // cumulative if sent with every chunk
        }
        // Only one answer is requested; additional ones are ignored.
        let first = |choice: &&chunk::Choice<'_>| choice.index.count().unwrap_or(0) == 0;
        for choice in chunk.choices.0.iter().filter_map(Node::map).filter(first) {
            // A whole message instead of deltas. After deltas it only repeats them.
            let whole = choice.message.map().filter(|_| self.is_blank());
            for delta in choice.delta.map().into_iter().chain(whole) {
                self.delta(delta, out);
            }
            if let Some(reason) = choice.finish_reason.text() {
                self.finish = Some(reason.to_owned());
            }
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, out: &mut Outbox) {
        let thought = [&delta.reasoning_content, &delta.reasoning]
            .into_iter()
            .find_map(|s| s.text());
        self.emit_text(TextKind::Thinking, thought.unwrap_or_default(), out);
        match &delta.content {
            Content::Text(text) => self.emit_text(TextKind::Reply, text, out),
            Content::Blocks(parts) => parts
                .iter()
                .filter_map(Node::map)
                .for_each(|part| self.part(part, out)),
            Content::None => {}
        }
        if let Some(refusal) = delta.refusal.text().filter(|text| !text.is_empty()) {
            self.refused = true;
            self.emit_text(TextKind::Reply, refusal, out);
        }
        for call in delta.tool_calls.0.iter().filter_map(Node::map) {
            self.calls.push(call);
        }
        if let Some(function) = delta.function_call.map() {
            self.calls.push_function(
                function.name.or_empty(),
                chunk::arguments(function.arguments),
            );
        }
    }

    fn part(&mut self, part: &Part<'_>, out: &mut Outbox) {
        match &part.thinking {
            Content::Text(text) => self.emit_text(TextKind::Thinking, text, out),
            Content::Blocks(parts) => {
                parts
                    .iter()
                    .filter_map(Node::map)
                    .for_each(|p| self.emit_text(TextKind::Thinking, p.text.or_empty(), out));
            }
            Content::None if part.kind.text() == Some("thinking") => {
                self.emit_text(TextKind::Thinking, part.text.or_empty(), out);
            }
            Content::None => self.emit_text(TextKind::Reply, part.text.or_empty(), out),
        }
    }

    fn emit_text(&mut self, kind: TextKind, text: &str, out: &mut Outbox) {
        if text.is_empty() {
            return;
        }
        self.named = true; // a later id is ignored: one id per message
        if kind == TextKind::Reply {
            self.text.push(text);
        }
        if self.audience == Audience::Caller {
            let message = Some(self.message.clone());
            out.event(Text {
                kind,
                text: text.to_owned(),
                delta: true,
                message,
                parent: None,
            });
        }
    }

    /// Returns true if the answer is for internal use.
    pub(super) fn is_private(&self) -> bool {
        self.audience == Audience::Internal
    }

    /// Returns true if the server reported the end of the answer.
    pub(super) fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// Returns true if the tool calls exceeded the limits.
    pub(super) fn exceeds_limits(&self) -> bool {
        self.calls.overflowed
    }

    /// Returns true if the answer has neither text nor calls.
    pub(super) fn is_blank(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    /// Returns the text and the calls.
    pub(super) fn into_parts(self) -> (String, Vec<Call>) {
        (self.text.into_text(), self.calls.finish())
    }
}

/// Converts the server's counters, which overlap, to disjoint ones.
fn usage(tokens: &chunk::Tokens<'_>) -> Option<ReplyUsage> {
    let (prompt, output) = (
        tokens.prompt_tokens.count(),
        tokens.completion_tokens.count(),
    );
    let counted = prompt.is_some() || output.is_some();
    if !counted && tokens.cost.amount().is_none() {
        return None;
    }
    let cached = tokens
        .prompt_tokens_details
        .map()
        .and_then(|d| d.cached_tokens.count());
    let cached = cached
        .or(tokens.prompt_cache_hit_tokens.count())
        .unwrap_or(0);
    // Part of the prompt, whatever the server reports.
    let cached = cached.min(prompt.unwrap_or(cached));
    let written = tokens
        .prompt_tokens_details
        .map()
        .and_then(|d| d.cache_write_tokens.count())
        .unwrap_or(0);
    let written = written.min(prompt.map_or(written, |prompt| prompt - cached));
    let reasoning = tokens
        .completion_tokens_details
        .map()
        .and_then(|d| d.reasoning_tokens.count());
    let counters = Tokens {
        input: prompt
            .unwrap_or(0)
            .saturating_sub(cached)
            .saturating_sub(written),
        cache_read: cached,
        cache_write: written,
        output: output.unwrap_or(0).max(reasoning.unwrap_or(0)),
        reasoning,
    };
    Some(ReplyUsage {
        tokens: counters,
        cost: tokens.cost.amount(),
        estimate: tokens.estimated_cost.amount(),
        partial: tokens.partial_cost.amount(),
        counted,
    })
}
