//! What to type instead, for a command line that cannot be read.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ostler::Agents;

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
    let tips: Vec<StyledStr> = tips(&flag).into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

fn tips(flag: &str) -> Vec<String> {
    let key = flag.trim_start_matches('-').replace('-', "_");
    let key = key.split(['=', ' ']).next().unwrap_or_default();
    let owner = Agents::builtin().iter().find(|agent| agent.settings().iter().any(|s| s.key == key)).cloned();
    match owner {
        Some(agent) => vec![format!("{key} is a setting of {}: --set {key}=VALUE", agent.name())],
        None if flag.starts_with('-') => vec![
            "a task that begins with a dash goes with --prompt TEXT".into(),
            "a setting of the agent's own goes with --set KEY=VALUE".into(),
        ],
        None => vec!["a task of several words goes in quotes".into()],
    }
}
