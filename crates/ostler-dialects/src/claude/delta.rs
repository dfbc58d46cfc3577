//! Text deltas, parsed without a JSON parser.
//!
//! While the model writes, nearly every line is a delta, and a general parser takes most of the
//! time that a line costs. Anything but a delta in its usual form is left to that parser, which
//! decides what the line means.

use std::borrow::Cow;

use ostler_core::event::TextKind;

/// A piece of text, borrowed from its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextDelta<'a> {
    pub(super) kind: TextKind,
    pub(super) text: Cow<'a, str>,
    pub(super) parent: Option<&'a str>,
    /// Id of the message, if the line names it.
    pub(super) message: Option<&'a str>,
}

/// Parses a line that begins as a `stream_event`; `rest` is what follows its type. Returns `None`
/// if it is not a delta of text in its usual form.
pub(super) fn parse(rest: &str) -> Option<TextDelta<'_>> {
    // JSON does not allow them inside strings. Without an early exit, this is vectorized.
    if rest.bytes().fold(false, |has, byte| has | (byte < b' ')) {
        return None;
    }
    let mut scanner = Scanner { rest };
    let (mut delta, mut parent, mut message) = (None, None, None);
    loop {
        match scanner.key()? {
            "event" if delta.is_none() => delta = Some(scanner.event()?),
            "parent_tool_use_id" if parent.is_none() => parent = Some(scanner.optional_text()?),
            "api_message_id" if message.is_none() => message = Some(scanner.optional_text()?),
            "type" | "event" | "parent_tool_use_id" | "api_message_id" => return None,
            _ => _ = scanner.optional_text()?,
        }
        if scanner.ends_object()? {
            break;
        }
    }
    let (kind, text) = delta.filter(|_| scanner.rest.is_empty())?;
    Some(TextDelta {
        kind,
        text: unescape(text)?,
        parent: parent.flatten(),
        message: message.flatten(),
    })
}

/// Decodes the contents of a string.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str(&format!("\"{text}\""))
        .ok()
        .map(Cow::Owned)
}

