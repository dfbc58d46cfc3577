//! Ends of turns and sessions: result line, resume command, and notification.

use std::io;

use ostler::event::{Ended, TextKind, Timestamp, TurnEnded};
use ostler::outcome::Status as Ending;
use ostler::render::clip::sanitize;
use ostler::render::display;
use ostler::{Cause, Outcome, Usage};

use super::super::style::{BAD, DIM, GOOD, WARN};
use super::super::value::{is_safe_to_type, name};
use super::{Human, Turns, counted, duration, span, span_of, usage_summary};

/// Parts of the result line after the cause, as far as known.
#[derive(Default)]
struct SummaryDetail<'a> {
    usage: Option<&'a Usage>,
    /// When the run or turn started.
    since: Option<Timestamp>,
    /// The session, or the result of a loop.
    more: Option<String>,
}

impl Human {
    pub(super) fn ended(&mut self, ended: &Ended, id: &str) -> io::Result<()> {
        self.end_line()?;
        let Ended { outcome, usage, .. } = ended;
        if let Some(loop_progress) = self.loop_progress.take() {
            let parts: Vec<String> = loop_progress
                .counted()
                .into_iter()
                .chain(self.session(id))
                .collect();
            let detail = SummaryDetail {
                usage: usage.as_ref(),
                since: self.shown.first,
                more: Some(parts.join(&format!("{DIM} · {DIM:#}"))),
            };
            self.summary_with_notification(outcome, detail)?;
            let resume = loop_progress.resume_line(id, outcome);
            return resume.map_or(Ok(()), |resume| self.resume_with(&resume));
        }
        if let Some(turns) = self.turns.as_mut().map(std::mem::take) {
            self.chat_ended(ended, id, &turns)?;
            // Without a turn there is nothing to resume.
            return if turns.count == 0 {
                Ok(())
            } else {
                self.how_to_resume("chat", id)
            };
        }
        if self.shown.cause == Some(outcome.cause) {
            return Ok(());
        }
        self.run_ended(outcome, usage.as_ref(), id)
    }

    /// Writes the result line of a run as soon as its last turn has ended: the agent may take
    /// seconds to exit.
    pub(super) fn stopping(&mut self, id: &str) -> io::Result<()> {
        let is_run = self.turns.is_none() && self.loop_progress.is_none();
        let Some(outcome) = self.shown.outcome.take().filter(|_| is_run) else {
            return Ok(());
        };
        self.end_line()?;
        self.shown.cause = Some(outcome.cause);
        let usage = self.shown.usage.take();
        self.run_ended(&outcome, usage.as_deref(), id)
    }

    fn run_ended(&mut self, outcome: &Outcome, usage: Option<&Usage>, id: &str) -> io::Result<()> {
        let detail = SummaryDetail {
            usage,
            since: self.shown.first,
            more: self.session(id),
        };
        self.summary_with_notification(outcome, detail)?;
        self.how_to_resume("run", id)
    }

    /// Formats the session for the result line.
    fn session(&self, id: &str) -> Option<String> {
        self.resumable(id)
            .map(|id| format!("session {}", name(&id)))
    }

    /// Returns the id to resume by: the short id that `ostler sessions` lists, or the agent's own
    /// if the session is not stored.
    fn resumable(&self, id: &str) -> Option<String> {
        let started = self.shown.started.as_ref()?;
        if self.is_stored {
            Some(display::short_id(id).to_owned())
        } else {
            started.native_session.clone()
        }
    }

    fn how_to_resume(&mut self, verb: &str, id: &str) -> io::Result<()> {
        let (Some(id), Some(started)) = (self.resumable(id), &self.shown.started) else {
            return Ok(());
        };
        let is_safe = is_safe_to_type(&id) && (self.is_stored || is_safe_to_type(&started.agent));
        if !is_safe || started.native_session.is_none() {
            return Ok(());
        }
        let message = if verb == "run" { " \"…\"" } else { "" };
        let agent = if self.is_stored {
            String::new()
        } else {
            format!(" --agent {}", started.agent)
        };
        self.resume_with(&format!("ostler {verb}{agent} --resume {id}{message}"))
    }

