//! Memory size of an event, which bounds queues.

use super::{Event, EventKind};
use crate::raw_json::RawJson;

impl Event {
    /// Returns the approximate size of the event in memory, in bytes. Only texts that can be large
    /// count.
    #[must_use]
    pub fn weight(&self) -> usize {
        let raw = |raw: &Option<RawJson>| raw.as_ref().map_or(0, |raw| raw.get().len());
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        size_of::<Self>()
            + match &self.kind {
                EventKind::Text(it) => it.text.len(),
                EventKind::ToolCall(it) => it.input.get().len(),
                EventKind::ToolResult(it) => it.output.len() + raw(&it.content),
                EventKind::Permission(it) => raw(&it.input) + text(&it.message),
                EventKind::Notice(it) => it.message.len() + text(&it.unknown_kind) + raw(&it.raw),
                EventKind::Unreadable(it) => it.raw.len(),
                EventKind::TurnStarted(it) => text(&it.prompt),
                EventKind::TurnEnded(it) => {
                    size_of_val(&**it) + it.text.len() + raw(&it.structured)
                }
                EventKind::Started(it) => size_of_val(&**it),
                EventKind::Usage(it) => size_of_val(&**it),
                EventKind::Ended(it) => size_of_val(&**it),
                EventKind::State(_) | EventKind::Refused(_) => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{
        DecidedBy, Decision, Level, Notice, Origin, Permission, Text, TextKind, Timestamp,
        ToolCall, ToolResult, TurnEnded, TurnStarted, Unreadable,
    };
    use crate::outcome::{Cause, Outcome};

    fn weight(kind: impl Into<EventKind>) -> usize {
        let event = Event {
            seq: 1,
            at: Timestamp(0),
            session: Arc::from("s"),
            turn: 1,
            kind: kind.into(),
        };
        event.weight() - size_of::<Event>()
    }

    /// Every text differs in length, so that one that is forgotten or counted twice shows.
    #[test]
    fn large_texts_count_wherever_they_are() {
        let text = |length: usize| "x".repeat(length);
        let raw = |length: usize| RawJson::parse(&"1".repeat(length)).unwrap();
        let reply = Text {
            kind: TextKind::Reply,
            text: text(1),
            delta: false,
            message: None,
            parent: None,
        };
        assert_eq!(weight(reply), 1);
        let call = ToolCall {
            id: String::new(),
            name: String::new(),
            input: raw(3),
            parent: None,
        };
        assert_eq!(weight(call), 3);
        let result = ToolResult {
            id: String::new(),
            name: None,
            ok: true,
            output: text(3),
            denied: false,
            content: Some(raw(5)),
        };
        assert_eq!(weight(result), 8);
        let permission = Permission {
            id: String::new(),
            tool: String::new(),
            kind: None,
            input: Some(raw(3)),
            decision: Decision::Denied,
            by: DecidedBy::Rule,
            message: Some(text(7)),
        };
        assert_eq!(weight(permission), 10);
        let notice = Notice {
            unknown_kind: Some(text(5)),
            raw: Some(raw(11)),
            ..Notice::new(Level::Info, "x".into(), text(3))
        };
        assert_eq!(weight(notice), 19);
        let unreadable = Unreadable {
            raw: text(9),
            why: String::new(),
            length: 0,
            lossy: false,
        };
        assert_eq!(weight(unreadable), 9);
        let started = TurnStarted {
            origin: Origin::Caller,
            prompt: Some(text(4)),
        };
        assert_eq!(weight(started), 4);
        let ended = TurnEnded {
            outcome: Outcome::new(Cause::Completed, ""),
            text: text(3),
            structured: Some(raw(7)),
            usage: None,
        };
        assert_eq!(weight(ended), size_of::<TurnEnded>() + 10);
    }
}
