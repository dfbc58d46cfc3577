//! Tool calls and their results: every call gets exactly one result, whatever the agent says, and when.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::event::{EventKind, Level, Notice, ToolResult};

/// How much of a late result's output is told.
const LATE_CAP: usize = 1000;

/// How many calls are remembered after their results, to know a late one when it comes.
const REMEMBERED: usize = 10_000;

/// The tool calls of a session. They are not kept per turn: a call can come outside of one, and a result after it.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// The ids that were heard, with their place in `open` while their result is awaited.
    known: HashMap<String, Option<u64>>,
    /// Those that have their result, the oldest first.
    done: VecDeque<String>,
    /// Calls without a result, in the order in which they came: id and name.
    open: BTreeMap<u64, (String, String)>,
    calls: u64,
}

impl Tools {
    /// True while a tool runs.
    pub(super) fn running(&self) -> bool {
        !self.open.is_empty()
    }

    /// Takes note of a call or a result; `None` when the caller has heard it already. Anything else passes.
    pub(super) fn note(&mut self, mut kind: EventKind) -> Option<EventKind> {
        match &mut kind {
            EventKind::ToolCall(call) => {
                if self.known.get(&call.id).is_some_and(Option::is_some) {
                    return None;
                }
                self.calls += 1;
                self.known.insert(call.id.clone(), Some(self.calls));
                self.open
                    .insert(self.calls, (call.id.clone(), call.name.clone()));
            }
            EventKind::ToolResult(result) => match self.settle(&result.id) {
                Some(Some(place)) => {
                    if let Some((_, name)) = self.open.remove(&place) {
                        result.name.get_or_insert(name);
                    }
                }
                Some(None) => return Some(late(result).into()),
                // Nobody called it. What came of it is still worth telling, once.
                None => {}
            },
            _ => {}
        }
        Some(kind)
    }

    /// The call has its result; what was known of it before.
    fn settle(&mut self, id: &str) -> Option<Option<u64>> {
        let before = self.known.insert(id.to_owned(), None);
        if before != Some(None) {
            self.done.push_back(id.to_owned());
        }
        if self.done.len() > REMEMBERED
            && let Some(oldest) = self.done.pop_front()
            && self.known.get(&oldest) == Some(&None)
        {
            self.known.remove(&oldest);
        }
        before
    }

    /// Nothing more is to be expected: the result that each open call gets instead, in the order of the calls.
    pub(super) fn close(&mut self) -> impl Iterator<Item = ToolResult> {
        let open = std::mem::take(&mut self.open);
        for (id, _) in open.values() {
            self.settle(id);
        }
        open.into_values().map(|(id, name)| {
            let output = "no result: the turn ended".to_owned();
            ToolResult {
                id,
                name: Some(name),
                ok: false,
                output,
                denied: false,
                content: None,
            }
        })
    }
}

fn late(result: &ToolResult) -> Notice {
    let short = &result.output[..result.output.floor_char_boundary(LATE_CAP)];
    let more = if short.len() < result.output.len() {
        "…"
    } else {
        ""
    };
    let message = format!(
        "A result came for the tool call {}, which had one already: {short}{more}",
        result.id
    );
    Notice::new(Level::Debug, "late_tool_result", message)
}
