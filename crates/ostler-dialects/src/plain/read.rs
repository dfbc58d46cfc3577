//! Reads a reply: what of it is words, and what is a tool call.

use std::borrow::Cow;
use std::ops::Range;

use ostler_core::raw_json::RawJson;
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

/// How many places are looked at: an answer with more of them was not meant to be read.
const PLACES: usize = 500;

/// The blocks of tool calls in a text, in their order. A line that begins with such an object needs no fence.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..PLACES {
        let Some((place, kind)) = first_place(&text[at..], at == 0) else {
            break;
        };
        let place = at + place;
        let block = match kind {
            Place::Fence(length) => block_at(text, place, length),
            Place::Brace => calls_at(&text[place..]).map(|(length, calls)| Block {
                place: place..place + length,
                calls,
            }),
        };
        match (block, kind) {
            (Some(block), _) => {
                at = block.place.end;
                found.push(block);
            }
            // A fence that opens nothing of ours may close something, or stand in front of one that does.
            (None, Place::Fence(length)) => at = place + length,
            (None, Place::Brace) => at = place + 1,
        }
    }
    found
}

/// Where a block may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At a fence of so many characters.
    Fence(usize),
    /// At a brace that begins a line.
    Brace,
}

/// The first place at which a block may begin; `blank` when nothing but white space was in the line before `text`.
pub(super) fn first_place(text: &str, mut blank: bool) -> Option<(usize, Place)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            fence @ (b'`' | b'~') => {
                let length = bytes[at..]
                    .iter()
                    .take_while(|byte| **byte == fence)
                    .count();
                if length >= 3 {
                    return Some((at, Place::Fence(length)));
                }
                at += length - 1;
                blank = false;
            }
            b'{' if blank => return Some((at, Place::Brace)),
            b'\n' => blank = true,
            byte => blank &= byte.is_ascii_whitespace(),
        }
        at += 1;
    }
    None
}

/// The block that this fence opens. The JSON itself says where it ends: a fence within one of its strings does not. What stands
/// behind it up to the closing fence is a part of the block.
fn block_at(text: &str, at: usize, length: usize) -> Option<Block> {
    let (fence, label) = text[at..].split_at(length);
    let word = label
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(label.len());
    let known = ["", "json", "jsonc", "json5"]
        .iter()
        .any(|known| label[..word].eq_ignore_ascii_case(known));
    let begin = label[word..]
        .find('{')
        .filter(|n| label[word..word + n].trim().is_empty())?
        + word;
    let (object, calls) = known.then(|| calls_at(&label[begin..])).flatten()?;
    let rest = &label[begin + object..];
    let end = match rest.find(fence) {
        Some(closing) => {
            closing + rest[closing..].len() - rest[closing..].trim_start_matches(&fence[..1]).len()
        }
        // The model forgot to close it; what it says behind is no part of it.
        None => 0,
    };
    Some(Block {
        place: at..at + length + begin + object + end,
        calls,
    })
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
    Some((
        length,
        tool_calls
            .into_iter()
            .map(|call| request(call.get()))
            .collect(),
    ))
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
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
}

impl<'a> Written<'a> {
    fn args(&self) -> Option<&'a RawValue> {
        self.args
            .or(self.arguments)
            .or(self.input)
            .or(self.parameters)
    }
}

/// The call that was written. One without a name gets one that no tool has, so that the model is told.
fn request(call: &str) -> ToolRequest {
    let outer: Written<'_> = serde_json::from_str(call).unwrap_or_default();
    let inner: Written<'_> = outer
        .function
        .and_then(|inner| serde_json::from_str(inner.get()).ok())
        .unwrap_or_default();
    let word = |value: &Value| match value {
        Value::String(word) => word.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let first = |a: &Value, b: &Value| {
        Some(word(a))
            .filter(|word| !word.is_empty())
            .unwrap_or_else(|| word(b))
    };
    let name = Some(first(&outer.name, &inner.name)).filter(|name| !name.is_empty());
    ToolRequest {
        id: first(&outer.id, &inner.id),
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        args: outer.args().or(inner.args()).map_or_else(empty, arguments),
    }
}

/// Arguments: an object, or a string that holds one. What is neither is passed on, so that the tool says what is wrong with it.
fn arguments(written: &RawValue) -> RawJson {
    let text = match serde_json::from_str::<Cow<'_, str>>(written.get()) {
        Ok(text) if text.trim().is_empty() => return empty(),
        Ok(text) => text,
        Err(_) => Cow::Borrowed(written.get()),
    };
    let object = tolerant::object(text.trim()).filter(|(length, _)| *length == text.trim().len());
    object
        .and_then(|(_, object)| RawJson::parse(&object).ok())
        .unwrap_or_else(|| RawJson::keep(written))
}

fn empty() -> RawJson {
    RawJson::of(&serde_json::Map::new())
}
