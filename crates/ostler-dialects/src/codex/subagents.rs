//! Threads of sub-agents. Their items are not shown, but tracked for as long as Codex may ask about
//! them.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;

use super::items::Items;
use super::wire::Params;

/// Items of sub-agents, by thread id.
#[derive(Debug, Default)]
pub(super) struct SubagentItems(BTreeMap<String, Items>);

impl SubagentItems {
    /// Tracks an item of a sub-agent. `session_dir` is the directory of the session.
    pub(super) fn on_notification(
        &mut self,
        method: &str,
        params: &Params<'_>,
        session_dir: Option<&str>,
    ) {
        let thread = params.thread_id.or_empty();
        match (method, params.item.map()) {
            ("turn/completed" | "thread/closed", _) => {
                self.0.remove(thread);
            }
            ("item/started", Some(item)) => {
                let new = || Items::new(session_dir.map(str::to_owned));
                let items = self.0.entry(thread.to_owned()).or_insert_with(new);
                // Its events are not for the caller.
                items.on_started(item, &mut Outbox::default());
            }
            ("item/completed", Some(item)) => {
                if let Some(items) = self.0.get_mut(thread) {
                    items.remove(item.id.or_empty());
                }
            }
            ("item/fileChange/patchUpdated", _) => {
                if let Some(items) = self.0.get_mut(thread) {
                    items.on_patch_updated(params.item_id.or_empty(), params.changes);
                }
            }
            _ => {}
        }
    }

    /// Returns the items of the thread that a request is about.
    pub(super) fn items_of(&self, params: &Params<'_>) -> Option<&Items> {
        self.0.get(params.thread_id.text()?)
    }
}
