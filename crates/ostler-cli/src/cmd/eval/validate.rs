//! `ostler eval validate`: checks cases and suites, and runs nothing.

use std::path::PathBuf;

use ostler::config::Config;
use ostler_eval::case::EvaluatorSpec;
use ostler_eval::load::tree::Problem;
use ostler_eval::load::{LoadOptions, Variables, load};
use ostler_eval::registry::Evaluators;
use serde_json::{Value, json};

use super::catalogue::Catalogue;
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{eprint_line, print_json, print_line};

/// Options of the check.
pub(crate) struct Options<'a> {
    /// The configuration, which names the agents.
    pub(crate) config: &'a Config,
    /// Values of variables.
    pub(crate) variables: &'a Variables,
    /// Whether repositories may be on hosts of the local network.
    pub(crate) allow_private_hosts: bool,
    /// Whether the result is printed as JSON.
    pub(crate) json: bool,
}

/// Checks files, and prints every problem with file, line and key. Exit code 2 if there is any.
pub(crate) fn validate(paths: &[PathBuf], options: &Options<'_>) -> Result<Code> {
    let problems = problems(paths, options);
    if options.json {
        let list: Vec<Value> = problems.iter().map(as_json).collect();
        print_json(&json!({ "valid": problems.is_empty(), "problems": list }));
    } else if problems.is_empty() {
        print_line("valid");
    } else {
        for problem in &problems {
            eprint_line(&problem.to_string());
        }
        let count = problems.len();
        eprint_line(&format!(
            "{count} problem{}",
            if count == 1 { "" } else { "s" }
        ));
    }
    Ok(if problems.is_empty() {
        exit::OK
    } else {
        exit::USAGE
    })
}

/// Returns the problems of files.
pub(crate) fn problems(paths: &[PathBuf], checked: &Options<'_>) -> Vec<Problem> {
    let evaluators = Evaluators::builtin(&environment::host());
    let check = |spec: &EvaluatorSpec| evaluators.check(spec);
    let options = LoadOptions {
        agents: &Catalogue(checked.config),
        variables: checked.variables,
        check_evaluator: Some(&check),
        allow_private_hosts: checked.allow_private_hosts,
    };
    load(paths, &options).map_or_else(|problems| problems.0, |_| Vec::new())
}

/// A problem as JSON.
pub(crate) fn as_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.at.map(|at| at.line),
        "column": problem.at.map(|at| at.column),
        "key": problem.key,
        "code": problem.code,
        "message": problem.message,
    })
}
