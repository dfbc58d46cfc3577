//! Suggestions for invalid command lines.

use std::sync::Arc;

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ostler::config::nearest;
use ostler::{Agent, Agents};

use crate::args::Cli;
use crate::environment;

/// Adds suggestions to a clap error.
pub(crate) fn add(error: &mut clap::Error) {
    let words: Vec<String> = environment::args()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match error.kind() {
        ErrorKind::InvalidSubcommand => add_verbs(error, &words),
        // Clap's own suggestion (`use '-- …'`) would pass the words to the agent.
        ErrorKind::UnknownArgument if words.first().is_some_and(|verb| verb == "run") => {
            add_flags(error);
        }
        _ => {}
    }
}

/// Suggests similar verbs. Clap's own comparison misses swapped letters and suggests unrelated
/// words.
fn add_verbs(error: &mut clap::Error, words: &[String]) {
    let typed = text(error, ContextKind::InvalidSubcommand);
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = verb_tip(&typed, words);
    let tips: Vec<StyledStr> = tip.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

fn verb_tip(typed: &str, words: &[String]) -> Option<String> {
    let mut command = Cli::command();
    let mut path = "ostler".to_owned();
    for word in words.iter().take_while(|word| *word != typed) {
        let Some(verb) = command.find_subcommand(word).cloned() else {
            continue;
        };
        path = format!("{path} {}", verb.get_name());
        command = verb;
    }
    let verbs: Vec<&str> = command
        .get_subcommands()
        .flat_map(|verb| verb.get_name_and_visible_aliases())
        .collect();
    let mut near: Vec<&str> = nearest(typed, &verbs);
    // A verb and its alias count as one suggestion.
    near.dedup_by_key(|word| command.find_subcommand(*word).map(clap::Command::get_name));
    match near[..] {
        [] if path == "ostler" && typed.contains(char::is_whitespace) => {
            Some(format!("to run a task, use `ostler run {typed:?}`"))
        }
        [] => None,
        ref near => {
            let near: Vec<String> = near.iter().map(|verb| format!("`{path} {verb}`")).collect();
            Some(format!("did you mean {}?", near.join(" or ")))
        }
    }
}

/// Adds suggestions for an unknown flag of `ostler run`.
fn add_flags(error: &mut clap::Error) {
    let flag = text(error, ContextKind::InvalidArg);
    let (key, owner) = setting(&flag);
    if owner.is_some() {
        error.remove(ContextKind::SuggestedArg); // not a misspelled flag
    }
    let tips: Vec<StyledStr> = tips(&flag, &key, owner.as_deref())
        .into_iter()
        .map(StyledStr::from)
        .collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

/// Returns the setting that a flag resembles, and the agent that has it.
fn setting(flag: &str) -> (String, Option<Arc<dyn Agent>>) {
    let name = flag
        .trim_start_matches('-')
        .split(['=', ' '])
        .next()
        .unwrap_or_default();
    let key = name.replace('-', "_");
    let owner = Agents::builtin()
        .iter()
        .find(|agent| agent.about().accepts(&key))
        .cloned();
    (key, owner)
}

fn tips(flag: &str, key: &str, owner: Option<&dyn Agent>) -> Vec<String> {
    match owner {
        Some(agent) => vec![format!(
            "{key} is a setting of {}: use `--set {key}=VALUE`",
            agent.about().name
        )],
        None if flag.starts_with('-') => vec![
            "to pass a task that begins with a dash, use `--prompt TEXT`".into(),
            "to pass a setting of the agent, use `--set KEY=VALUE`".into(),
        ],
        None => vec!["put a task of several words in quotes".into()],
    }
}
