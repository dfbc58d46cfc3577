//! Variables of files: `${NAME}`, `${NAME:-default}`, and `$${` for a literal `${`.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Findings;
use super::tree::{Data, Node, Position, ProblemCode};

/// Variables that are set while a trial runs. In commands, they are left for the runner.
pub const RUNTIME_VARIABLES: &[&str] = &[
    "WORKSPACE_DIR",
    "REPO_DIR",
    "ARTIFACTS_DIR",
    "RESULTS_PATH",
    "TEST_CASE_NAME",
    "AGENT_TYPE",
];

/// Values for `${NAME}`: given ones first, then the allowed variables of the environment.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// Values from `--var` and from a file of variables.
    pub given: BTreeMap<String, String>,
    /// Values of the environment that the user allowed by name.
    pub environment: BTreeMap<String, String>,
    /// Names that the user allowed, whether they are set or not.
    pub allowed: BTreeSet<String>,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        let allowed = || self.environment.get(name);
        let value = self.given.get(name).or_else(allowed);
        value.map(String::as_str)
    }
}

/// A file of variables, or a `--var`, that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// It has no `=`.
    #[error("line {line}: expected NAME=VALUE")]
    NoValue {
        /// The line.
        line: usize,
    },
    /// The name is not a name.
    #[error("line {line}: \"{name}\" is not a name of letters, digits and `_`")]
    BadName {
        /// The line.
        line: usize,
        /// The name.
        name: String,
    },
}

/// Parses lines `NAME=VALUE`. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// A line has no `=`, or its name is not one of letters, digits and `_`.
pub fn parse_variables(text: &str) -> Result<BTreeMap<String, String>, VariableError> {
    let mut variables = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let line = index + 1;
        let (name, value) = trimmed
            .split_once('=')
            .ok_or(VariableError::NoValue { line })?;
        let name = name.trim();
        if !is_name(name) {
            let name = name.to_owned();
            return Err(VariableError::BadName { line, name });
        }
        variables.insert(name.to_owned(), unquoted(value.trim()).to_owned());
    }
    Ok(variables)
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Replaces the variables in all texts of a tree. Keys are left as they are.
pub(crate) fn expand(node: &mut Node, variables: &Variables, findings: &mut Findings) {
    expand_at(node, "", variables, findings);
}

fn expand_at(node: &mut Node, path: &str, variables: &Variables, findings: &mut Findings) {
    let at = node.at;
    match &mut node.data {
        Data::Text(text) if text.contains("${") => {
            *text = expand_text(
                text,
                at,
                path,
                &mut Context {
                    variables,
                    findings,
                },
            );
        }
        Data::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                expand_at(item, &format!("{path}[{index}]"), variables, findings);
            }
        }
        Data::Table(entries) => {
            for entry in entries {
                let path = super::section::join(path, &entry.key);
                expand_at(&mut entry.value, &path, variables, findings);
            }
        }
        _ => {}
    }
}

struct Context<'a> {
    variables: &'a Variables,
    findings: &'a mut Findings,
}

fn expand_text(text: &str, at: Position, path: &str, context: &mut Context<'_>) -> String {
    let in_command = path.starts_with("pre_execution") || path.starts_with("post_evaluation");
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        if let Some(plain) = before.strip_suffix('$') {
            // The runner replaces these in commands, so it also removes their escape.
            let name = from[2..].split('}').next().unwrap_or_default();
            let is_later = in_command && RUNTIME_VARIABLES.contains(&name);
            expanded.push_str(if is_later { before } else { plain });
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let Some(end) = from.find('}') else {
            let message = "`${` without `}`; write `$${` for a literal `${`";
            context.findings.add(at, path, ProblemCode::Syntax, message);
            return text.to_owned();
        };
        let (name, default) = match from[2..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&from[2..end], None),
        };
        let value = context.variables.get(name).or(default);
        if in_command && value.is_none() && RUNTIME_VARIABLES.contains(&name) {
            expanded.push_str(&from[..=end]);
        } else if let Some(value) = value {
            expanded.push_str(value);
        } else {
            let message = missing(name, context.variables);
            let code = ProblemCode::UnknownName;
            context.findings.add(at, path, code, message);
            expanded.push_str(&from[..=end]);
        }
        rest = &from[end + 1..];
    }
    expanded.push_str(rest);
    expanded
}

fn missing(name: &str, variables: &Variables) -> String {
    if !is_name(name) {
        format!("`${{{name}}}` is not a variable; write `$${{` for a literal `${{`")
    } else if variables.allowed.contains(name) {
        format!("the variable {name} is allowed, but not set in the environment")
    } else {
        format!(
            "the variable {name} has no value; use --var {name}=…, a file of variables, \
             --allow-env {name}, or `${{{name}:-default}}`"
        )
    }
}
