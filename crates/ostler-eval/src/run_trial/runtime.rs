//! Variables of commands that are known only while a trial runs.

use std::path::Path;

use super::{RESULT_FILE, TrialRequest};
use crate::case::CommandSpec;
use crate::load::RUNTIME_VARIABLES;

/// Returns a command with `${WORKSPACE_DIR}` and its like replaced. They are also in its
/// environment.
pub(super) fn command(command: &CommandSpec, request: &TrialRequest, dir: &Path) -> CommandSpec {
    let value = |name: &str| value(name, request, dir);
    let mut command = command.clone();
    for text in command.argv.iter_mut().chain(command.env.values_mut()) {
        *text = expand(text, &value);
    }
    for name in RUNTIME_VARIABLES {
        if let Some(value) = value(name) {
            command.env.entry((*name).to_owned()).or_insert(value);
        }
    }
    command
}

/// Returns the value of a variable; `None` if there is none of this name.
fn value(name: &str, request: &TrialRequest, dir: &Path) -> Option<String> {
    let path = |path: &Path| Some(path.to_string_lossy().into_owned());
    match name {
        "WORKSPACE_DIR" | "REPO_DIR" => path(dir),
        "ARTIFACTS_DIR" => path(&request.artifacts),
        "RESULTS_PATH" => path(&request.artifacts.join(RESULT_FILE)),
        "TEST_CASE_NAME" => Some(request.case.name.clone()),
        "AGENT_TYPE" => Some(request.contender.agent.clone()),
        _ => None,
    }
}

/// Replaces `${NAME}` for the names that have a value. `$${` is a literal `${`.
fn expand(text: &str, value: &impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        let end = from.find('}').unwrap_or(from.len() - 1);
        let found = from.get(2..end).and_then(value);
        match (before.strip_suffix('$'), found) {
            (Some(before), Some(_)) => {
                expanded.push_str(before);
                expanded.push_str(&from[..=end]);
            }
            (_, Some(value)) => {
                expanded.push_str(before);
                expanded.push_str(&value);
            }
            (_, None) => {
                expanded.push_str(before);
                expanded.push_str(&from[..=end]);
            }
        }
        rest = &from[end + 1..];
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_unless_they_are_escaped() {
        let value = |name: &str| (name == "X").then(|| "1".to_owned());
        for (text, expected) in [
            ("a ${X}${X} b", "a 11 b"),
            ("$${X} ${Y} ${", "${X} ${Y} ${"),
            ("${X", "${X"),
            ("$X ä${X}", "$X ä1"),
        ] {
            assert_eq!(expand(text, &value), expected, "{text}");
        }
    }
}
