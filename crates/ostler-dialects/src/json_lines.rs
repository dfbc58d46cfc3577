//! JSON lines: an agent's lines parsed into borrowed fields, and messages to it written as lines.

use ostler_core::dialect::{Action, Outbox};
use ostler_core::event::Notice;
use ostler_core::raw_json::RawJson;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::surrogates;

/// [`wire!`](crate::lenient::wire) for agents that name fields in camel case.
macro_rules! camel_case_wire {
    ($($(#[$attribute:meta])* struct $name:ident $fields:tt)*) => {
        $crate::lenient::wire! {
            $(#[serde(rename_all = "camelCase")] $(#[$attribute])* struct $name $fields)*
        }
    };
}
pub(crate) use camel_case_wire;

/// A conversation whose agent prints one JSON object per line.
pub(crate) trait LineReader {
    /// The fields of a line, borrowed from it.
    type Line<'a>: Deserialize<'a>;

    /// Handles a line. `raw` is its text, after any repair.
    fn on_message(&mut self, line: &Self::Line<'_>, raw: &str, out: &mut Outbox);
}

/// Why a line is not a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Syntax(serde_json::Error),
    /// JSON, but another type than an object.
    #[error("JSON, but not an object")]
    NotObject,
    /// An object that the line's type rejects, for example because a key is repeated.
    #[error("not a message: {0}")]
    NotMessage(serde_json::Error),
}

/// Parses a line and passes it to the reader, retrying once with repaired surrogates.
///
/// # Errors
/// Returns why the line cannot be parsed. The reader has not seen it then.
pub(crate) fn read<R: LineReader>(
    reader: &mut R,
    raw: &str,
    out: &mut Outbox,
) -> Result<(), LineError> {
    // Checked first, because serde would deserialize an array into a struct, by position.
    if !raw.trim_start().starts_with('{') {
        let json = serde_json::from_str::<IgnoredAny>(raw);
        return Err(json.map_or_else(LineError::Syntax, |_| LineError::NotObject));
    }
    let error = match serde_json::from_str(raw) {
        Ok(line) => {
            reader.on_message(&line, raw, out);
            return Ok(());
        }
        Err(error) => error,
    };
    let repaired = surrogates::repair(raw);
    let Ok(line) = serde_json::from_str(&repaired) else {
        let json = serde_json::from_str::<IgnoredAny>(raw);
        return Err(match json {
            Ok(_) => LineError::NotMessage(error),
            Err(_) => LineError::Syntax(error),
        });
    };
    reader.on_message(&line, &repaired, out);
    Ok(())
}

/// Parses a line and passes it to the reader. Lines that are not JSON objects are reported as
/// `unreadable`.
pub(crate) fn deliver<R: LineReader>(reader: &mut R, raw: &str, out: &mut Outbox) {
    if let Err(why) = read(reader, raw, out) {
        out.unreadable(raw, &why.to_string());
    }
}

/// Reports an unknown message in a notice that contains it.
pub(crate) fn report_unknown(agent: &str, kind: &str, raw: &str, out: &mut Outbox) {
    let raw = RawJson::parse(raw).ok();
    out.event(Notice::unknown_message(agent, kind, raw));
}

/// Reports a line whose type is unknown, or missing.
pub(crate) fn report_unknown_type(agent: &str, kind: Option<&str>, raw: &str, out: &mut Outbox) {
    match kind {
        Some(kind) => report_unknown(agent, &format!("type {kind:?}"), raw, out),
        None => out.unreadable(raw, "a JSON object without a type"),
    }
}

/// Removes the members of an object that are null.
pub(crate) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, member| !member.is_null());
    }
    object
}

/// Serializes a message as one line.
pub(crate) fn line<T: Serialize + ?Sized>(message: &T) -> Vec<u8> {
    format!("{}\n", RawJson::of(message).get()).into_bytes()
}

/// Sends a message to the agent as one line.
pub(crate) fn send<T: Serialize + ?Sized>(message: &T, out: &mut Outbox) {
    out.push(Action::Write(line(message)));
}

#[cfg(test)]
mod tests {
    use ostler_core::dialect::FromConversation;
    use ostler_core::event::EventKind;
    use proptest::prelude::*;

    use super::*;
    use crate::lenient::{Scalar, wire};

