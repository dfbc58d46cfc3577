//! Messages for the turn that is under way.
//!
//! Claude Code gives them to the model with the next tool result. If none comes, it begins a turn of its own with them once
//! this one is over. Under an id of ours it tells what becomes of each (`command_lifecycle`).

use std::collections::BTreeSet;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::Level;
use ostler_core::raw_json::RawJson;

use super::wire::Line;

/// The capability to tell what becomes of a message.
const LIFECYCLE: &str = "msg_lifecycle_v1";

/// The messages that were given to turns.
#[derive(Debug, Default)]
pub(super) struct Steers {
    /// Those that wait until the agent is heard; before, they would become a part of the prompt.
    held: Vec<String>,
    /// Ids of those that were sent and have not reached the model.
    queued: BTreeSet<String>,
    /// An id that the agent made, from which ours are made: nothing here can make one that is new in the world.
    seed: Option<String>,
    sent: u64,
    /// Whether the agent tells what becomes of a message.
    tells: bool,
}

impl Steers {
    /// A turn begins: the agent says who it is.
    pub(super) fn turn_began(&mut self, line: &Line<'_>) {
        self.seed = line
            .uuid
            .owned()
            .filter(|uuid| ostler_core::spec::is_uuid(uuid));
        self.tells = line
            .capabilities
            .0
            .iter()
            .any(|it| it.text() == Some(LIFECYCLE));
    }

    /// The caller has a message for the turn.
    pub(super) fn say(&mut self, message: String) {
        self.held.push(message);
    }

    /// The agent was heard, or the turn is over: what waited goes out.
    pub(super) fn release(&mut self, out: &mut Outbox) {
        for message in std::mem::take(&mut self.held) {
            self.sent += 1;
            let id = self.seed.as_ref().filter(|_| self.tells).map(|seed| {
                let (own, _) = seed.split_at(seed.len() - 12);
                format!("{own}{:012x}", self.sent)
            });
            out.push(FromConversation::Write(user(&message, id.as_deref())));
            self.queued.extend(id);
        }
    }

    /// Reads a `command_lifecycle`; true when the last message that waited is gone without a turn of its own.
    pub(super) fn hear(&mut self, line: &Line<'_>, out: &mut Outbox) -> bool {
        let state = line.state.or_empty();
        let settled = state != "queued" && self.queued.remove(line.command_uuid.or_empty());
        if !settled || state == "started" {
            return false;
        }
        if state != "completed" {
            let message = format!("A message for the turn did not reach the model ({state}).");
            out.notice(Level::Warning, "steer_dropped", message);
        }
        self.queued.is_empty()
    }

    /// The agent is gone: what has not reached the model never will.
    pub(super) fn lost(&mut self, out: &mut Outbox) {
        for message in std::mem::take(&mut self.held) {
            out.notice(
                Level::Warning,
                "steer_dropped",
                format!("The agent ended before it got this message: {message}"),
            );
        }
        for _ in std::mem::take(&mut self.queued) {
            out.notice(
                Level::Warning,
                "steer_dropped",
                "The agent ended before a message for the turn reached the model.",
            );
        }
    }

    /// Whether a message has not reached the model.
    pub(super) fn any_queued(&self) -> bool {
        !self.queued.is_empty()
    }
}

/// A message of the user's, with an id when one is to be told about.
pub(super) fn user(text: &str, id: Option<&str>) -> Vec<u8> {
    let content = RawJson::string(text);
    let id = id
        .map(|id| format!(",\"uuid\":\"{id}\""))
        .unwrap_or_default();
    let message = format!("{{\"role\":\"user\",\"content\":{}}}", content.get());
    format!("{{\"type\":\"user\",\"message\":{message}{id}}}\n").into_bytes()
}
