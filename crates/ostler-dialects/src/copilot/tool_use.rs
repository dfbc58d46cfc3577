//! Classifies calls of Copilot's tools for the permission policy.

use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use crate::tools::{self, ArgumentKeys, ToolTable};

/// Tools by name.
const TOOLS: ToolTable = &[
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

const KEYS: &ArgumentKeys = &ArgumentKeys {
    commands: &["command", "input"],
    paths: &["path", "paths", "file_path"],
};

/// Describes what a tool call would do.
pub(super) fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let kind = tools::find(TOOLS, tool).unwrap_or(ToolKind::Other);
    tools::by_arguments(ToolUse::new(tool, kind), input, KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing;

    #[test]
    fn paths_and_commands_are_extracted() {
        use ToolKind::{Edit, Execute, Network, Other, Read};
        let surrogate = r#"{"command":"rm x \ud83d"}"#;
        testing::check(
            &[
                (
                    "bash",
                    r#"{"command":"rm x","description":"d"}"#,
                    Execute,
                    &[],
                    Some("rm x"),
                ),
                // An unpaired surrogate must not bypass a rule.
                ("bash", surrogate, Execute, &[], Some("rm x \u{fffd}")),
                (
                    "write_bash",
                    r#"{"input":"y","shellId":"1"}"#,
                    Execute,
                    &[],
                    Some("y"),
                ),
                (
                    "view",
                    r#"{"path":"/etc/passwd"}"#,
                    Read,
                    &["/etc/passwd"],
                    None,
                ),
                ("read_bash", r#"{"shellId":"1"}"#, Read, &[], None),
                (
                    "create",
                    r#"{"path":"a","path":"b"}"#,
                    Edit,
                    &["a", "b"],
                    None,
                ),
                ("web_fetch", r#"{"url":"http://x"}"#, Network, &[], None),
                ("apply_patch", "{}", Other, &[], None),
                ("mcp__x__y", r#"{"command":"x"}"#, Other, &[], None),
            ],
            tool_use,
        );
    }
}
