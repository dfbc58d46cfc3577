//! Tolerant JSON parser for model output: accepts comments, trailing commas and single quotes.
//! Valid JSON is returned unchanged.

use std::borrow::Cow;

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Returns the object at the start of `text` as valid JSON, and its length in `text`.
pub(super) fn object(text: &str) -> Option<(usize, Cow<'_, str>)> {
    if !text.starts_with('{') {
        return None;
    }
    let mut strict = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    if let Some(Ok(_)) = strict.next() {
        let length = strict.byte_offset();
        return Some((length, Cow::Borrowed(&text[..length])));
    }
    let length = extent(text)?;
    let object: Map<String, Value> =
        parse_to_serde_value(&text[..length], &ParseOptions::default()).ok()?;
    Some((length, Cow::Owned(serde_json::to_string(&object).ok()?)))
}

/// Maximum nesting depth. Anything deeper is not meant to be parsed.
const DEPTH: usize = 100;

/// Returns the end of the object at the start of `text`: the brace that closes the first one.
/// Braces in strings and comments do not count.
fn extent(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' if depth == DEPTH => return None,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            quote @ (b'"' | b'\'') => at = string_end(bytes, at, quote)?,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += bytes[at..].iter().position(|b| *b == b'\n')?;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => at += text[at + 2..].find("*/")? + 3,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the position of the closing quote of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}
