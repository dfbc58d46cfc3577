//! Threads of sub-agents: what they do is not shown, but kept for as long as Codex may ask about it.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;

use super::items::Items;
use super::wire::Params;

/// The open calls of other threads, by their ids.
#[derive(Debug, Default)]
pub(super) struct Others(BTreeMap<String, Items>);

impl Others {
    /// Takes note of what a sub-agent does, in a session that is at home there.
    pub(super) fn hear(&mut self, method: &str, params: &Params<'_>, home: Option<&str>) {
        let thread = params.thread_id.or_empty();
        match (method, params.item.map()) {
            ("turn/completed" | "thread/closed", _) => {
                self.0.remove(thread);
            }
            ("item/started", Some(item)) => {
                let new = || Items::new(home.map(str::to_owned));
                let items = self.0.entry(thread.to_owned()).or_insert_with(new);
                // What there would be to tell of it is not for the caller.
                items.begun(item, &mut Outbox::default());
            }
            ("item/completed", Some(item)) => {
                if let Some(items) = self.0.get_mut(thread) {
                    items.forget(item.id.or_empty());
                }
            }
            ("item/fileChange/patchUpdated", _) => {
                if let Some(items) = self.0.get_mut(thread) {
                    items.patched(params.item_id.or_empty(), params.changes);
                }
            }
            _ => {}
        }
    }

    /// What the thread of a question has under way.
    pub(super) fn of(&self, params: &Params<'_>) -> Option<&Items> {
        self.0.get(params.thread_id.text()?)
    }
}
