//! `ostler completions`: prints the registration script, and completion candidates when the script
//! asks for them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::engine::complete;
use clap_complete::env::{EnvCompleter, Shells};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use ostler::Models;
use ostler::config::Config;
use ostler_store::{ApprovalState, Filter, Store};

use crate::args::{Cli, ConfigArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, one_line};
use crate::{config, environment};

/// Maximum number of sessions to offer, newest first.
const SESSIONS: usize = 50;

/// Prints the script that registers completion in a shell.
pub(crate) fn script(shell: clap_complete::Shell) -> Result<Code> {
    let mut script = Vec::new();
    // The script finds the program on PATH, so that it survives updates.
    let (variable, name) = (environment::COMPLETE_VARIABLE, "ostler");
    completer(&shell.to_string())?
        .write_registration(variable, name, name, name, &mut script)
        .map_err(Fault::internal)?;
    print(&script)
}

/// Prints the candidates for the words after `--`.
pub(crate) fn answer(shell: &str) -> Result<Code> {
    let words = typed();
    let mut command = with_candidates(Cli::command());
    command.build();
    let dir = environment::directory().ok();
    let completer = completer(shell)?;
    let candidates = match shell {
        "bash" => bash(&mut command, words, dir.as_deref()),
        _ => {
            let mut candidates = Vec::new();
            let done =
                completer.write_complete(&mut command, words, dir.as_deref(), &mut candidates);
            done.map(|()| candidates)
        }
    };
    let candidates = candidates.map_err(Fault::internal)?;
    print(&candidates)
}

/// Prints bytes for the shell.
fn print(bytes: &[u8]) -> Result<Code> {
    match output::print_bytes(bytes) {
        Ok(()) => Ok(exit::OK),
        Err(error) => output::on_write_error(&error),
    }
}

/// Returns the candidates for bash, which passes the `=` of `--agent=claude` as a separate word.
fn bash(command: &mut Command, words: Vec<OsString>, dir: Option<&Path>) -> io::Result<Vec<u8>> {
    let (current, separator) = environment::completing_in_bash();
    let mut index = current;
    let mut whole: Vec<OsString> = Vec::new();
    for (at, word) in words.into_iter().enumerate() {
        let follows_flag = whole
            .last()
            .is_some_and(|last| last.as_encoded_bytes().starts_with(b"--"));
        if word == "=" && follows_flag && at < current {
            index -= 1;
        } else {
            whole.push(word);
        }
    }
    let candidates = complete(command, whole, index, dir)?;
    let values: Vec<_> = candidates
        .iter()
        .map(|candidate| candidate.get_value().to_string_lossy())
        .collect();
    Ok(values.join(&separator).into_bytes())
}

/// Adds candidates to the arguments of a command and its subcommands, by argument id. Hides
/// aliases, because clap would offer them instead of the name.
fn with_candidates(command: Command) -> Command {
    let is_loop = command.get_name() == "loop";
    let aliases = statics(command.get_all_aliases());
    let command = command.alias(None).aliases(aliases);
    let command = command.mut_args(|arg| {
        let aliases = statics(arg.get_all_aliases().into_iter().flatten());
        arg.alias(None).aliases(aliases)
    });
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "agent" | "conformance" => arg.add(agents()),
        "model" if is_loop => arg.add(loop_models()),
        "model" => arg.add(models()),
        "resume" | "id" | "ids" => arg.add(session_ids()),
        "request" => arg.add(approval_ids()),
        _ => arg,
    });
    command.mut_subcommands(with_candidates)
}

/// Leaks copies of the names; the process exits after answering.
fn statics<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    names.map(|name| &*name.to_owned().leak()).collect()
}

fn completer(shell: &str) -> Result<&'static dyn EnvCompleter> {
    let shells: Shells<'static> = Shells::builtins();
    shells
        .0
        .iter()
        .copied()
        .find(|known| known.is(shell))
        .ok_or_else(|| usage!("completion is not supported for {shell:?}"))
}

/// Returns the command line that is being completed.
fn typed() -> Vec<OsString> {
    environment::args()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect()
}

/// Offers the names of agents.
fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let config = configured();
        let names = config.names().into_iter();
        names.map(CompletionCandidate::new).collect()
    })
}

/// Offers the models of the agent named on the command line, or of all agents.
fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let config = configured();
        let default = config.default_agent().map(|entry| entry.value.text());
        let named = option(&["--agent", "-a"]).or_else(|| default.map(str::to_owned));
        let mut names = BTreeSet::new();
        for name in config.names() {
            if named.as_deref().is_some_and(|named| named != name) {
                continue;
            }
            let models = config.agent(name).map(|agent| agent.about().models);
            names.extend(models.into_iter().flatten().map(ToString::to_string));
            let aliases = config.defaults(name).map(|defaults| defaults.aliases());
            names.extend(aliases.into_iter().flatten().map(str::to_owned));
        }
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Offers the models of a loop.
fn loop_models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let models = Models::new(environment::host(), configured().agents().clone());
        // Names with capitals are patterns.
        let names = models
            .names()
            .into_iter()
            .filter(|name| !name.contains(|c: char| c.is_ascii_uppercase()));
        names.map(CompletionCandidate::new).collect()
    })
}

/// Offers the ids of stored sessions, as `ostler sessions` lists them.
fn session_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let store = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok());
        let filter = Filter {
            limit: Some(SESSIONS),
            ..Filter::default()
        };
        let rows = store
            .and_then(|store| store.sessions(&filter).ok())
            .unwrap_or_default();
        let candidate = |row: &ostler_store::SessionRow| {
            let task = one_line(row.prompt.as_deref().unwrap_or_default().trim_start(), 50);
            CompletionCandidate::new(ostler::render::display::short_id(&row.session))
                .help(Some(format!("{}: {task}", one_line(&row.agent, 20)).into()))
        };
        rows.iter().map(candidate).collect()
    })
}

/// Offers the ids of permission requests that wait for an answer.
fn approval_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let store = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok());
        let pending = store
            .and_then(|store| store.approvals(Some(ApprovalState::Pending)).ok())
            .unwrap_or_default();
        let candidate = |approval: &ostler_store::Approval| {
            CompletionCandidate::new(ostler::render::display::short_id(&approval.id))
        };
        pending.iter().map(candidate).collect()
    })
}

/// Returns the value of an option on the command line.
fn option(names: &[&str]) -> Option<String> {
    let words: Vec<String> = typed()
        .into_iter()
        .filter_map(|word| word.into_string().ok())
        .collect();
    words
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
            // Bash passes `=` as a separate word.
            None if names.contains(&word.as_str()) => {
                words[at + 1..].iter().find(|word| *word != "=").cloned()
            }
            _ => None,
        })
}

/// Returns the effective configuration, or the default if a file is invalid: completion cannot
/// report errors.
fn configured() -> Config {
    config::directory(None)
        .and_then(|dir| config::load_in(ConfigArgs::default(), &dir))
        .map(|(_, config)| config)
        .unwrap_or_default()
}
