//! Ends of turns and sessions: result line, resume command, and notification.

use std::io;
use std::time::Duration;

use ostler::clip::sanitize;
use ostler::event::{Ended, TextKind, Timestamp, TurnEnded};
use ostler::{Cause, Outcome, Status as Ending, Usage, display};

use super::super::style::{BAD, DIM, GOOD, WARN};
use super::super::value::{is_safe_to_type, name};
use super::{Human, Turns, span, span_of, usage_summary};

impl Human {
    pub(super) fn ended(&mut self, ended: &Ended, id: &str) -> io::Result<()> {
        self.end_line()?;
        if let Some(loop_progress) = self.loop_progress.take() {
            let parts: Vec<String> = loop_progress
                .counted()
                .into_iter()
                .chain(self.session(id))
                .collect();
            let parts = parts.join(&format!("{DIM} · {DIM:#}"));
            self.summary(
                &ended.outcome,
                ended.usage.as_ref(),
                (self.first, Some(parts)),
            )?;
            self.notify_ended(&ended.outcome, self.first);
            let resume = loop_progress.resume_line(id, &ended.outcome);
            return resume.map_or(Ok(()), |resume| {
                self.stderr_line(&format!("  {DIM}resume with: {resume}{DIM:#}"))
            });
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
        if self.shown == Some(ended.outcome.cause) {
            return Ok(());
        }
        self.run_ended(&ended.outcome, ended.usage.as_ref(), id)
    }

    /// Writes the result line of a run as soon as its last turn has ended: the agent may take
    /// seconds to exit.
    pub(super) fn stopping(&mut self, id: &str) -> io::Result<()> {
        let Some(outcome) = self
            .outcome
            .take()
            .filter(|_| self.turns.is_none() && self.loop_progress.is_none())
        else {
            return Ok(());
        };
        self.end_line()?;
        self.shown = Some(outcome.cause);
        let usage = self.usage.take();
        self.run_ended(&outcome, usage.as_ref(), id)
    }

    fn run_ended(&mut self, outcome: &Outcome, usage: Option<&Usage>, id: &str) -> io::Result<()> {
        self.summary(outcome, usage, (self.first, self.session(id)))?;
        self.notify_ended(outcome, self.first);
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
        let started = self.started.as_ref()?;
        if self.is_stored {
            Some(display::short_id(id).to_owned())
        } else {
            started.native_session.clone()
        }
    }

    fn how_to_resume(&mut self, verb: &str, id: &str) -> io::Result<()> {
        match (self.resumable(id), &self.started) {
            (Some(id), Some(started))
                if is_safe_to_type(&id)
                    && started.native_session.is_some()
                    && (self.is_stored || is_safe_to_type(&started.agent)) =>
            {
                let message = if verb == "run" { " \"…\"" } else { "" };
                let agent = if self.is_stored {
                    String::new()
                } else {
                    format!(" --agent {}", started.agent)
                };
                self.stderr_line(&format!(
                    "  {DIM}resume with: ostler {verb}{agent} --resume {id}{message}{DIM:#}"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Writes the end of a chat, without repeating the outcome of its last turn.
    fn chat_ended(&mut self, ended: &Ended, id: &str, turns: &Turns) -> io::Result<()> {
        let is_news = turns
            .last
            .as_ref()
            .is_none_or(|last| last.cause != ended.outcome.cause);
        if is_news && !ended.outcome.is_success() && ended.outcome.cause != Cause::Stopped {
            self.tools.begin_turn();
            self.summary(&ended.outcome, None, (None, None))?;
        }
        if turns.count == 0 {
            return Ok(());
        }
        let count = format!(
            "{} turn{}",
            turns.count,
            if turns.count == 1 { "" } else { "s" }
        );
        let usage = ended
            .usage
            .as_ref()
            .map(usage_summary)
            .filter(|usage_summary| !usage_summary.is_empty());
        let changed = self.tools.changed();
        let parts: Vec<String> = self
            .session(id)
            .into_iter()
            .chain([count])
            .chain(changed)
            .chain(usage)
            .collect();
        self.stderr_line(&format!("{DIM}{}{DIM:#}", parts.join(" · ")))
    }

    pub(super) fn turn_ended(&mut self, turn: &TurnEnded, id: &str) -> io::Result<()> {
        // Shows an answer that was never streamed.
        if !self.wrote_answer && !turn.text.is_empty() {
            self.text(TextKind::Reply, &turn.text, true)?;
        }
        let Some(turns) = &mut self.turns else {
            self.outcome = Some(turn.outcome.clone());
            return Ok(());
        };
        turns.last = Some(turn.outcome.clone());
        let since = turns.since.take();
        self.end_line()?;
        self.summary(
            &turn.outcome,
            turn.usage.as_ref(),
            (since, self.session(id)),
        )?;
        self.notify_ended(&turn.outcome, since);
        self.stderr_line("") // separates turns
    }

    /// Notifies the user that work ended.
    fn notify_ended(&mut self, outcome: &Outcome, since: Option<Timestamp>) {
        let took = since
            .and_then(|since| self.now.since(since))
            .and_then(|took| u64::try_from(took).ok());
        let took = Duration::from_millis(took.unwrap_or(0));
        if let Some(notify) = &mut self.notify {
            notify.ended(
                &format!("ostler: {} after {}", outcome.cause, span(took)),
                took,
            );
        }
    }

    /// Writes the result line, and the reason for a failure.
    fn summary(
        &mut self,
        outcome: &Outcome,
        usage: Option<&Usage>,
        (since, more): (Option<Timestamp>, Option<String>),
    ) -> io::Result<()> {
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
        parts.extend(
            usage
                .map(usage_summary)
                .filter(|usage_summary| !usage_summary.is_empty()),
        );
        parts.extend(since.and_then(|since| self.now.since(since)).map(span_of));
        parts.extend(more);
        self.stderr_line(&parts.join(&format!("{DIM} · {DIM:#}")))?;
        if outcome.is_success() {
            return Ok(());
        }
        self.message(("  ", ""), &outcome.message)?;
        if let Some(hint) = &outcome.hint {
            self.message(("  ", ""), &format!("hint: {hint}"))?;
        }
        let stderr = outcome.detail.as_ref().and_then(|d| d.stderr.as_deref());
        for line in stderr
            .into_iter()
            .flat_map(str::lines)
            .rev()
            .take(10)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            self.stderr_line(&format!("  {DIM}│ {}{DIM:#}", sanitize(line)))?;
        }
        Ok(())
    }
}
