//! What a project's file may say when nobody trusts the project: what is on this list, and nothing else.

use std::collections::BTreeMap;

use super::entry::Entry;
use super::key::{Field, Key};
use super::of;

/// Settings of agents that cannot start a program, widen a permission, or send a key or a prompt elsewhere.
pub const HARMLESS_SETTINGS: [&str; 4] = [
    "effort",
    "fallback_model",
    "reasoning_effort",
    "temperature",
];

/// Why a value of a project that nobody trusts is not taken; none if it is. `below` is what holds without that file.
pub(super) fn refusal(entry: &Entry, below: &BTreeMap<Key, Entry>) -> Option<String> {
    let why = match &entry.key {
        // Agents differ in whom they ask, and in what they read of a repository.
        Key::Agent => "which agent works here is for you to say",
        // An alias could stand for another model than the one that was asked for.
        Key::Of(_, Field::Alias(_)) => "it changes what the name of a model stands for",
        // The choice among the agent's models.
        Key::Of(_, Field::Model) => return None,
        Key::Of(_, Field::Set(key)) if HARMLESS_SETTINGS.contains(&key.as_str()) => return None,
        // Another agent behind a name of the caller's would get what was meant for the first.
        Key::Of(name, Field::Like) if below.keys().any(|key| of(key) == Some(name)) => {
            "this name is taken"
        }
        Key::Of(_, Field::Like) => return None,
        Key::Limit(limit) => {
            let held = below
                .get(&entry.key)
                .map_or(limit.usual(), |entry| entry.value.text());
            match limit.widens(entry.value.text(), held) {
                true => return Some(format!("it would widen the limit, which is {held}")),
                false => return None,
            }
        }
        Key::Of(_, Field::Command | Field::Args | Field::Acp) => {
            "it says which program is run, and how"
        }
        Key::Of(_, Field::Env(_)) => "it changes what the agent finds in its environment",
        Key::Of(_, Field::Set(_)) => "this setting could widen what the agent may do or reach",
    };
    Some(why.to_owned())
}
