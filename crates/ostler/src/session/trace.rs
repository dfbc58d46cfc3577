//! Trace of a session: its events as `tracing` records.
//!
//! A record has no prompt, answer, reasoning, tool argument or tool output, and no message that may
//! quote one: names, codes and numbers are enough to see what happened.

use ostler_core::event::{DecidedBy, Event, EventKind, Level, Notice, Timestamp};
use ostler_core::lines::Line;
use serde::Serialize;
use tracing::{Span, debug, error, info, info_span, trace, warn};

use super::SessionSetup;

/// Returns the span of a session, which its task runs in.
pub(super) fn session_span(setup: &SessionSetup) -> Span {
    let span = info_span!(
        "session",
        session = &*setup.id,
        agent = setup.dialect.about().name
    );
    span.in_scope(|| info!(dir = %setup.dir.display(), "session started"));
    span
}

/// Records the events of a session.
pub(super) struct SessionTrace {
    /// Process id of the agent, if it is a process and was started.
    pub(super) pid: Option<u32>,
    /// Span of the current turn.
    turn: Span,
    turn_started: Timestamp,
}

impl SessionTrace {
    pub(super) fn new() -> Self {
        Self {
            pid: None,
            turn: Span::none(),
            turn_started: Timestamp::UNKNOWN,
        }
    }

    /// Records an event.
    pub(super) fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Text(_) | EventKind::Usage(_) => return,
            EventKind::TurnStarted(_) => {
                self.turn = info_span!("turn", turn = event.turn, pid = self.pid);
                self.turn_started = event.at;
            }
            _ => {}
        }
        self.turn.in_scope(|| record(event, self.turn_started));
        if let EventKind::TurnEnded(_) = event.kind {
            self.turn = Span::none();
        }
    }
}

fn record(event: &Event, turn_started: Timestamp) {
    match &event.kind {
        EventKind::Started(it) => debug!(
            version = it.agent_version,
            model = it.model,
            native_session = it.native_session,
            "agent identified itself"
        ),
        EventKind::State(it) => {
            debug!(from = name(&it.from), phase = name(&it.to), "state changed");
        }
        EventKind::TurnStarted(it) => info!(origin = name(&it.origin), "turn started"),
        EventKind::ToolCall(it) => debug!(tool = it.name, call = it.id, "tool called"),
        EventKind::ToolResult(it) => debug!(
            tool = it.name,
            call = it.id,
            ok = it.ok,
            denied = it.denied.then_some(true),
            "tool finished"
        ),
        EventKind::Permission(it) => info!(
            tool = it.tool,
            call = it.id,
            decision = name(&it.decision),
            by = name(&it.by),
            // A rule's text comes from the policy; other messages may come from a person.
            rule = it.message.as_deref().filter(|_| it.by == DecidedBy::Rule),
            "permission"
        ),
        EventKind::Notice(it) => notice(it),
        EventKind::Unreadable(it) => warn!(bytes = it.length, "unreadable line"),
        EventKind::Refused(it) => {
            warn!(request = %it.request, code = %it.code, "request refused");
        }
        EventKind::TurnEnded(it) => info!(
            cause = %it.outcome.cause,
            reason = it.outcome.reason().map(tracing::field::display),
            ms = event.at.since(turn_started),
            "turn ended"
        ),
        EventKind::Ended(it) => info!(
            cause = %it.outcome.cause,
            reason = it.outcome.reason().map(tracing::field::display),
            exit_code = it.exit_code,
            signal = it.signal,
            "session ended"
        ),
        EventKind::Text(_) | EventKind::Usage(_) => {}
    }
}

fn notice(notice: &Notice) {
    let code = notice.code.as_str();
    match notice.level {
        Level::Error => error!(code, "notice"),
        Level::Warning => warn!(code, "notice"),
        Level::Debug | Level::Info => debug!(code, "notice"),
    }
}

/// Records a line from the agent, at the only level that shows what it contains.
pub(super) fn line_from_agent(line: &Line<'_>) {
    match line {
        Line::Text { text, .. } => trace!(line = %text, "line from agent"),
        Line::Oversize { length, .. } => trace!(bytes = length, "oversize line from agent"),
    }
}

/// Records input for the agent, at the only level that shows what it contains.
pub(super) fn line_to_agent(bytes: &[u8]) {
    trace!(line = %String::from_utf8_lossy(bytes).trim_end(), "sent to agent");
}

/// Returns a name as it is on the wire.
fn name(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    json.trim_matches('"').to_owned()
}
