//! Rendering of items: HTML of messages, summaries and diffs of tool calls.

use ostler_core::change;
use ostler_core::event::TextKind;

use super::{Draft, DraftCall, DraftKind, DraftMessage};
use crate::diff::FileDiff;
use crate::item::{Item, ItemKind, MessageItem, PromptItem, ToolItem};
use crate::markdown;
use crate::tools::{CallKind, ToolContext};

/// Maximum size of the beginning, and of the end, of a tool's output.
const OUTPUT_PART: usize = 32 * 1024;

impl Draft {
    pub(super) fn render(&self, tools: &ToolContext) -> Item {
        let kind = match &self.kind {
            DraftKind::Done(kind) => kind.clone(),
            DraftKind::Prompt(turn) => {
                let text = turn.prompt.clone().unwrap_or_default();
                ItemKind::Prompt(PromptItem {
                    origin: turn.origin,
                    text,
                })
            }
            DraftKind::Message(message) => message.render(),
            DraftKind::Call(call) => ItemKind::Tool(Box::new(call.render(self, tools))),
        };
        Item {
            seq: self.seq,
            last_seq: self.last_seq,
            turn: self.turn,
            at: self.at,
            kind,
        }
    }
}

impl DraftMessage {
    fn render(&self) -> ItemKind {
        let is_complete = !self.is_open && !self.is_continued && self.kind == TextKind::Reply;
        let item = MessageItem {
            html: is_complete.then(|| markdown::to_html(&self.text)),
            text: self.text.clone(),
            message: self.message.clone(),
            parent: self.parent.clone(),
            open: self.is_open,
            continued: self.is_continued,
        };
        match self.kind {
            TextKind::Reply => ItemKind::Reply(item),
            TextKind::Thinking => ItemKind::Thinking(item),
        }
    }
}

impl DraftCall {
    fn render(&self, draft: &Draft, tools: &ToolContext) -> ToolItem {
        let Self {
            call,
            wants,
            result,
            permission,
        } = self;
        let made = result.as_ref().filter(|(result, _)| result.ok);
        let changes = match made {
            Some((result, _)) => change::of_call(wants, call, result),
            None => change::of_input(wants, &call.input),
        };
        let ended_at = result.as_ref().map(|(_, at)| *at);
        let result = result.as_ref().map(|(result, _)| result);
        let output = result.map(|result| clipped(&result.output));
        ToolItem {
            id: call.id.clone(),
            name: call.name.clone(),
            kind: CallKind::of(wants),
            summary: tools.summary(wants, &call.input),
            input: call.input.clone(),
            output_truncated: output.as_ref().is_some_and(|(_, is_clipped)| *is_clipped),
            output: output.map(|(output, _)| output),
            ok: result.map(|result| result.ok),
            denied: result.is_some_and(|result| result.denied),
            started_at: draft.at,
            ended_at,
            duration_ms: ended_at.and_then(|ended| ended.since(draft.at)),
            parent: call.parent.clone(),
            diff: FileDiff::of_changes(&changes, |path| tools.relative(path)),
            permission: permission.clone(),
        }
    }
}

/// Returns the beginning and the end of an output, and whether something is left out.
fn clipped(output: &str) -> (String, bool) {
    if output.len() <= 2 * OUTPUT_PART {
        return (output.to_owned(), false);
    }
    let head = output.floor_char_boundary(OUTPUT_PART);
    let tail = output.ceil_char_boundary(output.len() - OUTPUT_PART);
    let (head, tail) = (&output[..head], &output[tail..]);
    let left_out = output.len() - head.len() - tail.len();
    (
        format!("{head}\n[… {left_out} bytes left out …]\n{tail}"),
        true,
    )
}
