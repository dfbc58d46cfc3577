//! Reads cases and suites from YAML, TOML and JSON files, from Harbor task directories and from
//! SWE-bench rows.
//!
//! Every fault names file, line and key. All faults are reported at once; a suite is returned only
//! if there are none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::case::{Case, EvaluatorSpec, Suite};
use crate::evaluator::ConfigProblem;

mod agents;
mod case_file;
mod commands;
mod evaluators;
mod files;
pub mod harbor;
pub mod parse;
mod prompts;
mod repository;
mod section;
mod suite_file;
pub mod swebench;
pub mod tree;
mod variables;

pub use agents::{AgentCatalogue, AgentInfo};
pub use case_file::slug;
pub use evaluators::KINDS;
pub use repository::{Address, AddressError, check_address};
pub use variables::{RUNTIME_VARIABLES, VariableError, Variables, parse_variables};

use parse::{Format, parse};
use section::Findings;
use tree::{Problem, ProblemCode, Problems};

/// Checks the configuration of an evaluator without running it.
pub type CheckEvaluator<'a> = dyn Fn(&EvaluatorSpec) -> Vec<ConfigProblem> + 'a;

/// What reading a file depends on besides the file.
pub struct LoadOptions<'a> {
    /// The agents that files may name.
    pub agents: &'a dyn AgentCatalogue,
    /// Values for `${NAME}`.
    pub variables: &'a Variables,
    /// Checks the configuration of an evaluator.
    pub check_evaluator: Option<&'a CheckEvaluator<'a>>,
    /// Whether repositories may lie on hosts of private networks.
    pub allow_private_hosts: bool,
}

/// The directory of a file, and the options.
pub(crate) struct LoadContext<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) options: &'a LoadOptions<'a>,
}

/// What a path holds.
pub(crate) enum Loaded {
    Suite(Suite),
    Cases(Vec<Case>),
}

/// Names of files that define a suite in a directory.
const SUITE_NAMES: &[&str] = &["suite.yaml", "suite.yml", "suite.toml", "suite.json"];

/// Reads a suite from one or more paths: a suite file, case files, directories of cases, Harbor
/// task directories, or SWE-bench rows (`.jsonl`).
///
/// # Errors
/// Every fault that was found. There is nothing to run until they are fixed.
pub fn load(paths: &[PathBuf], options: &LoadOptions<'_>) -> Result<Suite, Problems> {
    let mut problems = Vec::new();
    let (mut suites, mut cases) = (Vec::new(), Vec::new());
    for path in paths {
        match collect(path, options) {
            Ok(Loaded::Suite(suite)) => suites.push((path, suite)),
            Ok(Loaded::Cases(found)) => cases.extend(found),
            Err(mut found) => problems.append(&mut found.0),
        }
    }
    if suites.len() > 1 || !suites.is_empty() && !cases.is_empty() {
        let at = suites.last().map_or(Path::new(""), |(path, _)| path);
        let message = "a suite runs alone; name one suite, or any number of cases";
        problems.push(whole_file(at, ProblemCode::Conflict, message));
    }
    let suite = match suites.pop() {
        Some((_, suite)) => suite,
        None => plain_suite(paths, cases),
    };
    check_names(&suite, &mut problems);
    check_agents(&suite, &mut problems);
    if suite.cases.is_empty() && problems.is_empty() {
        let at = paths.first().map_or(Path::new(""), PathBuf::as_path);
        problems.push(whole_file(
            at,
            ProblemCode::MissingKey,
            "there are no cases",
        ));
    }
    if problems.is_empty() {
        Ok(suite)
    } else {
        problems.sort();
        problems.dedup();
        Err(Problems(problems))
    }
}

/// Returns the problems of files, without running anything.
#[must_use]
pub fn validate(paths: &[PathBuf], options: &LoadOptions<'_>) -> Vec<Problem> {
    match load(paths, options) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0,
    }
}

/// A suite of the cases that were named.
fn plain_suite(paths: &[PathBuf], cases: Vec<Case>) -> Suite {
    let stem = match paths {
        [path] => path.file_stem().and_then(|stem| stem.to_str()),
        _ => None,
    };
    Suite {
        name: stem.unwrap_or("cases").to_owned(),
        cases,
        contenders: Vec::new(),
        repetitions: 1,
        jobs: None,
        budget_usd: None,
        seed: 0,
        isolation: None,
    }
}

fn whole_file(file: &Path, code: ProblemCode, message: impl Into<String>) -> Problem {
    Problem {
        file: file.to_owned(),
        at: None,
        key: String::new(),
        code,
        message: message.into(),
    }
}

fn check_names(suite: &Suite, problems: &mut Vec<Problem>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for case in &suite.cases {
        if !seen.insert(&case.name) {
            let message = format!("another case has the name \"{}\"; rename one", case.name);
            let mut problem = whole_file(&case.file, ProblemCode::Conflict, message);
            problem.key = "name".to_owned();
            problems.push(problem);
        }
    }
}

