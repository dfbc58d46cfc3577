//! The JSON document that OpenClaw prints at the end, collected line by line. Every field is
//! optional.

use crate::json_lines::camel_case_wire;
use crate::lenient::{List, Node, Object, Objects, Scalar};

camel_case_wire! {
    /// The document.
    struct Document {
        ok,
        status,
        #[serde(rename = "final")]
        answer,
        payloads: Objects<Payload<'a>>,
        usage: Node<'a, Tokens<'a>>,
        cost_usd,
        tool_summary: Object<ToolSummary<'a>>,
        model,
        provider,
        session_id,
        error: Node<'a, Failure<'a>>,
    }

    /// A part of the answer.
    struct Payload {
        text,
        media_url,
        is_error,
    }

    /// Token counters.
    struct Tokens {
        input,
        output,
        cache_read,
        cache_write,
        cost: Object<Cost<'a>>,
    }

    /// Cost of the turn.
    struct Cost {
        total,
    }

    /// Summary of the tool calls.
    struct ToolSummary {
        calls,
        failures,
        tools: List<Scalar<'a>>,
    }

    /// Error of the turn.
    struct Failure {
        message,
        kind,
    }
}

/// Maximum number of bytes collected. No sensible answer is that large.
const CAP: usize = 16 * 1024 * 1024;

/// Maximum number of attempts to parse the document before the exit: each attempt parses all of it.
const TRIES: u32 = 8;

/// Output collected so far.
#[derive(Debug, Default)]
pub(super) struct OutputBuffer {
    /// Everything before the document, or all output if there is no document.
    pub(super) before: String,
    json: String,
    /// Whether the document so far is a single complete line.
    one_line: bool,
    tries: u32,
}

/// State of the document after a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The document may be complete.
    Complete,
    TooLarge,
}

impl OutputBuffer {
    /// Adds a line.
    pub(super) fn push(&mut self, line: &str) -> Progress {
        if self.one_line && line.starts_with('{') {
            // It has no verdict and another object begins, so it was a log line.
            self.discard_json();
        }
        let begins = self.json.is_empty() && line.starts_with('{');
        let into = if begins || !self.json.is_empty() {
            &mut self.json
        } else {
            &mut self.before
        };
        into.push_str(line);
        into.push('\n');
        if self.before.len() + self.json.len() > CAP {
            *self = Self::default();
            return Progress::TooLarge;
        }
        // The document is indented: only its last line begins with the closing brace.
        let ends = !self.json.is_empty()
            && (line.starts_with('}') || begins && line.trim_end().ends_with('}'));
        self.one_line = begins && ends;
        if self.one_line && self.read().is_none() {
            self.discard_json();
            return Progress::More;
        }
        if ends && self.tries < TRIES {
            self.tries += 1;
            return Progress::Complete;
        }
        Progress::More
    }

    /// Moves text that turned out not to be the document to `before`.
    fn discard_json(&mut self) {
        self.before.push_str(&std::mem::take(&mut self.json));
        self.one_line = false;
    }

    /// Parses the document. Returns `None` if it has none of the known fields.
    pub(super) fn read(&self) -> Option<Document<'_>> {
        let document: Document<'_> = serde_json::from_str(&self.json).ok()?;
        let known =
            document.ok.is_true() || document.ok.is_false() || document.status.text().is_some();
        let known = known || document.answer.text().is_some() || document.error.map().is_some();
        known.then_some(document)
    }

    /// Returns all output, as the answer if there is no document.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.json).trim().to_owned()
    }
}

/// Returns true if the text looks like the beginning of an OpenClaw recording. Its document is one
/// object over many lines.
pub(super) fn is_recorded(opening: &str) -> bool {
    const KEYS: [&str; 4] = ["\"ok\":", "\"status\":", "\"final\":", "\"payloads\":"];
    let keys = opening
        .lines()
        .skip(1)
        .map(str::trim_start)
        .filter(|line| !line.is_empty());
    opening.starts_with('{')
        && KEYS
            .iter()
            .all(|key| keys.clone().take(8).any(|line| line.starts_with(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(text: &str) -> (OutputBuffer, Vec<Progress>) {
        let mut output = OutputBuffer::default();
        let progress = text.lines().map(|line| output.push(line)).collect();
        (output, progress)
    }

    #[test]
    fn a_document_is_complete_with_its_last_brace() {
        let (output, progress) = gather("a warning\n{\n  \"ok\": true,\n  \"usage\": {\n  }\n}");
        assert_eq!(
            progress
                .iter()
                .filter(|it| **it == Progress::Complete)
                .count(),
            1
        );
        assert_eq!(progress.last(), Some(&Progress::Complete));
        assert!(output.read().is_some());
        assert_eq!(output.before, "a warning\n");
        assert!(gather(r#"{"status":"error"}"#).0.read().is_some());
    }

    #[test]
    fn output_without_a_document_is_text() {
        for text in ["Hello\nyou", "{\n  not: json\n}", "{\"a\": 1}"] {
            let (output, _) = gather(text);
            assert!(output.read().is_none(), "{text}");
            assert_eq!(output.text(), text);
        }
    }

    #[test]
    fn json_log_lines_are_not_the_document() {
        let log = "{\"level\":\"warn\"}\nplain words\n{brace} yourself \
            {x}\n{\"error\":{\"message\":\"retried\"}}\n";
        for document in ["{\n  \"ok\": true\n}", r#"{"status":"ok"}"#] {
            let (output, progress) = gather(&format!("{log}{document}"));
            assert_eq!(progress.last(), Some(&Progress::Complete));
            let read = output.read().unwrap();
            assert!(read.ok.is_true() || read.status.text().is_some());
            assert_eq!(output.before, log);
        }
    }

    #[test]
    fn memory_and_tries_are_bounded() {
        let mut output = OutputBuffer::default();
        let line = "x".repeat(1024 * 1024);
        let last = (0..16).map(|_| output.push(&line)).last();
        assert_eq!(last, Some(Progress::TooLarge));
        assert_eq!(output.text(), "", "nothing is retained");
        let (_, progress) = gather(&format!("{{\n{}", "}\n".repeat(1000)));
        assert_eq!(
            progress
                .iter()
                .filter(|it| **it == Progress::Complete)
                .count(),
            8
        );
    }
}