    wire! {
        struct TestLine {
            #[serde(rename = "type")]
            kind: Scalar<'a>,
            text: Scalar<'a>,
        }
    }

    /// Records the text of each line that it can read.
    #[derive(Default)]
    struct Recorder(Vec<String>);

    impl LineReader for Recorder {
        type Line<'a> = TestLine<'a>;

        fn on_message(&mut self, line: &TestLine<'_>, raw: &str, out: &mut Outbox) {
            match line.kind.text() {
                Some("say") => self.0.push(line.text.or_empty().to_owned()),
                kind => report_unknown_type("Agent", kind, raw, out),
            }
        }
    }

    /// Returns the texts that were read and the events that were reported.
    fn deliver_all<'a>(lines: impl IntoIterator<Item = &'a str>) -> (Vec<String>, Vec<EventKind>) {
        let (mut reader, mut out) = (Recorder::default(), Outbox::default());
        for line in lines {
            deliver(&mut reader, line, &mut out);
        }
        let events = out.drain().filter_map(|item| match item {
            FromConversation::Event(event) => Some(event),
            _ => None,
        });
        (reader.0, events.collect())
    }

    #[test]
    fn a_line_is_read_repaired_or_reported() {
        let repaired = r#"{"type":"say","text":"a\ud83d"}"#;
        for (line, text) in [
            (r#"{"type":"say","text":"a"}"#, "a"),
            (r#"  {"text":"a","type":"say"} "#, "a"),
            (repaired, "a\u{fffd}"),
            (r#"{"type":"say","text":7}"#, ""),
        ] {
            assert_eq!(
                deliver_all([line]),
                (vec![text.to_owned()], Vec::new()),
                "{line}"
            );
        }
        for (line, why) in [
            ("words", "not JSON: expected value at line 1 column 1"),
            ("[\"say\",\"a\"]", "JSON, but not an object"),
            ("7", "JSON, but not an object"),
            (
                r#"{"type":"#,
                "not JSON: EOF while parsing a value at line 1 column 8",
            ),
            (
                r#"{"type":"say","type":"say"}"#,
                "not a message: duplicate field `type` at line 1 column 20",
            ),
            (r#"{"text":"a"}"#, "a JSON object without a type"),
        ] {
            let (read, events) = deliver_all([line]);
            assert!(read.is_empty(), "{line}");
            let [EventKind::Unreadable(it)] = &events[..] else {
                panic!("{line}: {events:?}")
            };
            assert_eq!((it.why.as_str(), it.raw.as_str()), (why, line));
        }
    }

    #[test]
    fn an_unknown_line_is_preserved_in_a_notice() {
        let line = r#"{"type":"new","x":[1]}"#;
        let (_, events) = deliver_all([line]);
        let [EventKind::Notice(notice)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(notice.unknown_kind.as_deref(), Some("type \"new\""));
        assert_eq!(notice.raw.as_ref().map(RawJson::get), Some(line));
    }

    #[test]
    fn a_message_is_one_line() {
        let message = std::collections::BTreeMap::from([("a", "b\nc")]);
        assert_eq!(line(&message), b"{\"a\":\"b\\nc\"}\n");
    }

    /// Lines that carry nothing for the reader.
    fn noise() -> impl Strategy<Value = String> {
        prop_oneof![
            "[^\n{]{0,12}",
            "\\{[^\n]{0,12}",
            Just(r#"{"type":"new"}"#.to_owned()),
            Just(r#"["say","x"]"#.to_owned()),
            Just(r#"{"text":"\ud83d"}"#.to_owned()),
        ]
        .prop_filter("no line for the reader", |line| !line.contains("say\""))
    }

    proptest! {
        #[test]
        fn noise_anywhere_changes_no_other_line(
            items in proptest::collection::vec(
                prop_oneof![".{0,8}".prop_map(Ok), noise().prop_map(Err)], 0..12),
        ) {
            let lines: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Ok(text) => serde_json::json!({"type": "say", "text": text}).to_string(),
                    Err(noise) => noise.clone(),
                })
                .collect();
            let said: Vec<String> = items.iter().filter_map(|item| item.clone().ok()).collect();
            let (read, events) = deliver_all(lines.iter().map(String::as_str));
            prop_assert_eq!(&read, &said);
            // Each other line is reported once.
            prop_assert_eq!(events.len(), items.len() - said.len());
        }
    }
}
