//! The JSON format: one object at the end, with the outcome, the answer, usage, times and ids.

use std::io::{self, Write};

use ostler::event::{Level, Started, Timestamp, TurnEnded};
use ostler::{Event, EventKind, Outcome, RawJson, Usage};
use serde::Serialize;

use super::{Output, warning};

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
pub(super) struct Json<W> {
    out: W,
    err: Box<dyn Write + Send>,
    first: Option<Timestamp>,
    started: Option<Started>,
    turn: Option<TurnEnded>,
    tool_calls: usize,
    denied: usize,
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl<W: Write> Json<W> {
    pub(super) fn new(out: W, err: Box<dyn Write + Send>) -> Self {
        let (errors, warnings) = (Vec::new(), Vec::new());
        Self {
            out,
            err,
            first: None,
            started: None,
            turn: None,
            tool_calls: 0,
            denied: 0,
            errors,
            warnings,
        }
    }
}

/// Returns a time if it was recorded.
fn known(at: Timestamp) -> Option<Timestamp> {
    Some(at).filter(|at| *at != Timestamp::UNKNOWN)
}

impl<W: Write + Send> Output for Json<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let first = *self.first.get_or_insert(event.at);
        match &event.kind {
            EventKind::Started(started) => self.started = Some(started.clone()),
            EventKind::TurnEnded(turn) => {
                // A turn that the agent started itself does not replace the structured answer.
                let before = self.turn.take().and_then(|t| t.structured);
                let structured = turn.structured.clone().or(before);
                self.turn = Some(TurnEnded {
                    structured,
                    ..turn.clone()
                });
            }
            EventKind::ToolCall(_) => self.tool_calls += 1,
            EventKind::ToolResult(result) => self.denied += usize::from(result.denied),
            EventKind::Notice(notice) if notice.level == Level::Warning => {
                writeln!(self.err, "{}", warning(notice))?;
                self.warnings.push(notice.message.clone());
            }
            EventKind::Notice(notice) if notice.level == Level::Error => {
                self.errors.push(notice.message.clone());
            }
            EventKind::Ended(ended) => {
                if !ended.outcome.is_success() {
                    self.errors.push(ended.outcome.message.clone());
                }
                let started = self.started.as_ref();
                let report = Report {
                    session: &event.session,
                    agent: started.map(|s| s.agent.as_str()),
                    agent_version: started.and_then(|s| s.agent_version.as_deref()),
                    native_session: started.and_then(|s| s.native_session.as_deref()),
                    model: started.and_then(|s| s.model.as_deref()),
                    outcome: &ended.outcome,
                    text: self.turn.as_ref().map_or("", |t| &t.text),
                    structured: self.turn.as_ref().and_then(|t| t.structured.as_ref()),
                    usage: ended.usage.as_ref(),
                    turns: event.turn,
                    tool_calls: self.tool_calls,
                    denied: self.denied,
                    errors: &self.errors,
                    warnings: &self.warnings,
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
