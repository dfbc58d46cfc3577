//! Parser for server-sent events, the framing of a streamed answer. Only payloads matter here.

use ostler_core::lines::{Line, Lines};

/// Incremental parser: takes bytes and emits the payload of each event.
#[derive(Debug, Default)]
pub struct SseParser {
    lines: Lines,
    data: String,
}

/// An item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum SseItem<'a> {
    /// Payload of an event, on one line.
    Data(&'a str),
    /// A comment, which shows that the connection is alive.
    Comment,
    /// A line outside any event, such as part of an error page.
    Stray(&'a str),
}

/// Payload that marks the end of the stream.
const DONE: &str = "[DONE]";

/// Maximum length of a payload of several lines.
const CAP: usize = 16 * 1024 * 1024;

impl SseParser {
    /// Creates a parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(SseItem<'_>)) {
        let Self { lines, data } = self;
        lines.push(bytes, |line| on_line(data, &line, &mut emit));
    }

    /// Ends the stream. An incomplete event is emitted too, because servers forget the last empty
    /// line.
    pub fn finish(&mut self, mut emit: impl FnMut(SseItem<'_>)) {
        let Self { lines, data } = self;
        lines.finish(|line| on_line(data, &line, &mut emit));
        flush(data, &mut emit);
    }
}

fn on_line(data: &mut String, line: &Line<'_>, emit: &mut impl FnMut(SseItem<'_>)) {
    let line = match line {
        Line::Text { text, .. } => text.as_ref(),
        Line::Oversize { head, .. } => head.as_str(),
    };
    let line = line.trim_end_matches('\r');
    if line.is_empty() {
        return flush(data, emit);
    }
    match line.split_once(':') {
        Some(("", _)) => emit(SseItem::Comment),
        Some(("data", payload)) => {
            let payload = payload.strip_prefix(' ').unwrap_or(payload);
            // Some servers omit the empty line between payloads, and the length must be limited.
            let begins = payload.starts_with("{\"") || payload == DONE;
            if begins || data.len() + payload.len() > CAP {
                flush(data, emit);
            }
            // A payload of several lines is JSON with line breaks, where a space works just as
            // well.
            if !data.is_empty() {
                data.push(' ');
            }
            data.push_str(payload);
            if data == DONE {
                flush(data, emit);
            }
        }
        Some(("event" | "id" | "retry", _)) => {}
        _ => emit(SseItem::Stray(line)),
    }
}

fn flush(data: &mut String, emit: &mut impl FnMut(SseItem<'_>)) {
    if !data.is_empty() {
        emit(SseItem::Data(data));
        data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(stream: &[u8], chunk: usize) -> Vec<String> {
        let mut events = SseParser::new();
        let mut all = Vec::new();
        let mut emit = |items: SseItem<'_>| all.push(format!("{items:?}"));
        for bytes in stream.chunks(chunk) {
            events.push(bytes, &mut emit);
        }
        events.finish(&mut emit);
        all
    }

    #[test]
    fn payloads_are_parsed_for_every_split() {
        let stream = ": hello\r\n\r\nevent: x\r\ndata: {\"a\":\"ä\"}\r\n\r\ndata:{\"b\":1}\n\nid: \
            3\ndata: {\"c\":\ndata: 2}\n\ndata: [DONE]\n";
        let wanted = [
            "Comment",
            "Data(\"{\\\"a\\\":\\\"ä\\\"}\")",
            "Data(\"{\\\"b\\\":1}\")",
            "Data(\"{\\\"c\\\": 2}\")",
            "Data(\"[DONE]\")",
        ];
        for chunk in 1..stream.len() {
            assert_eq!(items(stream.as_bytes(), chunk), wanted, "cut at {chunk}");
        }
    }

    #[test]
    fn lines_outside_events_are_reported() {
        assert_eq!(
            items(b"<html>\n<p>: no\n", 7),
            ["Stray(\"<html>\")", "Stray(\"<p>: no\")"]
        );
        assert_eq!(
            items(b"data: {\"a\":1}\ndata: {\"b\":2}\n", 5),
            ["Data(\"{\\\"a\\\":1}\")", "Data(\"{\\\"b\\\":2}\")"]
        );
        assert_eq!(
            items(b"data: {\"half\":1}", 4),
            ["Data(\"{\\\"half\\\":1}\")"]
        );
    }
}
