//! Tool classification: describes calls to pi's tools for the permission policy.

use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use crate::tools::{self, ArgumentKeys, ToolTable};

/// Tools by name. Any other tool belongs to an extension, and may do anything.
const TOOLS: ToolTable = &[
    (ToolKind::Execute, &["bash"]),
    (ToolKind::Read, &["read", "grep", "find", "ls"]),
    (ToolKind::Edit, &["edit", "write"]),
];

const KEYS: &ArgumentKeys = &ArgumentKeys {
    commands: &["command"],
    paths: &["path", "file_path"],
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
        use ToolKind::{Edit, Execute, Other, Read};
        let edit = r#"{"path":"a","edits":[{"oldText":"1","newText":"2"}]}"#;
        let surrogate = r#"{"command":"rm x \ud83d"}"#;
        testing::check(
            &[
                (
                    "bash",
                    r#"{"command":"rm x","timeout":5}"#,
                    Execute,
                    &[],
                    Some("rm x"),
                ),
                // An unpaired surrogate must not bypass a rule.
                ("bash", surrogate, Execute, &[], Some("rm x \u{fffd}")),
                ("edit", edit, Edit, &["a"], None),
                (
                    "read",
                    r#"{"path":"/etc/passwd"}"#,
                    Read,
                    &["/etc/passwd"],
                    None,
                ),
                ("ls", r#"{"path":"a","path":"b"}"#, Read, &["a", "b"], None),
                ("deploy", r#"{"path":"x"}"#, Other, &[], None),
            ],
            tool_use,
        );
    }
}
