//! Server-sent events: what a streamed answer is wrapped in. Only the payloads matter here.

use ostler_core::lines::{Line, Lines};

/// Takes bytes as they come and gives the payload of each event.
#[derive(Debug, Default)]
pub struct Events {
    lines: Lines,
    data: String,
}

/// What was in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// The payload of an event, on one line.
    Data(&'a str),
    /// A comment: the connection lives.
    Comment,
    /// A line that is no part of any event, such as an error page.
    Stray(&'a str),
}

/// What a server says when it has said everything.
const DONE: &str = "[DONE]";

/// The longest payload of several lines.
const CAP: usize = 16 * 1024 * 1024;

impl Events {
    /// A stream from which nothing was read.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8], mut see: impl FnMut(Seen<'_>)) {
        let Self { lines, data } = self;
        lines.push(bytes, |line| take(data, &line, &mut see));
    }

    /// The stream came to its end. What was begun is given too: servers forget the last empty line.
    pub fn finish(&mut self, mut see: impl FnMut(Seen<'_>)) {
        let Self { lines, data } = self;
        lines.finish(|line| take(data, &line, &mut see));
        flush(data, &mut see);
    }
}

fn take(data: &mut String, line: &Line<'_>, see: &mut impl FnMut(Seen<'_>)) {
    let line = match line {
        Line::Text { text, .. } => text.as_ref(),
        Line::Oversize { head, .. } => head.as_str(),
    };
    let line = line.trim_end_matches('\r');
    if line.is_empty() {
        return flush(data, see);
    }
    match line.split_once(':') {
        Some(("", _)) => see(Seen::Comment),
        Some(("data", payload)) => {
            let payload = payload.strip_prefix(' ').unwrap_or(payload);
            // Some servers leave out the empty line between two payloads, and a flood of lines must end somewhere.
            let begins = payload.starts_with("{\"") || payload == DONE;
            if begins || data.len() + payload.len() > CAP {
                flush(data, see);
            }
            // A payload of several lines is JSON with line breaks in it; a space does as well there.
            if !data.is_empty() {
                data.push(' ');
            }
            data.push_str(payload);
            if data == DONE {
                flush(data, see);
            }
        }
        Some(("event" | "id" | "retry", _)) => {}
        _ => see(Seen::Stray(line)),
    }
}

fn flush(data: &mut String, see: &mut impl FnMut(Seen<'_>)) {
    if !data.is_empty() {
        see(Seen::Data(data));
        data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(stream: &[u8], chunk: usize) -> Vec<String> {
        let mut events = Events::new();
        let mut all = Vec::new();
        let mut see = |seen: Seen<'_>| all.push(format!("{seen:?}"));
        for piece in stream.chunks(chunk) {
            events.push(piece, &mut see);
        }
        events.finish(&mut see);
        all
    }

    #[test]
    fn payloads_come_out_however_the_stream_is_cut_and_written() {
        let stream = ": hello\r\n\r\nevent: x\r\ndata: {\"a\":\"ä\"}\r\n\r\ndata:{\"b\":1}\n\nid: 3\ndata: {\"c\":\ndata: 2}\n\ndata: [DONE]\n";
        let wanted = [
            "Comment",
            "Data(\"{\\\"a\\\":\\\"ä\\\"}\")",
            "Data(\"{\\\"b\\\":1}\")",
            "Data(\"{\\\"c\\\": 2}\")",
            "Data(\"[DONE]\")",
        ];
        for chunk in 1..stream.len() {
            assert_eq!(seen(stream.as_bytes(), chunk), wanted, "cut at {chunk}");
        }
    }

    #[test]
    fn what_is_no_event_is_not_lost() {
        assert_eq!(
            seen(b"<html>\n<p>: no\n", 7),
            ["Stray(\"<html>\")", "Stray(\"<p>: no\")"]
        );
        assert_eq!(
            seen(b"data: {\"a\":1}\ndata: {\"b\":2}\n", 5),
            ["Data(\"{\\\"a\\\":1}\")", "Data(\"{\\\"b\\\":2}\")"]
        );
        assert_eq!(
            seen(b"data: {\"half\":1}", 4),
            ["Data(\"{\\\"half\\\":1}\")"]
        );
    }
}