/// Notes cases without an agent in a suite without contenders, unless no case names any: then the
/// agent comes from the command line.
fn check_agents(suite: &Suite, problems: &mut Vec<Problem>) {
    let any = suite.cases.iter().any(|case| case.agent.is_some());
    if !suite.contenders.is_empty() || !any {
        return;
    }
    for case in suite.cases.iter().filter(|case| case.agent.is_none()) {
        let message = "the case names no agent, and other cases do; add `agent`, or `--agent`";
        let mut problem = whole_file(&case.file, ProblemCode::MissingKey, message);
        problem.key = "agent".to_owned();
        problems.push(problem);
    }
}

/// Reads what a path holds.
pub(crate) fn collect(path: &Path, options: &LoadOptions<'_>) -> Result<Loaded, Problems> {
    if path.is_dir() {
        return directory(path, options);
    }
    let extension = path
        .extension()
        .and_then(|it| it.to_str())
        .unwrap_or_default();
    if extension == "jsonl" {
        return swebench::load(path).map(Loaded::Cases);
    }
    let Some(format) = Format::of_extension(extension) else {
        let message = "is not a case file; it must end with .yaml, .yml, .toml, .json or .jsonl";
        let problem = whole_file(path, ProblemCode::Unsupported, message);
        return Err(Problems(vec![problem]));
    };
    let text = files::read_named(path, files::MAX_FILE).map_err(|error| {
        let code = prompts::file_code(&error);
        Problems(vec![whole_file(path, code, error.to_string())])
    })?;
    read(&text, format, path, options)
}

/// Reads a case or a suite from the text of a file.
fn read(
    text: &str,
    format: Format,
    path: &Path,
    options: &LoadOptions<'_>,
) -> Result<Loaded, Problems> {
    let mut findings = Findings::of(path);
    let dir = path.parent().unwrap_or(Path::new(""));
    let context = LoadContext { dir, options };
    let loaded = match parse(text, format) {
        Ok(mut node) => {
            variables::expand(&mut node, options.variables, &mut findings);
            if node.get("cases").is_some() || node.get("suite").is_some() {
                suite_file::suite(&node, path, &context, &mut findings).map(Loaded::Suite)
            } else {
                let case = case_file::case(&node, "", path, &context, &mut findings);
                case.map(|case| Loaded::Cases(vec![case]))
            }
        }
        Err(error) => {
            findings.add(error.at, "", ProblemCode::Syntax, error.message);
            None
        }
    };
    match loaded {
        Some(loaded) if findings.problems.is_empty() => Ok(loaded),
        _ => Err(Problems(findings.problems)),
    }
}

/// Reads a directory: its suite file, itself as a Harbor task, or all cases and tasks in it.
fn directory(dir: &Path, options: &LoadOptions<'_>) -> Result<Loaded, Problems> {
    let suite = SUITE_NAMES.iter().map(|name| dir.join(name));
    if let Some(file) = suite.into_iter().find(|file| file.is_file()) {
        return collect(&file, options);
    }
    if let Some(file) = case_file_in(dir) {
        return collect(&file, options);
    }
    if dir.join("task.toml").is_file() {
        return harbor::load(dir, options).map(|case| Loaded::Cases(vec![case]));
    }
    let entries = std::fs::read_dir(dir).map_err(|error| {
        let problem = whole_file(dir, ProblemCode::Unreadable, error.to_string());
        Problems(vec![problem])
    })?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    for path in paths.iter().filter(|path| holds_a_case(path)) {
        match collect(path, options) {
            Ok(Loaded::Cases(found)) => cases.extend(found),
            Ok(Loaded::Suite(_)) => {
                let message = "is a suite among cases; name it alone";
                problems.push(whole_file(path, ProblemCode::Unsupported, message));
            }
            Err(mut found) => problems.append(&mut found.0),
        }
    }
    if cases.is_empty() && problems.is_empty() {
        let message = "holds no case: no .yaml, .toml or .json file, and no directory with \
                       case.yaml or task.toml";
        problems.push(whole_file(dir, ProblemCode::MissingKey, message));
    }
    if problems.is_empty() {
        Ok(Loaded::Cases(cases))
    } else {
        Err(Problems(problems))
    }
}

/// Whether an entry of a directory of cases is one: a file of a known format, or a directory with
/// `case.yaml` or `task.toml`.
fn holds_a_case(path: &Path) -> bool {
    if path.is_dir() {
        return case_file_in(path).is_some() || path.join("task.toml").is_file();
    }
    let extension = path.extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| Format::of_extension(it).is_some())
}

fn case_file_in(dir: &Path) -> Option<PathBuf> {
    let names = ["case.yaml", "case.yml", "case.toml", "case.json"];
    let files = names.iter().map(|name| dir.join(name));
    files.into_iter().find(|file| file.is_file())
}
