//! Tool calls and results: every call gets exactly one result, whatever the agent prints, and when.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::event::{EventKind, Level, Notice, NoticeCode, ToolResult};

/// Maximum number of bytes of a late result's output that are reported.
const LATE_CAP: usize = 1000;

/// Number of finished calls that are remembered, to recognize a late result.
const REMEMBERED: usize = 10_000;

/// Tool calls of a session. They are not tracked per turn: a call can come outside of one, and a
/// result after it.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Ids of all known calls, with their key in `open` while the result is pending.
    known: HashMap<String, Option<u64>>,
    /// Finished calls, oldest first.
    done: VecDeque<String>,
    /// Calls without a result, in order: id and name.
    open: BTreeMap<u64, (String, String)>,
    calls: u64,
}

impl Tools {
    /// Returns true if a tool is running.
    pub(super) fn running(&self) -> bool {
        !self.open.is_empty()
    }

    /// Records a call or a result. Returns `None` for a repeated call; any other event passes
    /// through.
    pub(super) fn record(&mut self, mut kind: EventKind) -> Option<EventKind> {
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
            EventKind::ToolResult(result) => match self.finish(&result.id) {
                Some(Some(key)) => {
                    if let Some((_, name)) = self.open.remove(&key) {
                        result.name.get_or_insert(name);
                    }
                }
                Some(None) => return Some(late(result).into()),
                // A result without a call is still reported, once.
                None => {}
            },
            _ => {}
        }
        Some(kind)
    }

    /// Marks a call as finished, and returns what was known of it before.
    fn finish(&mut self, id: &str) -> Option<Option<u64>> {
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

    /// Closes all open calls, and returns a substitute result for each, in order.
    pub(super) fn close(&mut self) -> impl Iterator<Item = ToolResult> {
        let open = std::mem::take(&mut self.open);
        for (id, _) in open.values() {
            self.finish(id);
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
        "The tool call {} got another result: {short}{more}",
        result.id
    );
    Notice::new(Level::Debug, NoticeCode::LateToolResult, message)
}