    fn resume_with(&mut self, command: &str) -> io::Result<()> {
        self.stderr_line(&format!("  {DIM}resume with: {command}{DIM:#}"))
    }

    /// Writes the end of a chat, without repeating the outcome of its last turn.
    fn chat_ended(&mut self, ended: &Ended, id: &str, turns: &Turns) -> io::Result<()> {
        let is_news = turns
            .last
            .as_ref()
            .is_none_or(|last| last.cause != ended.outcome.cause);
        if is_news && !ended.outcome.is_success() && ended.outcome.cause != Cause::Stopped {
            self.tools.begin_turn();
            self.summary(&ended.outcome, SummaryDetail::default())?;
        }
        if turns.count == 0 {
            return Ok(());
        }
        let count = counted(u64::from(turns.count), "turn");
        let usage = ended.usage.as_ref().and_then(known);
        let changed = self.tools.changed();
        let parts = [self.session(id), Some(count), changed, usage];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        self.stderr_line(&format!("{DIM}{}{DIM:#}", parts.join(" · ")))
    }

    pub(super) fn turn_ended(&mut self, turn: &TurnEnded, id: &str) -> io::Result<()> {
        // Shows an answer that was never streamed.
        if !self.shown.wrote_answer && !turn.text.is_empty() {
            self.text(TextKind::Reply, &turn.text, true)?;
        }
        let Some(turns) = &mut self.turns else {
            self.shown.outcome = Some(turn.outcome.clone());
            return Ok(());
        };
        turns.last = Some(turn.outcome.clone());
        let since = turns.since.take();
        self.end_line()?;
        let detail = SummaryDetail {
            usage: turn.usage.as_ref(),
            since,
            more: self.session(id),
        };
        self.summary_with_notification(&turn.outcome, detail)?;
        self.stderr_line("") // separates turns
    }

    /// Writes the result line, and notifies the user that work ended.
    fn summary_with_notification(
        &mut self,
        outcome: &Outcome,
        detail: SummaryDetail<'_>,
    ) -> io::Result<()> {
        let took = duration(self.took(detail.since).unwrap_or(0));
        self.summary(outcome, detail)?;
        if let Some(notify) = &mut self.notify {
            let message = format!("ostler: {} after {}", outcome.cause, span(took));
            notify.ended(&message, took);
        }
        Ok(())
    }

    /// Returns the milliseconds since a time, if both times are known.
    fn took(&self, since: Option<Timestamp>) -> Option<i64> {
        self.shown.now.since(since?)
    }

    /// Writes the result line, and the reason for a failure.
    fn summary(&mut self, outcome: &Outcome, detail: SummaryDetail<'_>) -> io::Result<()> {
        let SummaryDetail { usage, since, more } = detail;
        let (mark, paint) = match outcome.status {
            Ending::Success => ("✓", GOOD),
            Ending::Stopped => ("■", WARN),
            Ending::Failed | Ending::Timeout => ("✗", BAD),
        };
        let mut parts = vec![format!("{paint}{mark} {}{paint:#}", outcome.cause)];
        parts.extend(if self.turns.is_some() {
            self.tools.changed_in_turn()
        } else {
            self.tools.changed()
        });
        parts.extend(usage.and_then(known));
        parts.extend(self.took(since).map(span_of));
        parts.extend(more);
        self.stderr_line(&parts.join(&format!("{DIM} · {DIM:#}")))?;
        if outcome.is_success() {
            return Ok(());
        }
        self.message("  ", &outcome.message, "")?;
        if let Some(hint) = &outcome.hint {
            self.message("  ", &format!("hint: {hint}"), "")?;
        }
        let stderr = outcome.detail.as_ref().and_then(|d| d.stderr.as_deref());
        let lines: Vec<&str> = stderr.unwrap_or_default().lines().collect();
        for line in &lines[lines.len().saturating_sub(10)..] {
            self.stderr_line(&format!("  {DIM}│ {}{DIM:#}", sanitize(line)))?;
        }
        Ok(())
    }
}

/// Formats tokens and cost, if any are known.
fn known(usage: &Usage) -> Option<String> {
    Some(usage_summary(usage)).filter(|summary| !summary.is_empty())
}
