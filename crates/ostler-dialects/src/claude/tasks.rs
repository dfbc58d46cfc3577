//! Background tasks: how many run, so that nobody closes stdin under them.
//!
//! When a task ends, Claude Code begins a turn of its own to tell the model. Between the two lies a moment in which
//! nothing seems to run; until that turn begins, the task still counts.

use std::collections::BTreeSet;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::Level;

use super::wire::Line;
use crate::lenient::Node;

/// The tasks that run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: BTreeSet<String>,
    /// Whether a task ended and the model has not been told.
    untold: bool,
    /// Whether a message for the last turn came too late for it and gets a turn of its own.
    pub(super) owed: bool,
    /// The number last passed on.
    reported: usize,
}

impl Tasks {
    /// Reads a `system` line about tasks.
    pub(super) fn hear(&mut self, line: &Line<'_>, out: &mut Outbox) {
        match line.subtype.or_empty() {
            "task_started" => self.started(line, out),
            "task_notification" => self.ended(line, out),
            "task_updated" => self.updated(line),
            // The list is the truth; the other lines serve versions that do not send it.
            _ => {
                let ids = line
                    .tasks
                    .0
                    .iter()
                    .filter_map(Node::map)
                    .filter_map(|task| task.task_id.owned());
                self.running = ids.collect();
            }
        }
        self.report(out);
    }

    fn started(&mut self, line: &Line<'_>, out: &mut Outbox) {
        // A task in the foreground holds its turn open by itself.
        if let Some(id) = line
            .task_id
            .owned()
            .filter(|_| !line.is_backgrounded.is_false())
        {
            self.running.insert(id);
            let message = format!(
                "A background task began: {}.",
                line.description.text().unwrap_or("no description")
            );
            out.notice(Level::Info, "task_started", message);
        }
    }

    fn ended(&mut self, line: &Line<'_>, out: &mut Outbox) {
        let status = line.status.text().unwrap_or("ended");
        let known = line
            .task_id
            .text()
            .is_some_and(|id| self.running.remove(id));
        self.untold |= known && matches!(status, "completed" | "failed");
        let message = format!(
            "A background task {status}: {}",
            line.summary.text().unwrap_or("no summary")
        );
        out.notice(Level::Info, "task_ended", message);
    }

    fn updated(&mut self, line: &Line<'_>) {
        let (Some(id), Some(patch)) = (line.task_id.text(), line.patch.map()) else {
            return;
        };
        if patch.is_backgrounded.is_true() {
            self.running.insert(id.to_owned());
        }
        // Completed and failed tasks are followed by a notification, which says more. A killed one may not be.
        if patch.status.text() == Some("killed") {
            self.running.remove(id);
        }
    }

    /// A tool result goes to the model, and what is new about tasks with it.
    pub(super) fn told(&mut self) {
        self.untold = false;
    }

    /// The turn that tells the model has begun.
    pub(super) fn turn_began(&mut self, out: &mut Outbox) {
        self.untold = false;
        self.owed = false;
        self.report(out);
    }

    /// Passes the number on when it changed.
    pub(super) fn report(&mut self, out: &mut Outbox) {
        let count = self.running.len() + usize::from(self.untold) + usize::from(self.owed);
        if count != self.reported {
            self.reported = count;
            out.push(FromConversation::Background(count));
        }
    }
}
