//! Background tasks: counted, so that stdin stays open while they run.
//!
//! When a task ends, Claude Code starts a turn to report it to the model. Nothing seems to run in
//! between, so the task counts until that turn begins.

use std::collections::BTreeSet;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::{Level, NoticeCode};

use super::wire::ClaudeLine;

/// Running background tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: BTreeSet<String>,
    /// Whether a task has ended and the model does not know yet.
    end_unreported: bool,
    /// Whether a steering message missed the last turn and will get a separate turn.
    pub(super) owes_turn: bool,
    /// Count last emitted.
    reported: usize,
}

impl Tasks {
    /// Handles a `system` line about tasks.
    pub(super) fn on_line(&mut self, line: &ClaudeLine<'_>, out: &mut Outbox) {
        match line.subtype.or_empty() {
            "task_started" => self.started(line, out),
            "task_notification" => self.ended(line, out),
            "task_updated" => self.updated(line),
            // The complete list is authoritative; the other lines serve versions that do not send
            // it.
            _ => {
                let ids = line.tasks.iter().filter_map(|task| task.task_id.owned());
                self.running = ids.collect();
            }
        }
        self.report(out);
    }

    fn started(&mut self, line: &ClaudeLine<'_>, out: &mut Outbox) {
        // A foreground task keeps its turn open anyway.
        if let Some(id) = line
            .task_id
            .owned()
            .filter(|_| !line.is_backgrounded.is_false())
        {
            self.running.insert(id);
            let message = format!(
                "A background task started: {}.",
                line.description.text().unwrap_or("no description")
            );
            out.notice(Level::Info, NoticeCode::TaskStarted, message);
        }
    }

    fn ended(&mut self, line: &ClaudeLine<'_>, out: &mut Outbox) {
        let status = line.status.text().unwrap_or("ended");
        let known = line
            .task_id
            .text()
            .is_some_and(|id| self.running.remove(id));
        self.end_unreported |= known && matches!(status, "completed" | "failed");
        let message = format!(
            "A background task {status}: {}",
            line.summary.text().unwrap_or("no summary")
        );
        out.notice(Level::Info, NoticeCode::TaskEnded, message);
    }

    fn updated(&mut self, line: &ClaudeLine<'_>) {
        let Some(id) = line.task_id.text() else {
            return;
        };
        let patch = &line.patch;
        if patch.is_backgrounded.is_true() {
            self.running.insert(id.to_owned());
        }
        // A more detailed notification follows for completed and failed tasks, but not always for
        // killed ones.
        if patch.status.text() == Some("killed") {
            self.running.remove(id);
        }
    }

    /// Called when a tool result goes to the model, because it carries news about tasks.
    pub(super) fn on_tool_result(&mut self) {
        self.end_unreported = false;
    }

    /// Called when the turn that reports to the model begins.
    pub(super) fn turn_began(&mut self, out: &mut Outbox) {
        self.end_unreported = false;
        self.owes_turn = false;
        self.report(out);
    }

    /// Emits the count if it changed.
    pub(super) fn report(&mut self, out: &mut Outbox) {
        let count =
            self.running.len() + usize::from(self.end_unreported) + usize::from(self.owes_turn);
        if count != self.reported {
            self.reported = count;
            out.push(FromConversation::Background(count));
        }
    }
}
