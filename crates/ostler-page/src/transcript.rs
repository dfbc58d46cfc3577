//! Transcript: a fold over events that condenses them into items.
//!
//! Deltas of one message become one item, and a tool call, its permission request and its result
//! become one. The same fold serves pages of a session ([`crate::page`]), documents
//! ([`crate::export`]) and reports.

mod render;

use std::collections::HashMap;

use ostler_core::event::{
    Decision, Event, EventKind, Level, Notice, Permission, Refused, SessionState, State, Text,
    TextKind, Timestamp, ToolCall, ToolResult, TurnEnded, TurnStarted,
};
use ostler_core::permission::ToolUse;

use crate::item::{
    CallDecision, EndedItem, Item, ItemKind, NoticeItem, PermissionItem, TurnEndedItem,
    UnreadableItem, UsageItem,
};
use crate::tools::{CallKind, ToolContext};

/// Incremental transcript of a session, or of a part of it.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    tools: ToolContext,
    drafts: Vec<Draft>,
    /// The message that is being written, of the agent and of each subagent.
    open: Vec<OpenMessage>,
    /// Calls without a result; `None` if the call is before the cut.
    calls: HashMap<String, Option<usize>>,
    /// Permission requests without a call; `None` if the request is before the cut.
    requests: HashMap<String, Option<usize>>,
    turn: Option<(u32, Timestamp)>,
    /// True if the turn has a reply, or may have one before the first event.
    has_replied: bool,
    /// True if the first event is not the first of the session.
    is_partial: bool,
    is_begun: bool,
}

/// An item that later events may change. It is rendered on request only.
#[derive(Debug, Clone)]
struct Draft {
    seq: u64,
    last_seq: u64,
    turn: u32,
    at: Timestamp,
    kind: DraftKind,
}

#[derive(Debug, Clone)]
enum DraftKind {
    Message(DraftMessage),
    Call(Box<DraftCall>),
    Prompt(TurnStarted),
    /// An item that is complete, apart from its HTML.
    Done(ItemKind),
}

#[derive(Debug, Clone)]
struct DraftMessage {
    kind: TextKind,
    text: String,
    message: Option<String>,
    parent: Option<String>,
    is_open: bool,
    is_continued: bool,
}

#[derive(Debug, Clone)]
struct DraftCall {
    call: ToolCall,
    wants: ToolUse,
    /// The result, and when it arrived.
    result: Option<(ToolResult, Timestamp)>,
    permission: Option<CallDecision>,
}

/// A message that is being written.
#[derive(Debug, Clone)]
struct OpenMessage {
    kind: TextKind,
    message: Option<String>,
    parent: Option<String>,
    /// `None` if all of it so far is before the cut.
    draft: Option<usize>,
}

