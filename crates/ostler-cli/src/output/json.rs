//! The JSON format: one object at the end, with the outcome, the answer, usage, times and ids.

use std::io::{self, Write};

use ostler::event::{Level, RawJson, Started, Timestamp, TurnEnded};
use ostler::{Event, EventKind, Outcome, Usage};
use serde::Serialize;

use super::{Output, Sink, warning};

/// The object. Fields may be added, never renamed; `docs/output.md` describes them.
#[derive(Debug, Serialize)]
struct Report<'a> {
    session: &'a str,
    agent: Option<&'a str>,
    agent_version: Option<&'a str>,
    native_session: Option<&'a str>,
    model: Option<&'a str>,
    outcome: &'a Outcome,
    text: &'a str,
    structured: Option<&'a RawJson>,
    usage: Option<&'a Usage>,
    turns: u32,
    tool_calls: usize,
    denied: usize,
    errors: &'a [String],
    warnings: &'a [String],
    /// Times are null in the replay of a recording that has none.
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    duration_ms: Option<i64>,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

/// Collects events and writes one object at the end.
pub(super) struct Json {
    pub out: Sink,
    pub err: Sink,
    pub seen: Seen,
}

/// Events so far.
#[derive(Default)]
pub(super) struct Seen {
    first: Option<Timestamp>,
    started: Option<Box<Started>>,
    turn: Option<TurnEnded>,
    tool_calls: usize,
    denied: usize,
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Returns a time if it was recorded.
fn known(at: Timestamp) -> Option<Timestamp> {
    Some(at).filter(|at| *at != Timestamp::UNKNOWN)
}

impl Output for Json {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let seen = &mut self.seen;
        let first = *seen.first.get_or_insert(event.at);
        match &event.kind {
            EventKind::Started(started) => seen.started = Some(started.clone()),
            EventKind::TurnEnded(turn) => {
                // A turn that the agent started itself does not replace the structured answer.
                let before = seen.turn.take().and_then(|t| t.structured);
                let structured = turn.structured.clone().or(before);
                seen.turn = Some(TurnEnded {
                    structured,
                    ..(**turn).clone()
                });
            }
            EventKind::ToolCall(_) => seen.tool_calls += 1,
            EventKind::ToolResult(result) => seen.denied += usize::from(result.denied),
            EventKind::Notice(notice) if notice.level == Level::Warning => {
                writeln!(self.err, "{}", warning(notice))?;
                seen.warnings.push(notice.message.clone());
            }
            EventKind::Notice(notice) if notice.level == Level::Error => {
                seen.errors.push(notice.message.clone());
            }
            EventKind::Ended(ended) => {
                if !ended.outcome.is_success() {
                    seen.errors.push(ended.outcome.message.clone());
                }
                let (started, turn) = (seen.started.as_ref(), seen.turn.as_ref());
                let report = Report {
                    session: &event.session,
                    agent: started.map(|s| s.agent.as_str()),
                    agent_version: started.and_then(|s| s.agent_version.as_deref()),
                    native_session: started.and_then(|s| s.native_session.as_deref()),
                    model: started.and_then(|s| s.model.as_deref()),
                    outcome: &ended.outcome,
                    text: turn.map_or("", |t| &t.text),
                    structured: turn.and_then(|t| t.structured.as_ref()),
                    usage: ended.usage.as_ref(),
                    turns: event.turn,
                    tool_calls: seen.tool_calls,
                    denied: seen.denied,
                    errors: &seen.errors,
                    warnings: &seen.warnings,
                    started_at: known(first),
                    ended_at: known(event.at),
                    duration_ms: event.at.since(first),
                    exit_code: ended.exit_code,
                    signal: ended.signal,
                };
                serde_json::to_writer_pretty(&mut self.out, &report)?;
                self.out.write_all(b"\n")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
