//! The size of an event in memory, by which queues are bounded.

use super::{Event, What};
use crate::raw::Raw;

impl Event {
    /// Returns roughly how many bytes the event occupies in memory. Of its texts, those count that can be large.
    #[must_use]
    pub fn weight(&self) -> usize {
        let raw = |raw: &Option<Raw>| raw.as_ref().map_or(0, |raw| raw.get().len());
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        size_of::<Self>()
            + match &self.what {
                What::Text(it) => it.text.len(),
                What::ToolCall(it) => it.input.get().len(),
                What::ToolResult(it) => it.output.len() + raw(&it.content),
                What::Permission(it) => raw(&it.input) + text(&it.message),
                What::Notice(it) => it.message.len() + raw(&it.raw),
                What::Unreadable(it) => it.raw.len(),
                What::TurnStarted(it) => text(&it.prompt),
                What::TurnEnded(it) => it.text.len() + raw(&it.structured),
                What::Started(_) | What::State(_) | What::Usage(_) | What::Refused(_) | What::Ended(_) => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{At, Level, Notice, Text, TextKind, ToolResult, Unreadable};

    #[test]
    fn large_texts_count_wherever_they_are() {
        const LARGE: usize = 1_000_000;
        let large = "x".repeat(LARGE);
        let raw = Raw::parse(&format!("{large:?}")).unwrap();
        let kinds: [What; 4] = [
            Text { kind: TextKind::Reply, text: large.clone(), delta: false, message: None, parent: None }.into(),
            ToolResult {
                id: "1".into(),
                name: None,
                ok: true,
                output: String::new(),
                denied: false,
                content: Some(raw.clone()),
            }
            .into(),
            Notice { raw: Some(raw), ..Notice::new(Level::Info, "x", "") }.into(),
            Unreadable { raw: large, why: String::new(), length: 0, lossy: false }.into(),
        ];
        for what in kinds {
            let event = Event { seq: 1, at: At(0), session: Arc::from("s"), turn: 1, what };
            assert!((LARGE..LARGE + 1000).contains(&event.weight()), "{}: {}", event.what.word(), event.weight());
        }
    }
}