impl Transcript {
    /// Creates an empty transcript.
    #[must_use]
    pub fn new(tools: ToolContext) -> Self {
        Self {
            tools,
            ..Self::default()
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        if !self.is_begun {
            self.is_begun = true;
            self.is_partial = event.seq > 1;
            self.has_replied = self.is_partial;
        }
        match &event.kind {
            EventKind::Text(text) => self.text(event, text),
            EventKind::ToolCall(call) => self.call(event, call),
            EventKind::ToolResult(result) => self.result(event, result),
            EventKind::Permission(permission) => self.permission(event, permission),
            EventKind::TurnStarted(turn) => {
                self.close_all();
                self.has_replied = false;
                self.turn = Some((event.turn, event.at));
                self.add(event, DraftKind::Prompt(turn.clone()));
            }
            EventKind::TurnEnded(turn) => self.turn_ended(event, turn),
            EventKind::Ended(ended) => {
                self.close_all();
                let ended = EndedItem {
                    outcome: ended.outcome.clone(),
                    usage: ended.usage.clone(),
                };
                self.done(event, ItemKind::Ended(Box::new(ended)));
            }
            EventKind::Usage(usage) => {
                let usage = (**usage).clone();
                self.usage(event, UsageItem { usage });
            }
            EventKind::Notice(notice) => self.done(event, ItemKind::Notice(notice_item(notice))),
            EventKind::Refused(refused) => self.done(event, ItemKind::Notice(refusal(refused))),
            EventKind::Unreadable(line) => {
                let line = UnreadableItem {
                    raw: line.raw.clone(),
                    why: line.why.clone(),
                };
                self.done(event, ItemKind::Unreadable(line));
            }
            EventKind::State(state) if is_pause(*state) => {
                self.done(event, ItemKind::State(*state));
            }
            EventKind::Started(_) | EventKind::State(_) => {}
        }
    }

    /// Adds an event that is not the next one: only results and decisions of what is shown.
    pub fn push_late(&mut self, event: &Event) {
        let is_shown = match &event.kind {
            EventKind::ToolResult(result) => matches!(self.calls.get(&result.id), Some(Some(_))),
            EventKind::Permission(it) => {
                let shown = |map: &HashMap<String, Option<usize>>| map.get(&it.id).copied();
                matches!(shown(&self.calls), Some(Some(_)))
                    || matches!(shown(&self.requests), Some(Some(_)))
            }
            _ => false,
        };
        if is_shown {
            self.push(event);
        }
    }

    /// Drops the items so far. Events that belong to them are still recognized: text that continues
    /// a message becomes an item that says so, and results of calls are absorbed.
    pub fn cut(&mut self) {
        self.drafts.clear();
        self.calls.values_mut().for_each(|at| *at = None);
        self.requests.values_mut().for_each(|at| *at = None);
        self.open.iter_mut().for_each(|open| open.draft = None);
    }

    /// Closes all messages: no event follows.
    pub fn finish(&mut self) {
        self.close_all();
    }

    /// Sets the start of the current turn, if it is before the first event.
    pub fn set_turn_start(&mut self, turn: u32, at: Timestamp) {
        self.turn.get_or_insert((turn, at));
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Returns true if there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Returns true if an item waits for the result of a tool, or for a decision.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.drafts.iter().any(|draft| match &draft.kind {
            DraftKind::Call(call) => call.result.is_none(),
            DraftKind::Done(ItemKind::Permission(item)) => {
                item.decision.decision == Decision::Asked
            }
            _ => false,
        })
    }

    /// Renders all items.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        self.first_items(self.len())
    }

    /// Renders the first items.
    #[must_use]
    pub fn first_items(&self, count: usize) -> Vec<Item> {
        let drafts = self.drafts.iter().take(count);
        drafts.map(|draft| draft.render(&self.tools)).collect()
    }

    /// Returns the first event of an item.
    pub(crate) fn start(&self, at: usize) -> Option<u64> {
        self.drafts.get(at).map(|draft| draft.seq)
    }

