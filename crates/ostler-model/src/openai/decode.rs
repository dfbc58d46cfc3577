//! Chunks of a server's response as parts of a reply. A field of the wrong type counts as absent
//! (pitfall P63).

use ostler_core::lenient::{Content, Node};
use ostler_core::surrogates;
use ostler_core::usage::{Scope, Tokens as Counters, Usage};

use super::blame;
use super::chunk::{self, CallChunk, Chunk, Delta, Tokens};
use crate::calls::Call;
use crate::part::{Finish, Part};

/// Payload that marks the end of a response.
const DONE: &str = "[DONE]";

/// Decodes a payload of a response: a chunk, a whole answer, or the end.
///
/// # Errors
/// Returns the parser's error if the payload is not a JSON object.
pub fn decode(payload: &str) -> Result<Vec<Part>, serde_json::Error> {
    if payload.trim() == DONE {
        return Ok(vec![Part::Done]);
    }
    let repaired = surrogates::repair(payload);
    Ok(parts(&serde_json::from_str(&repaired)?))
}

fn parts(chunk: &Chunk<'_>) -> Vec<Part> {
    if let Some(api_error) = chunk.api_error() {
        return vec![Part::Aborted(Box::new(blame::of_problem(&api_error)))];
    }
    let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_owned);
    let extra = chunk.x_groq.map().and_then(|extra| extra.usage.map());
    let mut parts: Vec<Part> = [
        named(chunk.id.text()).map(Part::Id),
        named(chunk.model.text()).map(Part::Model),
        chunk.usage.map().or(extra).and_then(usage).map(Part::Usage),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Only one answer is requested; additional ones are ignored.
    let first = |choice: &&chunk::Choice<'_>| choice.index.count().unwrap_or(0) == 0;
    for choice in chunk.choices.0.iter().filter_map(Node::map).filter(first) {
        if let Some(delta) = choice.delta.map() {
            parts.extend(delta_parts(delta));
        }
        if let Some(message) = choice.message.map() {
            parts.push(Part::Whole(delta_parts(message)));
        }
        if let Some(reason) = choice.finish_reason.text() {
            parts.push(Part::Finish(Finish::from(reason.to_owned())));
        }
    }
    parts
}

/// Returns the parts of an increment: at least a text, which may be empty.
fn delta_parts(delta: &Delta<'_>) -> Vec<Part> {
    let thought = [&delta.reasoning_content, &delta.reasoning]
        .into_iter()
        .find_map(|field| field.owned());
    let mut parts: Vec<Part> = thought.map(Part::Thinking).into_iter().collect();
    match &delta.content {
        Content::Text(text) => parts.push(Part::Text(text.to_string())),
        Content::Blocks(blocks) => {
            parts.extend(blocks.iter().filter_map(Node::map).flat_map(content_block));
        }
        Content::None => parts.push(Part::Text(String::new())),
    }
    parts.extend(delta.refusal.owned().map(Part::Refusal));
    let calls = delta.tool_calls.0.iter().filter_map(Node::map);
    parts.extend(calls.map(|call| Part::Call(call_piece(call))));
    // The legacy format: one call without id and index.
    parts.extend(delta.function_call.map().map(|function| {
        Part::Call(Call {
            name: function.name.or_empty().to_owned(),
            arguments: chunk::arguments(function.arguments),
            ..Call::default()
        })
    }));
    parts
}

fn content_block(block: &chunk::Part<'_>) -> Vec<Part> {
    let text = || block.text.or_empty().to_owned();
    match &block.thinking {
        Content::Text(text) => vec![Part::Thinking(text.to_string())],
        Content::Blocks(parts) => parts
            .iter()
            .filter_map(Node::map)
            .map(|part| Part::Thinking(part.text.or_empty().to_owned()))
            .collect(),
        Content::None if block.kind.text() == Some("thinking") => vec![Part::Thinking(text())],
        Content::None => vec![Part::Text(text())],
    }
}

fn call_piece(chunk: &CallChunk<'_>) -> Call {
    let function = chunk.function.map();
    let name = function.map_or(&chunk.name, |function| &function.name);
    Call {
        index: chunk.index.count(),
        id: chunk.id.or_empty().to_owned(),
        name: name.or_empty().to_owned(),
        arguments: chunk::arguments(function.map_or(chunk.arguments, |f| f.arguments)),
    }
}

/// Converts the server's counters, which overlap, to disjoint ones.
fn usage(tokens: &Tokens<'_>) -> Option<Usage> {
    let (prompt, output) = (
        tokens.prompt_tokens.count(),
        tokens.completion_tokens.count(),
    );
    let cost = tokens.cost.amount();
    let usage = if prompt.is_some() || output.is_some() {
        Usage::for_turn(None, disjoint(tokens, prompt, output))
    } else {
        cost.map(|_| Usage::unknown(Scope::Turn))?
    };
    Some(match cost {
        Some(cost) => usage.reported(cost),
        None => usage,
    })
}

fn disjoint(tokens: &Tokens<'_>, prompt: Option<u64>, output: Option<u64>) -> Counters {
    let details = tokens.prompt_tokens_details.map();
    let cached = details
        .and_then(|details| details.cached_tokens.count())
        .or(tokens.prompt_cache_hit_tokens.count())
        .unwrap_or(0);
    // Part of the prompt, whatever the server reports.
    let cached = cached.min(prompt.unwrap_or(cached));
    let written = details
        .and_then(|details| details.cache_write_tokens.count())
        .unwrap_or(0);
    let written = written.min(prompt.map_or(written, |prompt| prompt - cached));
    let reasoning = tokens
        .completion_tokens_details
        .map()
        .and_then(|details| details.reasoning_tokens.count());
    Counters {
        input: prompt
            .unwrap_or(0)
            .saturating_sub(cached)
            .saturating_sub(written),
        cache_read: cached,
        cache_write: written,
        output: output.unwrap_or(0).max(reasoning.unwrap_or(0)),
        reasoning,
    }
}
