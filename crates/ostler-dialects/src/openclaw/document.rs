//! The document that OpenClaw prints at its end, gathered line by line; whatever is absent is not there.

use crate::lenient::{List, Node, Scalar, wire};

wire! {
    /// The document.
    #[serde(rename_all = "camelCase")]
    struct Document {
        ok: Scalar<'a>,
        status: Scalar<'a>,
        #[serde(rename = "final")]
        answer: Scalar<'a>,
        payloads: List<Node<'a, Payload<'a>>>,
        usage: Node<'a, Tokens<'a>>,
        cost_usd: Scalar<'a>,
        tool_summary: Node<'a, ToolSummary<'a>>,
        model: Scalar<'a>,
        provider: Scalar<'a>,
        session_id: Scalar<'a>,
        error: Node<'a, Failure<'a>>,
    }

    /// A part of the answer.
    #[serde(rename_all = "camelCase")]
    struct Payload {
        text: Scalar<'a>,
        media_url: Scalar<'a>,
        is_error: Scalar<'a>,
    }

    /// Counters.
    #[serde(rename_all = "camelCase")]
    struct Tokens {
        input: Scalar<'a>,
        output: Scalar<'a>,
        cache_read: Scalar<'a>,
        cache_write: Scalar<'a>,
        cost: Node<'a, Cost<'a>>,
    }

    /// Money.
    struct Cost {
        total: Scalar<'a>,
    }

    /// How much the tools did.
    struct ToolSummary {
        calls: Scalar<'a>,
        failures: Scalar<'a>,
        tools: List<Scalar<'a>>,
    }

    /// What went wrong.
    struct Failure {
        message: Scalar<'a>,
        kind: Scalar<'a>,
    }
}

/// How much is gathered at most. An answer of that size is not one.
const CAP: usize = 16 * 1024 * 1024;

/// How often it is tried whether the document is complete before its end is awaited: each try reads all of it.
const TRIES: u32 = 8;

/// What was printed so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Everything before the document: all of it when there is no document.
    pub(super) before: String,
    json: String,
    /// Whether that is a single line so far, and whole.
    one_line: bool,
    tries: u32,
}

/// What a line made of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// It may be complete.
    Complete,
    TooMuch,
}

impl Gathered {
    /// Adds a line.
    pub(super) fn push(&mut self, line: &str) -> Progress {
        if self.one_line && line.starts_with('{') {
            // It has no verdict, and another begins: it was a line of a log.
            self.set_aside();
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
            return Progress::TooMuch;
        }
        // It is printed with indentation: only its last line begins with its closing brace.
        let ends = !self.json.is_empty()
            && (line.starts_with('}') || begins && line.trim_end().ends_with('}'));
        self.one_line = begins && ends;
        if self.one_line && self.read().is_none() {
            self.set_aside();
            return Progress::More;
        }
        if ends && self.tries < TRIES {
            self.tries += 1;
            return Progress::Complete;
        }
        Progress::More
    }

    /// What was taken for the document is none.
    fn set_aside(&mut self) {
        self.before.push_str(&std::mem::take(&mut self.json));
        self.one_line = false;
    }

    /// The document, when it is one. Braces alone can be anything.
    pub(super) fn read(&self) -> Option<Document<'_>> {
        let document: Document<'_> = serde_json::from_str(&self.json).ok()?;
        let known =
            document.ok.is_true() || document.ok.is_false() || document.status.text().is_some();
        let known = known || document.answer.text().is_some() || document.error.map().is_some();
        known.then_some(document)
    }

    /// Everything, for an answer that is no document.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.json).trim().to_owned()
    }
}

/// Returns true if a recording that begins with this text is of OpenClaw. Its document is one object over many lines.
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

    fn gather(text: &str) -> (Gathered, Vec<Progress>) {
        let mut gathered = Gathered::default();
        let progress = text.lines().map(|line| gathered.push(line)).collect();
        (gathered, progress)
    }

    #[test]
    fn a_document_is_complete_with_its_last_brace() {
        let (gathered, progress) = gather("a warning\n{\n  \"ok\": true,\n  \"usage\": {\n  }\n}");
        assert_eq!(
            progress
                .iter()
                .filter(|it| **it == Progress::Complete)
                .count(),
            1
        );
        assert_eq!(progress.last(), Some(&Progress::Complete));
        assert!(gathered.read().is_some());
        assert_eq!(gathered.before, "a warning\n");
        assert!(gather(r#"{"status":"error"}"#).0.read().is_some());
    }

    #[test]
    fn what_is_no_document_is_text() {
        for text in ["Hello\nyou", "{\n  not: json\n}", "{\"a\": 1}"] {
            let (gathered, _) = gather(text);
            assert!(gathered.read().is_none(), "{text}");
            assert_eq!(gathered.text(), text);
        }
    }

    #[test]
    fn a_log_in_json_is_no_document() {
        let log = "{\"level\":\"warn\"}\nplain words\n{brace} yourself {x}\n{\"error\":{\"message\":\"retried\"}}\n";
        for document in ["{\n  \"ok\": true\n}", r#"{"status":"ok"}"#] {
            let (gathered, progress) = gather(&format!("{log}{document}"));
            assert_eq!(progress.last(), Some(&Progress::Complete));
            let read = gathered.read().unwrap();
            assert!(read.ok.is_true() || read.status.text().is_some());
            assert_eq!(gathered.before, log);
        }
    }

    #[test]
    fn memory_and_tries_are_bounded() {
        let mut gathered = Gathered::default();
        let line = "x".repeat(1024 * 1024);
        let last = (0..16).map(|_| gathered.push(&line)).last();
        assert_eq!(last, Some(Progress::TooMuch));
        assert_eq!(gathered.text(), "", "nothing is kept");
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
