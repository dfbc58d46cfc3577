//! Documents: the texts in a session's events, one for each message, tool call and result.

use std::borrow::Cow;

use ostler_core::event::{EventKind, Text, TextKind};
use ostler_core::names::named;

/// The types of events that [`Collector::event`] needs.
pub(crate) const TYPES: &str =
    "('turn_started', 'text', 'tool_call', 'tool_result', 'turn_ended', 'ended')";

/// Maximum size of the beginning of a long text that is searchable, and of a document of deltas.
pub(crate) const HEAD: usize = 48 * 1024;

/// Maximum size of the end of a long text that is searchable: a failure is often at the end.
pub(crate) const TAIL: usize = 16 * 1024;

/// Maximum number of messages that are written at the same time: one for each subagent.
const MAX_OPEN: usize = 64;

named! {
    /// Author of a text.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Speaker {
        /// The caller, in a prompt.
        User = "user",
        /// The agent, in a reply.
        Agent = "agent",
        /// The agent, in its reasoning.
        Thinking = "thinking",
        /// The agent, in the arguments of a tool call.
        Tool = "tool",
        /// A tool, in its output.
        Result = "result",
    }
}

/// Where a document begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The key of the session.
    pub(crate) key: i64,
    /// The position of the first event among those of all sessions.
    pub(crate) position: i64,
    /// Its number within the session.
    pub(crate) seq: i64,
    /// Its turn.
    pub(crate) turn: u32,
    /// Its time, in milliseconds.
    pub(crate) at: i64,
}

/// A text that can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) place: Place,
    pub(crate) speaker: Speaker,
    pub(crate) text: String,
}

/// A message of which more may follow.
#[derive(Debug)]
struct OpenMessage {
    place: Place,
    kind: TextKind,
    message: Option<String>,
    parent: Option<String>,
    text: String,
}

impl OpenMessage {
    fn document(&self) -> Option<Document> {
        let speaker = speaker_of(self.kind);
        document(self.place, speaker, &self.text)
    }
}

/// Turns the events of one session into documents.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    open: Vec<OpenMessage>,
    /// The last reply in the current turn, which the end of the turn repeats.
    last_reply: Option<Document>,
}

impl Collector {
    /// Adds the next event, and returns the documents that are complete.
    pub(crate) fn event(&mut self, place: Place, kind: &EventKind) -> Vec<Document> {
        let mut complete = Vec::new();
        match kind {
            EventKind::Text(text) => self.text(place, text, &mut complete),
            EventKind::ToolCall(call) => {
                self.close(|open| open.parent == call.parent, &mut complete);
                complete.extend(document(place, Speaker::Tool, &arguments(call.input.get())));
            }
            EventKind::ToolResult(result) => {
                complete.extend(document(place, Speaker::Result, &result.output));
            }
            EventKind::TurnStarted(turn) => {
                self.close(|_| true, &mut complete);
                self.last_reply = None;
                let prompt = turn.prompt.as_deref().unwrap_or_default();
                complete.extend(document(place, Speaker::User, prompt));
            }
            EventKind::TurnEnded(turn) => {
                self.close(|_| true, &mut complete);
                let repeated = self.last_reply.take();
                let repeated = repeated.is_some_and(|last| turn.text.contains(last.text.trim()));
                if !repeated {
                    complete.extend(document(place, Speaker::Agent, &turn.text));
                }
            }
            EventKind::Ended(_) => self.close(|_| true, &mut complete),
            _ => {}
        }
        complete
    }

    fn text(&mut self, place: Place, text: &Text, complete: &mut Vec<Document>) {
        let is_same = |open: &OpenMessage| {
            open.parent == text.parent && open.kind == text.kind && open.message == text.message
        };
        let same = self
            .open
            .iter_mut()
            .find(|open| text.delta && is_same(open));
        // A long message is several documents, each with the place where it begins.
        if let Some(open) = same
            && open.text.len() < HEAD
        {
            open.text.push_str(&text.text);
            return;
        }
        self.close(|open| open.parent == text.parent, complete);
        if text.delta {
            if self.open.len() >= MAX_OPEN {
                let oldest = self.open[0].place;
                self.close(|open| open.place == oldest, complete);
            }
            self.open.push(OpenMessage {
                place,
                kind: text.kind,
                message: text.message.clone(),
                parent: text.parent.clone(),
                text: text.text.clone(),
            });
        } else if let Some(whole) = document(place, speaker_of(text.kind), &text.text) {
            if whole.speaker == Speaker::Agent && text.parent.is_none() {
                self.last_reply = Some(whole.clone());
            }
            complete.push(whole);
        }
    }