    /// Returns true if the items from `at` on can be separated from those before: no message
    /// continues across the boundary.
    pub(crate) fn is_clean_before(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.start(at));
        before.is_none_or(|before| self.start(at).is_some_and(|start| before < start))
            && self.spanning(at) == 0
    }

    /// Returns the number of messages that continue across the boundary before an item.
    pub(crate) fn spanning(&self, at: usize) -> usize {
        let start = self.start(at).unwrap_or(u64::MAX);
        let before = self.drafts.iter().take(at);
        let is_message = |draft: &&Draft| matches!(draft.kind, DraftKind::Message(_));
        let messages = before.filter(is_message);
        messages.filter(|draft| draft.last_seq >= start).count()
    }

    /// Returns true if a message of the first items has text after an event.
    pub(crate) fn spans(&self, count: usize, seq: u64) -> bool {
        let mut drafts = self.drafts.iter().take(count);
        drafts.any(|draft| matches!(draft.kind, DraftKind::Message(_)) && draft.last_seq > seq)
    }

    /// Returns the first event of the earliest of the first items that is not complete.
    pub(crate) fn first_open(&self, count: usize) -> Option<u64> {
        let mut drafts = self.drafts.iter().take(count);
        drafts.find(|draft| draft.is_open()).map(|draft| draft.seq)
    }

    fn add(&mut self, event: &Event, kind: DraftKind) -> usize {
        self.drafts.push(Draft {
            seq: event.seq,
            last_seq: event.seq,
            turn: event.turn,
            at: event.at,
            kind,
        });
        self.drafts.len() - 1
    }

    fn done(&mut self, event: &Event, kind: ItemKind) {
        self.add(event, DraftKind::Done(kind));
    }

    fn text(&mut self, event: &Event, text: &Text) {
        let at = self.open.iter().position(|open| open.parent == text.parent);
        let continues = at.filter(|at| {
            let open = self.open.get(*at);
            text.delta
                && open.is_some_and(|open| open.kind == text.kind && open.message == text.message)
        });
        if let Some(at) = continues {
            return self.continue_message(event, text, at);
        }
        self.close(text.parent.as_deref());
        if text.text.is_empty() {
            return;
        }
        self.has_replied |= text.kind == TextKind::Reply && text.parent.is_none();
        let draft = self.add_message(event, text, false);
        if text.delta {
            self.open.push(OpenMessage {
                kind: text.kind,
                message: text.message.clone(),
                parent: text.parent.clone(),
                draft: Some(draft),
            });
        }
    }

    fn continue_message(&mut self, event: &Event, text: &Text, at: usize) {
        let draft = self.open.get(at).and_then(|open| open.draft);
        match draft.and_then(|draft| self.drafts.get_mut(draft)) {
            Some(draft) => {
                if let DraftKind::Message(message) = &mut draft.kind {
                    message.text.push_str(&text.text);
                    draft.last_seq = event.seq;
                }
            }
            None => {
                let draft = self.add_message(event, text, true);
                if let Some(open) = self.open.get_mut(at) {
                    open.draft = Some(draft);
                }
            }
        }
    }

    fn add_message(&mut self, event: &Event, text: &Text, is_continued: bool) -> usize {
        let message = DraftMessage {
            kind: text.kind,
            text: text.text.clone(),
            message: text.message.clone(),
            parent: text.parent.clone(),
            is_open: text.delta,
            is_continued,
        };
        self.add(event, DraftKind::Message(message))
    }

    /// Closes the message of the agent, or of a subagent.
    fn close(&mut self, parent: Option<&str>) {
        let at = self
            .open
            .iter()
            .position(|open| open.parent.as_deref() == parent);
        let open = at.map(|at| self.open.swap_remove(at));
        let draft = open.and_then(|open| self.drafts.get_mut(open.draft?));
        if let Some(DraftKind::Message(message)) = draft.map(|draft| &mut draft.kind) {
            message.is_open = false;
        }
    }

    fn close_all(&mut self) {
        while let Some(open) = self.open.last() {
            let parent = open.parent.clone();
            self.close(parent.as_deref());
        }
    }

    fn call(&mut self, event: &Event, call: &ToolCall) {
        self.close(call.parent.as_deref());
        let wants = self.tools.tool_use(&call.name, &call.input);
        let mut draft = DraftCall {
            call: call.clone(),
            wants,
            result: None,
            permission: None,
        };
        // A request that came before its call becomes part of it.
        if let Some(Some(at)) = self.requests.remove(&call.id)
            && let Some(asked) = self.drafts.get_mut(at)
        {
            if let DraftKind::Done(ItemKind::Permission(permission)) = &asked.kind {
                draft.permission = Some(permission.decision.clone());
            }
            asked.kind = DraftKind::Call(Box::new(draft));
            asked.last_seq = event.seq;
            self.calls.insert(call.id.clone(), Some(at));
            return;
        }
        let at = self.add(event, DraftKind::Call(Box::new(draft)));
        self.calls.insert(call.id.clone(), Some(at));
    }

    fn result(&mut self, event: &Event, result: &ToolResult) {
        match self.calls.remove(&result.id) {
            Some(Some(at)) => {
                if let Some(draft) = self.drafts.get_mut(at)
                    && let DraftKind::Call(call) = &mut draft.kind
                {
                    call.result = Some((result.clone(), event.at));
                    draft.last_seq = event.seq;
                }
            }
            // On an earlier page.
            Some(None) => {}
            None if self.is_partial && result.name.is_some() => {}
            // A result without a call.
            None => {
                let name = result.name.clone().unwrap_or_else(|| "tool".to_owned());
                let call = ToolCall {
                    id: result.id.clone(),
                    input: ostler_core::raw_json::RawJson::null(),
                    name,
                    parent: None,
                };
                self.call(event, &call);
                self.result(event, result);
            }
        }
    }

    fn permission(&mut self, event: &Event, permission: &Permission) {
        let decision = CallDecision {
            decision: permission.decision,
            by: permission.by,
            message: permission.message.clone(),
        };
        let known = self
            .calls
            .get(&permission.id)
            .or_else(|| self.requests.get(&permission.id));
        match known {
            Some(Some(at)) => {
                if let Some(draft) = self.drafts.get_mut(*at) {
                    draft.last_seq = event.seq;
                    match &mut draft.kind {
                        DraftKind::Call(call) => call.permission = Some(decision),
                        DraftKind::Done(ItemKind::Permission(item)) => item.decision = decision,
                        _ => {}
                    }
                }
            }
            // On an earlier page.
            Some(None) => {}
            None => {
                let null = ostler_core::raw_json::RawJson::null();
                let input = permission.input.clone();
                let wants = self
                    .tools
                    .tool_use(&permission.tool, input.as_ref().unwrap_or(&null));
                let kind = permission.kind.unwrap_or(wants.kind);
                let item = PermissionItem {
                    id: permission.id.clone(),
                    tool: permission.tool.clone(),
                    kind: CallKind::of(&ToolUse { kind, ..wants }),
                    input,
                    decision,
                };
                let kind = DraftKind::Done(ItemKind::Permission(Box::new(item)));
                let at = self.add(event, kind);
                self.requests.insert(permission.id.clone(), Some(at));
            }
        }
    }

    /// Usage events in a row become one item: the last one counts.
    fn usage(&mut self, event: &Event, usage: UsageItem) {
        let usage = ItemKind::Usage(Box::new(usage));
        if let Some(last) = self.drafts.last_mut()
            && last.turn == event.turn
            && matches!(last.kind, DraftKind::Done(ItemKind::Usage(_)))
        {
            last.kind = DraftKind::Done(usage);
            last.last_seq = event.seq;
            return;
        }
        self.done(event, usage);
    }

    fn turn_ended(&mut self, event: &Event, turn: &TurnEnded) {
        self.close_all();
        // Some agents send the answer only at the end.
        if !self.has_replied && !turn.text.trim().is_empty() {
            let text = Text {
                kind: TextKind::Reply,
                text: turn.text.clone(),
                delta: false,
                message: None,
                parent: None,
            };
            self.add_message(event, &text, false);
        }
        self.has_replied = false;
        let began = self.turn.filter(|(turn, _)| *turn == event.turn);
        let ended = TurnEndedItem {
            outcome: turn.outcome.clone(),
            usage: turn.usage.clone(),
            structured: turn.structured.clone(),
            duration_ms: began.and_then(|(_, began)| event.at.since(began)),
        };
        self.done(event, ItemKind::TurnEnded(Box::new(ended)));
    }
}

impl Draft {
    fn is_open(&self) -> bool {
        match &self.kind {
            DraftKind::Message(message) => message.is_open,
            DraftKind::Call(call) => call.result.is_none(),
            DraftKind::Prompt(_) | DraftKind::Done(_) => false,
        }
    }
}

fn notice_item(notice: &Notice) -> NoticeItem {
    NoticeItem {
        level: notice.level,
        code: notice.code.as_str().to_owned(),
        message: notice.message.clone(),
    }
}

fn refusal(refused: &Refused) -> NoticeItem {
    NoticeItem {
        level: Level::Warning,
        code: refused.code.as_str().to_owned(),
        message: refused.why.clone(),
    }
}

fn is_pause(state: State) -> bool {
    state.from == SessionState::Paused || state.to == SessionState::Paused
}

#[cfg(test)]
pub(crate) mod tests;
