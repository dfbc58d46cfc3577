//! Classifies calls of Copilot's tools for the permission policy.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use crate::lenient::{Scalar, Table};
use crate::surrogates;

/// Tools by name. Any other tool may do anything.
const TOOLS: &[(ToolKind, &[&str])] = &[
    (
        ToolKind::Execute,
        &["bash", "write_bash", "powershell", "write_powershell"],
    ),
    (
        ToolKind::Read,
        &[
            "view",
            "glob",
            "rg",
            "grep",
            "read_bash",
            "list_bash",
            "stop_bash",
            "list_agents",
            "read_agent",
        ],
    ),
    (
        ToolKind::Read,
        &[
            "report_intent",
            "update_todo",
            "fetch_copilot_cli_documentation",
        ],
    ),
    (ToolKind::Edit, &["create", "edit", "str_replace_editor"]),
    (ToolKind::Network, &["web_fetch", "web_search"]),
];

/// Describes what a tool call would do.
pub(super) fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let known = TOOLS
        .iter()
        .find(|(_, names)| names.contains(&tool))
        .map(|(kind, _)| *kind);
    let kind = known.unwrap_or(ToolKind::Other);
    let mut wants = ToolUse::new(tool, kind);
    let mut room = String::new();
    let given: Table<'_, Scalar<'_>> = surrogates::read(input.get(), &mut room);
    match kind {
        ToolKind::Execute => {
            let lines = given.all(&["command", "input"]);
            wants.command = (!lines.is_empty()).then(|| Command::Shell(lines.join("\n")));
        }
        ToolKind::Read | ToolKind::Edit => wants.paths = given.all(&["path", "paths", "file_path"]),
        _ => {}
    }
    wants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_commands_are_extracted() {
        let wants = |tool, input| tool_use(tool, &RawJson::parse(input).unwrap());
        let bash = wants("bash", r#"{"command":"rm x","description":"d"}"#);
        assert_eq!(
            (bash.kind, bash.command),
            (ToolKind::Execute, Some(Command::Shell("rm x".to_owned())))
        );
        assert_eq!(
            wants("view", r#"{"path":"/etc/passwd"}"#).paths,
            ["/etc/passwd"]
        );
        assert_eq!(
            wants("create", r#"{"path":"a","path":"b"}"#).paths,
            ["a", "b"]
        );
        // An unpaired surrogate must not bypass a rule.
        let unpaired = wants("bash", r#"{"command":"rm x \ud83d"}"#);
        assert_eq!(
            unpaired.command,
            Some(Command::Shell("rm x \u{fffd}".to_owned()))
        );
        assert_eq!(wants("apply_patch", "{}").kind, ToolKind::Other);
    }
}
