//! What to type instead, for a command line that cannot be read.

use std::sync::Arc;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ostler::{Agent, Agents};

use crate::environment;

/// Adds what helps with an unknown flag of `ostler run`. What clap says there (`use '-- …'`) hands the words to the agent.
pub(crate) fn add(error: &mut clap::Error) {
    if error.kind() != ErrorKind::UnknownArgument || environment::args().nth(1).is_none_or(|verb| verb != "run") {
        return;
    }
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.clone(),
        _ => String::new(),
    };
    let (key, owner) = setting(&flag);
    if owner.is_some() {
        error.remove(ContextKind::SuggestedArg); // it is no misspelt flag
    }
    let tips: Vec<StyledStr> = tips(&flag, &key, owner.as_deref()).into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// The setting that a flag looks like, and the agent that has it.
fn setting(flag: &str) -> (String, Option<Arc<dyn Agent>>) {
    let name = flag.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default();
    let key = name.replace('-', "_");
    let owner = Agents::builtin().iter().find(|agent| agent.settings().iter().any(|s| s.key == key)).cloned();
    (key, owner)
}

fn tips(flag: &str, key: &str, owner: Option<&dyn Agent>) -> Vec<String> {
    match owner {
        Some(agent) => vec![format!("{key} is a setting of {}: --set {key}=VALUE", agent.name())],
        None if flag.starts_with('-') => vec![
            "a task that begins with a dash goes with --prompt TEXT".into(),
            "a setting of the agent's own goes with --set KEY=VALUE".into(),
        ],
        None => vec!["a task of several words goes in quotes".into()],
    }
}
