//! Commands and exports of a case: `pre_execution` and `post_evaluation`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::near::suggestion;

use super::files::check_relative;
use super::prompts::file_code;
use super::section::{Findings, Section, text};
use super::tree::{Data, Node, ProblemCode};
use crate::case::{CommandSpec, ResultExport};

/// How long a command may run by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the list `pre_execution`.
pub(crate) fn before(case: &Section<'_>, findings: &mut Findings) -> Vec<CommandSpec> {
    let items = case.list("pre_execution", findings).iter().enumerate();
    let commands = items.filter_map(|(index, node)| {
        let path = case.item("pre_execution", index);
        match step(node, &path, &["script"], findings)? {
            Step::Command(command) => Some(command),
            Step::Export(_) => None,
        }
    });
    commands.collect()
}

/// Reads the list `post_evaluation`: commands, and files that results are written to.
pub(crate) fn after(
    case: &Section<'_>,
    findings: &mut Findings,
) -> (Vec<CommandSpec>, Vec<ResultExport>) {
    let (mut commands, mut exports) = (Vec::new(), Vec::new());
    for (index, node) in case.list("post_evaluation", findings).iter().enumerate() {
        let path = case.item("post_evaluation", index);
        match step(node, &path, &["script", "database", "webhook"], findings) {
            Some(Step::Command(command)) => commands.push(command),
            Some(Step::Export(export)) => exports.push(export),
            None => {}
        }
    }
    (commands, exports)
}

enum Step {
    Command(CommandSpec),
    Export(ResultExport),
}

/// Reads a step: a command line, a list of arguments, `{command, args, …}` or `{name, config}`.
fn step(node: &Node, path: &str, kinds: &[&str], findings: &mut Findings) -> Option<Step> {
    match &node.data {
        Data::Text(line) => {
            let argv = split(line, node, path, findings)?;
            Some(Step::Command(command(argv)))
        }
        Data::List(items) => {
            let parts = items.iter().enumerate();
            let argv: Vec<String> = parts
                .filter_map(|(index, item)| text(item, &format!("{path}[{index}]"), findings))
                .collect();
            if argv.is_empty() {
                let message = "the command is empty";
                findings.add(node.at, path, ProblemCode::OutOfBounds, message);
                return None;
            }
            Some(Step::Command(command(argv)))
        }
        _ => {
            let section = Section::of(node, path, findings)?;
            if section.has("name") || section.has("config") {
                named_step(&section, kinds, findings)
            } else {
                script(&section, findings).map(Step::Command)
            }
        }
    }
}

fn named_step(section: &Section<'_>, kinds: &[&str], findings: &mut Findings) -> Option<Step> {
    section.only(&["name", "config"], findings);
    let name = section.text("name", findings)?;
    let Some(config) = section.section("config", findings) else {
        if !section.has("config") {
            let message = "is missing: it holds the command";
            section.fault("config", ProblemCode::MissingKey, message, findings);
        }
        return None;
    };
    if !kinds.contains(&name.as_str()) {
        let hint = suggestion(&name, kinds);
        let message = format!("\"{name}\" is not a step; {hint}");
        section.fault("name", ProblemCode::UnknownName, message, findings);
        return None;
    }
    match name.as_str() {
        "script" => script(&config, findings).map(Step::Command),
        "database" => export(&config, findings).map(Step::Export),
        _ => {
            let message = "webhooks are not supported; use a `script` that sends ${RESULTS_PATH}";
            section.fault("name", ProblemCode::Unsupported, message, findings);
            None
        }
    }
}

fn script(config: &Section<'_>, findings: &mut Findings) -> Option<CommandSpec> {
    let keys = [
        "command",
        "args",
        "env",
        "timeout_ms",
        "timeout",
        "working_dir",
    ];
    config.only(&keys, findings);
    config.exclusive("timeout_ms", "timeout", findings);
    if !config.has("command") {
        let message = "is missing: the program to run";
        config.fault("command", ProblemCode::MissingKey, message, findings);
        return None;
    }
    let line = config.bounded("command", 100_000, findings)?;
    let mut argv = if config.has("args") {
        vec![line]
    } else {
        split(
            &line,
            config.get("command")?,
            &config.key("command"),
            findings,
        )?
    };
    argv.extend(config.texts("args", findings));
    let key = if config.has("timeout") {
        "timeout"
    } else {
        "timeout_ms"
    };
    Some(CommandSpec {
        argv,
        dir: working_dir(config, findings),
        env: config.text_map("env", findings),
        timeout: config.duration(key, findings).unwrap_or(DEFAULT_TIMEOUT),
    })
}

fn working_dir(config: &Section<'_>, findings: &mut Findings) -> Option<PathBuf> {
    let dir = config.text("working_dir", findings)?;
    let below = dir.strip_prefix("${WORKSPACE_DIR}").unwrap_or(&dir);
    let below = if below.len() < dir.len() {
        below.trim_start_matches('/')
    } else {
        below
    };
    match check_relative(below) {
        Ok(path) => Some(path.to_owned()).filter(|path| path != Path::new("")),
        Err(error) => {
            let message = format!("must be a directory of the workspace: {error}");
            config.fault("working_dir", file_code(&error), message, findings);
            None
        }
    }
}

fn export(config: &Section<'_>, findings: &mut Findings) -> Option<ResultExport> {
    config.only(
        &["type", "output_path", "include_full_bundle", "append"],
        findings,
    );
    let kind = config.text("type", findings);
    if let Some(kind) = kind.filter(|kind| kind != "json-file") {
        let message = format!("\"{kind}\" is not supported; the only type is \"json-file\"");
        config.fault("type", ProblemCode::Unsupported, message, findings);
    }
    let Some(path) = config.bounded("output_path", super::files::MAX_PATH, findings) else {
        if !config.has("output_path") {
            let message = "is missing: the file for the results";
            config.fault("output_path", ProblemCode::MissingKey, message, findings);
        }
        return None;
    };
    if let Err(error) = check_relative(&path) {
        config.fault(
            "output_path",
            file_code(&error),
            error.to_string(),
            findings,
        );
        return None;
    }
    Some(ResultExport {
        path: PathBuf::from(path),
        full: config.bool("include_full_bundle", findings).unwrap_or(true),
        append: config.bool("append", findings).unwrap_or(true),
    })
}

fn command(argv: Vec<String>) -> CommandSpec {
    CommandSpec {
        argv,
        dir: None,
        env: BTreeMap::new(),
        timeout: DEFAULT_TIMEOUT,
    }
}

/// Splits a command line at spaces, with quotes. There is no shell: its operators are an error.
fn split(line: &str, node: &Node, path: &str, findings: &mut Findings) -> Option<Vec<String>> {
    let words = shlex::split(line).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let message = "is not a command line: it is empty, or a quote is not closed";
        findings.add(node.at, path, ProblemCode::OutOfBounds, message);
        return None;
    };
    let is_operator = |word: &String| {
        matches!(
            word.as_str(),
            "|" | "||" | "&" | "&&" | ";" | ">" | ">>" | "<"
        ) || word.ends_with(';')
            || word.contains("$(")
    };
    if let Some(operator) = words.iter().find(|word| is_operator(word)) {
        let message = format!(
            "there is no shell, so `{operator}` has no meaning; write [\"sh\", \"-c\", \"…\"]"
        );
        findings.add(node.at, path, ProblemCode::OutOfBounds, message);
        return None;
    }
    Some(words)
}
