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
                EventKind::Notice(it) => it.message.len() + raw(&it.raw),
                EventKind::Unreadable(it) => it.raw.len(),
                EventKind::TurnStarted(it) => text(&it.prompt),
                EventKind::TurnEnded(it) => it.text.len() + raw(&it.structured),
                EventKind::Started(_)
                | EventKind::State(_)
                | EventKind::Usage(_)
                | EventKind::Refused(_)
                | EventKind::Ended(_) => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Level, Notice, Text, TextKind, Timestamp, ToolResult, Unreadable};

    #[test]
    fn large_texts_count_wherever_they_are() {
        const LARGE: usize = 1_000_000;
        let large = "x".repeat(LARGE);
        let raw = RawJson::parse(&format!("{large:?}")).unwrap();
        let kinds: [EventKind; 4] = [
            Text {
                kind: TextKind::Reply,
                text: large.clone(),
                delta: false,
                message: None,
                parent: None,
            }
            .into(),
            ToolResult {
                id: "1".into(),
                name: None,
                ok: true,
                output: String::new(),
                denied: false,
                content: Some(raw.clone()),
            }
            .into(),
            Notice {
                raw: Some(raw),
                ..Notice::new(Level::Info, "x", "")
            }
            .into(),
            Unreadable {
                raw: large,
                why: String::new(),
                length: 0,
                lossy: false,
            }
            .into(),
        ];
        for kind in kinds {
            let event = Event {
                seq: 1,
                at: Timestamp(0),
                session: Arc::from("s"),
                turn: 1,
                kind,
            };
            assert!(
                (LARGE..LARGE + 1000).contains(&event.weight()),
                "{}: {}",
                event.kind.as_str(),
                event.weight()
            );
        }
    }
}
