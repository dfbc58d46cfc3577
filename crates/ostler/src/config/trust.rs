//! Values accepted from an untrusted project's file: those on this list, and nothing else.

use std::collections::BTreeMap;

use super::agent_of;
use super::entry::Entry;
use super::key::{Field, Key};

/// Settings of agents that cannot start a program, widen a permission, or send a key or a prompt
/// elsewhere.
pub const HARMLESS_SETTINGS: [&str; 4] = [
    "effort",
    "fallback_model",
    "reasoning_effort",
    "temperature",
];

/// Returns why a value about the caller's daemon is ignored in a project's file, even if the
/// project is trusted; `None` for other values.
pub(super) fn daemon_refusal(key: &Key) -> Option<String> {
    let why = match key {
        Key::Daemon => "only you choose where tasks run",
        Key::Notify => "only you choose which commands the daemon runs",
        Key::Webhook(..) => "only your own file can define webhooks",
        _ => return None,
    };
    Some(why.to_owned())
}

/// Returns why a value of an untrusted project is ignored, or `None` if it is accepted. `below`
/// holds the values without that file.
pub(super) fn refusal(entry: &Entry, below: &BTreeMap<Key, Entry>) -> Option<String> {
    let why = match &entry.key {
        // Agents differ in the service they call, and in the files they read in a repository.
        Key::Agent => "only you choose the agent",
        Key::Daemon | Key::Notify | Key::Webhook(..) => return daemon_refusal(&entry.key),
        // An alias could stand for another model than the requested one.
        Key::AgentField(_, Field::Alias(_)) => "it changes the meaning of a model's name",
        // Only chooses among the agent's models.
        Key::AgentField(_, Field::Model) => return None,
        Key::AgentField(_, Field::Set(key)) if HARMLESS_SETTINGS.contains(&key.as_str()) => {
            return None;
        }
        // Another agent behind the caller's name would get what was meant for the first.
        Key::AgentField(name, Field::Like)
            if below.keys().any(|key| agent_of(key) == Some(name)) =>
        {
            "this name is already in use"
        }
        Key::AgentField(_, Field::Like) => return None,
        Key::Limit(limit) => {
            let held = below
                .get(&entry.key)
                .map_or(limit.usual(), |entry| entry.value.text());
            let is_wider = limit.widens(entry.value.text(), held);
            return is_wider.then(|| format!("it would raise the limit, which is {held}"));
        }
        Key::AgentField(_, Field::Command | Field::Args | Field::Acp) => {
            "it determines which program runs, and how"
        }
        Key::AgentField(_, Field::Env(_)) => "it changes the agent's environment",
        Key::AgentField(_, Field::Set(_)) => {
            "this setting could widen what the agent may do or reach"
        }
    };
    Some(why.to_owned())
}