/// Reads the parts of an object without white space.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads a string up to its closing quote, without decoding it.
    fn raw_text(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2; // an escape, and what it escapes
        }
        let (text, rest) = (self.rest.get(..end)?, self.rest.get(end + 1..)?);
        self.rest = rest;
        Some(text)
    }

    /// Reads a string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let end = memchr::memchr2(b'"', b'\\', self.rest.as_bytes())?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix('"')?;
        Some(text)
    }

    /// Reads a string without escapes, or null.
    fn optional_text(&mut self) -> Option<Option<&'a str>> {
        match self.skip("null") {
            Some(()) => Some(None),
            None => self.text().map(Some),
        }
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> Option<&'a str> {
        let key = self.text()?;
        self.skip(":")?;
        Some(key)
    }

    /// Reads what follows a value: the end of the object, or a comma.
    fn ends_object(&mut self) -> Option<bool> {
        match self.skip(",") {
            Some(()) => Some(false),
            None => self.skip("}").map(|()| true),
        }
    }

    /// Reads the event of a delta.
    fn event(&mut self) -> Option<(TextKind, &'a str)> {
        self.skip("{")?;
        let (mut is_delta, mut delta) = (false, None);
        loop {
            match self.key()? {
                "type" if !is_delta => {
                    self.skip("\"content_block_delta\"")?;
                    is_delta = true;
                }
                "index" => self.index()?,
                "delta" if delta.is_none() => delta = Some(self.delta()?),
                _ => return None,
            }
            if self.ends_object()? {
                return delta.filter(|_| is_delta);
            }
        }
    }

    /// Skips a small number.
    fn index(&mut self) -> Option<()> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = digits == 1 || (digits > 1 && !self.rest.starts_with('0'));
        self.rest = self
            .rest
            .get(digits..)
            .filter(|_| is_number && digits < 10)?;
        Some(())
    }

    /// Reads the kind and the encoded text of a delta.
    fn delta(&mut self) -> Option<(TextKind, &'a str)> {
        self.skip("{")?;
        let (mut kind, mut text) = (None, None);
        loop {
            match self.key()? {
                "type" if kind.is_none() => {
                    kind = Some(match self.text()? {
                        "text_delta" => TextKind::Reply,
                        "thinking_delta" => TextKind::Thinking,
                        _ => return None,
                    });
                }
                "text" if text.is_none() => text = Some((TextKind::Reply, self.raw_text()?)),
                "thinking" if text.is_none() => {
                    text = Some((TextKind::Thinking, self.raw_text()?));
                }
                _ => return None,
            }
            if self.ends_object()? {
                return text.filter(|(of, _)| kind == Some(*of));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::event::Text;
    use proptest::prelude::*;

    use super::super::wire::StreamEventLine;
    use super::*;

    /// Returns what the general parser finds in a line, in the same form.
    fn parse_in_general(line: &str) -> Option<Text> {
        let line: StreamEventLine<'_> = serde_json::from_str(line).ok()?;
        let event = line.event.map()?;
        let delta = event.delta.map()?;
        let (kind, text) = match (event.kind.or_empty(), delta.kind.or_empty()) {
            ("content_block_delta", "text_delta") => (TextKind::Reply, delta.text.owned()?),
            ("content_block_delta", "thinking_delta") => {
                (TextKind::Thinking, delta.thinking.owned()?)
            }
            _ => return None,
        };
        Some(Text {
            kind,
            text,
            delta: true,
            message: line.api_message_id.owned(),
            parent: line.parent_tool_use_id.owned(),
        })
    }

    fn parse_fast(line: &str) -> Option<Text> {
        let delta = parse(line.strip_prefix(PREFIX)?)?;
        Some(Text {
            kind: delta.kind,
            text: delta.text.into_owned(),
            delta: true,
            message: delta.message.map(str::to_owned),
            parent: delta.parent.map(str::to_owned),
        })
    }

    const PREFIX: &str = "{\"type\":\"stream_event\",";

    #[test]
    fn deltas_in_their_usual_forms_are_parsed() {
        for line in [
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words, "}},"session_id":"s","parent_tool_use_id":null,"uuid":"u"}"#,
            r#"{"type":"stream_event","event":{"delta":{"text":"a\n\"b\"","type":"text_delta"},"index":12,"type":"content_block_delta"},"session_id":"s","parent_tool_use_id":"toolu_1","uuid":"u","api_message_id":"msg_1"}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ä 😀 \u00e4"}}}"#,
        ] {
            let parsed = parse_fast(line);
            assert!(parsed.is_some(), "{line}");
            assert_eq!(parsed, parse_in_general(line));
        }
    }

    #[test]
    fn anything_else_is_left_to_the_general_parser() {
        for rest in [
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}},"event":{}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}},"type":"x"}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}},"uuid":{}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}},"parent_tool_use_id":null,"parent_tool_use_id":"b"}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}} "#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"\ud83d"}}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\"}}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"text_delta","thinking":"a"}}}"#,
            r#""event":{"type":"content_block_delta","index":01,"delta":{"type":"text_delta","text":"a"}}}"#,
            r#""event":{"type":"message_delta","delta":{"type":"text_delta","text":"a"}}}"#,
            r#""event":{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"a"}}}"#,
            "\"event\":{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\tb\"}}}",
        ] {
            assert_eq!(parse(rest), None, "{rest}");
        }
    }

    proptest! {
        // Whatever this parser accepts, the general one accepts, with the same result.
        #[test]
        fn results_are_those_of_the_general_parser(
            text in "([a-zä😀 ]|\\\\[nt\"\\\\/u]|\\\\u00e4|\\\\ud83d|\"|\t){0,6}",
            parts in proptest::sample::subsequence(
                (0..8usize).collect::<Vec<_>>(), 0..8,
            ).prop_shuffle(),
            inner in proptest::sample::subsequence((0..7usize).collect::<Vec<_>>(), 0..7)
                .prop_shuffle(),
        ) {
            let field = |number: &usize| match number {
                0 => format!(r#""text":"{text}""#),
                1 => r#""type":"text_delta""#.to_owned(),
                2 => r#""type":"thinking_delta""#.to_owned(),
                3 => format!(r#""thinking":"{text}""#),
                4 => r#""extra":1"#.to_owned(),
                _ => r#""type":"text_delta","text":"x""#.to_owned(),
            };
            let delta: Vec<String> = inner.iter().map(field).collect();
            let delta = delta.join(",");
            let field = |number: &usize| match number {
                0 | 1 => format!(
                    r#""event":{{"type":"content_block_delta","index":{number},"delta":{{{delta}}}}}"#
                ),
                2 => r#""parent_tool_use_id":null"#.to_owned(),
                3 => format!(r#""parent_tool_use_id":"{text}""#),
                4 => format!(r#""api_message_id":"{text}""#),
                5 => format!(r#""uuid":"{text}""#),
                6 => r#""session_id":7"#.to_owned(),
                _ => format!(r#""event":{{"delta":{{{delta}}},"type":"content_block_delta"}}"#),
            };
            let fields: Vec<String> = parts.iter().map(field).collect();
            let line = format!("{PREFIX}{}}}", fields.join(","));
            if let Some(parsed) = parse_fast(&line) {
                prop_assert_eq!(Some(parsed), parse_in_general(&line), "{}", line);
            }
        }
    }
}
