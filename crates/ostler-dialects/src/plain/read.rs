//! Reads a reply: what of it is words, and what is a tool call.

use std::borrow::Cow;
use std::ops::Range;

use ostler_core::raw::Raw;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message::ToolRequest;
use super::tolerant;

/// What a reply says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// The words around the block.
    pub content: String,
    /// The calls of the first block that has any.
    pub calls: Vec<ToolRequest>,
    /// How many further blocks with calls there were. They are neither run nor left in the words.
    pub ignored: usize,
}

/// Reads a reply to a prompt with tools. `id` makes up an id for a call that has none, or one that another call has.
///
/// Nothing here fails: what is no block of tool calls is plain text.
pub fn read_reply(text: &str, mut id: impl FnMut() -> String) -> Said {
    let text = text.trim();
    let mut said = Said::default();
    let mut at = 0;
    for Block { place, calls } in blocks(text) {
        said.content.push_str(&text[at..place.start]);
        at = place.end;
        if calls.is_empty() {
            continue;
        }
        if said.calls.is_empty() {
            said.calls = named(calls, &mut id);
        } else {
            said.ignored += 1;
        }
    }
    said.content.push_str(&text[at..]);
    said.content = said.content.trim().to_owned();
    said
}

/// A block of tool calls.
struct Block {
    /// Where it is, fences included.
    place: Range<usize>,
    calls: Vec<ToolRequest>,
}

const FENCE: &str = "```";

/// How many fences are looked behind: an answer with more of them was not meant to be read.
const FENCES: usize = 500;

/// The blocks of tool calls in a text, in their order. A text that is nothing but such an object needs no fence.
fn blocks(text: &str) -> Vec<Block> {
    if let Some((length, calls)) = text.starts_with('{').then(|| calls_at(text)).flatten()
        && length == text.len()
    {
        return vec![Block { place: 0..length, calls }];
    }
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..FENCES {
        let Some(fence) = text[at..].find(FENCE).map(|n| at + n) else { break };
        let inside = fence + FENCE.len();
        match block_at(text, fence) {
            Some(block) => {
                at = block.place.end;
                found.push(block);
            }
            // A fence that opens nothing of ours may close something, or stand in front of one that does.
            None => at = inside,
        }
    }
    found
}

/// The block that this fence opens. The JSON itself says where it ends: a fence within one of its strings does not.
fn block_at(text: &str, fence: usize) -> Option<Block> {
    let label = &text[fence + FENCE.len()..];
    let word = label.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(label.len());
    let known = ["", "json", "jsonc", "json5"].iter().any(|known| label[..word].eq_ignore_ascii_case(known));
    let begin = label[word..].find('{').filter(|n| label[word..word + n].trim().is_empty())? + word;
    let (length, calls) = known.then(|| calls_at(&label[begin..])).flatten()?;
    let rest = &label[begin + length..];
    let blank = rest.len() - rest.trim_start().len();
    let end = match rest[blank..].strip_prefix(FENCE) {
        Some(_) => blank + FENCE.len(),
        // The model forgot to close it.
        None if rest.trim().is_empty() => rest.len(),
        None => return None,
    };
    Some(Block { place: fence..fence + FENCE.len() + begin + length + end, calls })
}

/// The length of the object that `text` begins with, and its list of calls, if it has one.
fn calls_at(text: &str) -> Option<(usize, Vec<ToolRequest>)> {
    #[derive(Deserialize)]
    struct Calls<'a> {
        #[serde(borrow)]
        tool_calls: Vec<&'a RawValue>,
    }
    let (length, object) = tolerant::object(text)?;
    let Calls { tool_calls } = serde_json::from_str(&object).ok()?;
    Some((length, tool_calls.into_iter().map(|call| request(call.get())).collect()))
}

/// Gives every call an id of its own.
fn named(calls: Vec<ToolRequest>, id: &mut impl FnMut() -> String) -> Vec<ToolRequest> {
    let mut named: Vec<ToolRequest> = Vec::new();
    for mut call in calls {
        while call.id.is_empty() || named.iter().any(|other| other.id == call.id) {
            call.id = id();
        }
        named.push(call);
    }
    named
}

/// A call as models write it: some put it into `function`, some have other names for the arguments.
#[derive(Default, Deserialize)]
struct Written<'a> {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    id: Value,
    #[serde(borrow, alias = "arguments", alias = "input", alias = "parameters")]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
}

/// The call that was written. One without a name gets one that no tool has, so that the model is told.
fn request(call: &str) -> ToolRequest {
    let outer: Written<'_> = serde_json::from_str(call).unwrap_or_default();
    let inner: Written<'_> =
        outer.function.and_then(|inner| serde_json::from_str(inner.get()).ok()).unwrap_or_default();
    let word = |value: &Value| match value {
        Value::String(word) => word.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let first = |a: &Value, b: &Value| Some(word(a)).filter(|word| !word.is_empty()).unwrap_or_else(|| word(b));
    let name = Some(first(&outer.name, &inner.name)).filter(|name| !name.is_empty());
    ToolRequest {
        id: first(&outer.id, &inner.id),
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        args: outer.args.or(inner.args).map_or_else(empty, arguments),
    }
}

/// Arguments: an object, or a string that holds one.
fn arguments(written: &RawValue) -> Raw {
    let text = match serde_json::from_str::<Cow<'_, str>>(written.get()) {
        Ok(text) => text,
        Err(_) => Cow::Borrowed(written.get()),
    };
    let object = tolerant::object(text.trim());
    object.and_then(|(_, object)| Raw::parse(&object).ok()).unwrap_or_else(empty)
}

fn empty() -> Raw {
    Raw::of(&serde_json::Map::new())
}