    /// Completes the open messages that satisfy the condition.
    fn close(&mut self, is_done: impl Fn(&OpenMessage) -> bool, complete: &mut Vec<Document>) {
        for open in self.open.extract_if(.., |open| is_done(open)) {
            let Some(document) = open.document() else {
                continue;
            };
            if document.speaker == Speaker::Agent && open.parent.is_none() {
                self.last_reply = Some(document.clone());
            }
            complete.push(document);
        }
    }

    /// Returns the documents of which more may follow.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = Document> {
        self.open.iter().filter_map(OpenMessage::document)
    }

    /// Returns true if more may follow of the document that begins at an event.
    pub(crate) fn is_open(&self, seq: i64) -> bool {
        self.open.iter().any(|open| open.place.seq == seq)
    }

    /// Returns the first event that a new collector must see to continue; `None` if it need not see
    /// any.
    pub(crate) fn resume_from(&self) -> Option<i64> {
        let open = self.open.iter().map(|open| open.place.seq);
        let last = self.last_reply.iter().map(|last| last.place.seq);
        open.chain(last).min()
    }
}

fn speaker_of(kind: TextKind) -> Speaker {
    match kind {
        TextKind::Reply => Speaker::Agent,
        TextKind::Thinking => Speaker::Thinking,
    }
}

/// Returns a document, unless its text is blank.
fn document(place: Place, speaker: Speaker, text: &str) -> Option<Document> {
    let text = searchable(text).into_owned();
    let document = Document {
        place,
        speaker,
        text,
    };
    (!document.text.trim().is_empty()).then_some(document)
}

/// Returns the part of a text that can be found: all of it, or its beginning and its end.
fn searchable(text: &str) -> Cow<'_, str> {
    if text.len() <= HEAD + TAIL {
        return text.into();
    }
    let head = &text[..text.floor_char_boundary(HEAD)];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL)..];
    format!("{head}\n…\n{tail}").into()
}

/// Returns the arguments of a tool call as text: its strings as they are meant, not as JSON.
fn arguments(json: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(json) else {
        return json.to_owned();
    };
    let mut text = String::new();
    write_value(&mut text, &value);
    text.truncate(text.trim_end().len());
    text
}

