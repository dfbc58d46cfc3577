//! Parses a reply into text and tool calls.

use std::borrow::Cow;
use std::ops::Range;

use ostler_core::raw_json::RawJson;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::tolerant;
use crate::message::ToolRequest;

/// A parsed reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedReply {
    /// Text outside the blocks.
    pub content: String,
    /// Tool calls of the first block that has any.
    pub calls: Vec<ToolRequest>,
    /// Number of further blocks with calls. They are neither run nor part of the text.
    pub ignored: usize,
}

/// Parses a reply to a prompt with tools. `id` generates an id for a call that has none or a
/// duplicate one.
///
/// This never fails: anything that is not a block of tool calls is plain text.
pub fn read_reply(text: &str, mut id: impl FnMut() -> String) -> ParsedReply {
    let text = text.trim();
    let mut reply = ParsedReply::default();
    let mut at = 0;
    for Block { range, calls } in blocks(text) {
        reply.content.push_str(&text[at..range.start]);
        at = range.end;
        if calls.is_empty() {
            continue;
        }
        if reply.calls.is_empty() {
            reply.calls = with_unique_ids(calls, &mut id);
        } else {
            reply.ignored += 1;
        }
    }
    reply.content.push_str(&text[at..]);
    reply.content = reply.content.trim().to_owned();
    reply
}

/// A block of tool calls.
struct Block {
    /// Byte range in the text, including fences.
    range: Range<usize>,
    calls: Vec<ToolRequest>,
}

/// Maximum number of candidates examined. An answer with more of them is not meant to be parsed.
const MAX_CANDIDATES: usize = 500;

/// Finds the blocks of tool calls in a text, in order. An object at the start of a line needs no
/// fence.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_CANDIDATES {
        let Some((start, kind)) = find_block_start(&text[at..], at == 0) else {
            break;
        };
        let start = at + start;
        let block = match kind {
            BlockStart::Fence(length) => block_at(text, start, length),
            BlockStart::Brace => calls_at(&text[start..]).map(|(length, calls)| Block {
                range: start..start + length,
                calls,
            }),
        };
        match (block, kind) {
            (Some(block), _) => {
                at = block.range.end;
                found.push(block);
            }
            // This fence opens no block. It may close something, or precede a fence that does open
            // one.
            (None, BlockStart::Fence(length)) => at = start + length,
            (None, BlockStart::Brace) => at = start + 1,
        }
    }
    found
}

/// Candidate for the start of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockStart {
    /// A fence of this many characters.
    Fence(usize),
    /// A brace at the start of a line.
    Brace,
}

/// Finds the first candidate for the start of a block. `blank` is true if only whitespace precedes
/// `text` on its line.
pub(super) fn find_block_start(text: &str, mut blank: bool) -> Option<(usize, BlockStart)> {
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
                    return Some((at, BlockStart::Fence(length)));
                }
                at += length - 1;
                blank = false;
            }
            b'{' if blank => return Some((at, BlockStart::Brace)),
            b'\n' => blank = true,
            byte => blank &= byte.is_ascii_whitespace(),
        }
        at += 1;
    }
    None
}

/// Parses the block that this fence opens. The JSON itself determines its end: a fence inside one
/// of its strings does not count. Anything between the JSON and the closing fence belongs to the
/// block.
fn block_at(text: &str, at: usize, length: usize) -> Option<Block> {
    let (fence, label) = text[at..].split_at(length);
    let label_end = label
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(label.len());
    let known = ["", "json", "jsonc", "json5"]
        .iter()
        .any(|known| label[..label_end].eq_ignore_ascii_case(known));
    let begin = label[label_end..]
        .find('{')
        .filter(|n| label[label_end..label_end + n].trim().is_empty())?
        + label_end;
    let (object, calls) = known.then(|| calls_at(&label[begin..])).flatten()?;
    let rest = &label[begin + object..];
    let end = match rest.find(fence) {
        Some(closing) => {
            closing + rest[closing..].len() - rest[closing..].trim_start_matches(&fence[..1]).len()
        }
        // The model forgot to close the fence; the following text is not part of the block.
        None => 0,
    };
    Some(Block {
        range: at..at + length + begin + object + end,
        calls,
    })
}

/// Returns the length of the object at the start of `text` and its list of calls, if it has one.
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

/// Gives every call a unique id.
fn with_unique_ids(calls: Vec<ToolRequest>, id: &mut impl FnMut() -> String) -> Vec<ToolRequest> {
    let mut with_unique_ids: Vec<ToolRequest> = Vec::new();
    for mut call in calls {
        while call.id.is_empty() || with_unique_ids.iter().any(|other| other.id == call.id) {
            call.id = id();
        }
        with_unique_ids.push(call);
    }
    with_unique_ids
}

/// A tool call as models write it: some nest it in `function`, some use other names for the
/// arguments.
#[derive(Default, Deserialize)]
struct WrittenCall<'a> {
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

impl<'a> WrittenCall<'a> {
    fn args(&self) -> Option<&'a RawValue> {
        self.args
            .or(self.arguments)
            .or(self.input)
            .or(self.parameters)
    }
}

/// Converts a written call. Without a name it gets one that no tool has, so that the model gets an
/// error.
fn request(call: &str) -> ToolRequest {
    let outer: WrittenCall<'_> = serde_json::from_str(call).unwrap_or_default();
    let inner: WrittenCall<'_> = outer
        .function
        .and_then(|inner| serde_json::from_str(inner.get()).ok())
        .unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let first = |a: &Value, b: &Value| {
        Some(text(a))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| text(b))
    };
    let name = Some(first(&outer.name, &inner.name)).filter(|name| !name.is_empty());
    ToolRequest {
        id: first(&outer.id, &inner.id),
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        args: outer.args().or(inner.args()).map_or_else(empty, arguments),
    }
}

/// Parses arguments: an object, or a string that contains one. Anything else is passed on, so that
/// the tool reports the error.
fn arguments(written: &RawValue) -> RawJson {
    let text = match serde_json::from_str::<Cow<'_, str>>(written.get()) {
        Ok(text) if text.trim().is_empty() => return empty(),
        Ok(text) => text,
        Err(_) => Cow::Borrowed(written.get()),
    };
    let object = tolerant::object(text.trim()).filter(|(length, _)| *length == text.trim().len());
    object
        .and_then(|(_, object)| RawJson::parse(&object).ok())
        .unwrap_or_else(|| RawJson::from_raw(written))
}

fn empty() -> RawJson {
    RawJson::empty_object()
}