fn write_value(text: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                text.push_str(name);
                text.push_str(": ");
                write_value(text, value);
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                write_value(text, value);
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        serde_json::Value::String(string) => text.push_str(string),
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_core::event::{Origin, ToolCall, ToolResult, TurnEnded, TurnStarted};
    use ostler_core::outcome::{Cause, Outcome};
    use ostler_core::raw_json::RawJson;

    fn place(seq: i64) -> Place {
        Place {
            key: 1,
            position: seq + 100,
            seq,
            turn: 1,
            at: seq,
        }
    }

    fn delta(kind: TextKind, message: &str, parent: Option<&str>, text: &str) -> EventKind {
        EventKind::Text(Text {
            kind,
            text: text.into(),
            delta: true,
            message: Some(message.into()),
            parent: parent.map(Into::into),
        })
    }

    fn ended(text: &str) -> EventKind {
        TurnEnded {
            outcome: Outcome::new(Cause::Completed, "done"),
            text: text.into(),
            structured: None,
            usage: None,
        }
        .into()
    }

    fn collect(events: &[EventKind]) -> (Collector, Vec<(i64, Speaker, String)>) {
        let mut collector = Collector::default();
        let mut found = Vec::new();
        for (seq, event) in (1..).zip(events) {
            let complete = collector.event(place(seq), event);
            found.extend(
                complete
                    .into_iter()
                    .map(|it| (it.place.seq, it.speaker, it.text)),
            );
        }
        (collector, found)
    }

    #[test]
    fn deltas_become_one_document_and_the_turn_does_not_repeat_it() {
        use TextKind::{Reply, Thinking};
        let call = ToolCall {
            id: "c".into(),
            name: "Bash".into(),
            input: RawJson::parse(r#"{"command":"echo \u4f60\n\"x\"","n":[1,{"a":"b"}]}"#).unwrap(),
            parent: None,
        };
        let result = ToolResult {
            id: "c".into(),
            name: None,
            ok: true,
            output: "out".into(),
            denied: false,
            content: None,
        };
        let (collector, found) = collect(&[
            TurnStarted {
                origin: Origin::Caller,
                prompt: Some("do".into()),
            }
            .into(),
            delta(Thinking, "m1", None, "hm"),
            delta(Thinking, "m1", None, "m"),
            delta(Reply, "m1", None, "I "),
            delta(Reply, "sub", Some("c0"), "sub"),
            delta(Reply, "m1", None, "will"),
            delta(Reply, "sub", Some("c0"), "agent"),
            call.into(),
            result.into(),
            delta(Reply, "m2", None, "Did "),
            delta(Reply, "m2", None, "it."),
            ended("I will\n\nDid it."),
            ended("only here"),
            ended(" "),
        ]);
        let expected = [
            (1, Speaker::User, "do"),
            (2, Speaker::Thinking, "hmm"),
            (4, Speaker::Agent, "I will"),
            (8, Speaker::Tool, "command: echo 你\n\"x\"\nn: 1\na: b"),
            (9, Speaker::Result, "out"),
            (5, Speaker::Agent, "subagent"),
            (10, Speaker::Agent, "Did it."),
            (13, Speaker::Agent, "only here"),
        ];
        let expected = expected.map(|(seq, speaker, text)| (seq, speaker, text.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(collector.resume_from(), None);
    }

    // What a later run must read again, so that it neither splits a message nor repeats a reply.
    #[test]
    fn a_collector_can_be_continued_by_another() {
        let reply = |text| delta(TextKind::Reply, "m", None, text);
        let (collector, found) = collect(&[reply("a"), reply("b")]);
        assert_eq!(found, []);
        let open: Vec<_> = collector.incomplete().map(|it| it.text).collect();
        assert_eq!(
            (open, collector.resume_from()),
            (vec!["ab".into()], Some(1))
        );
        let whole = EventKind::Text(Text {
            kind: TextKind::Reply,
            text: "whole".into(),
            delta: false,
            message: None,
            parent: None,
        });
        let (collector, found) = collect(&[reply("a"), whole]);
        assert_eq!(found.len(), 2);
        assert_eq!(collector.incomplete().count(), 0);
        assert_eq!(collector.resume_from(), Some(2), "the turn may repeat it");
    }

    #[test]
    fn long_texts_are_bounded() {
        let piece = "é".repeat(HEAD / 4);
        let reply = || delta(TextKind::Reply, "m", None, &piece);
        let (collector, found) = collect(&[reply(), reply(), reply(), reply()]);
        assert_eq!(found.len(), 1, "a long message is split");
        assert_eq!(found[0].2.len(), HEAD);
        assert_eq!(collector.resume_from(), Some(1), "the last reply so far");
        let long = format!(
            "{}{}{}",
            "a".repeat(HEAD),
            "é".repeat(TAIL),
            "z".repeat(TAIL)
        );
        let bounded = searchable(&long);
        assert!(bounded.ends_with(&format!("a\n…\n{}", "z".repeat(TAIL))));
        assert_eq!(bounded.len(), HEAD + TAIL + 5);
        let (_, found) = collect(&vec![delta(TextKind::Reply, "m", None, "x"); 3]);
        assert_eq!(found, []);
        let many: Vec<EventKind> = (0..100)
            .map(|n| delta(TextKind::Reply, "m", Some(&n.to_string()), "x"))
            .collect();
        let (collector, found) = collect(&many);
        assert_eq!((found.len(), collector.open.len()), (36, MAX_OPEN));
    }
}
