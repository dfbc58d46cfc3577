//! Classification of tool calls for the permission policy, and the names of tools.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use crate::lenient::{Scalar, Table};
use crate::surrogates;

/// An agent's tools, by what they do. Any other tool may do anything.
pub(crate) type ToolTable = &'static [(ToolKind, &'static [&'static str])];

/// Prefix of the names of MCP servers' tools.
pub(crate) const MCP: &str = "mcp__";

/// Returns the kind of a known tool.
pub(crate) fn find(table: ToolTable, tool: &str) -> Option<ToolKind> {
    let mut rows = table.iter();
    rows.find(|(_, names)| names.contains(&tool))
        .map(|(kind, _)| *kind)
}

/// Recognizes an MCP server's tool by its name.
pub(crate) fn mcp(tool: &str) -> Option<ToolKind> {
    tool.starts_with(MCP).then_some(ToolKind::Mcp)
}

/// Returns the kind of a tool by its name.
pub(crate) fn kind(table: ToolTable, tool: &str) -> ToolKind {
    let kind = find(table, tool).or_else(|| mcp(tool));
    kind.unwrap_or(ToolKind::Other)
}

/// Returns true if the agent or an MCP server has a tool with this name. A caller's tool with that
/// name would be mistaken for it.
pub(crate) fn is_taken(table: ToolTable, name: &str) -> bool {
    find(table, name).or_else(|| mcp(name)).is_some()
}

/// Returns the command lines in these arguments.
pub(crate) fn shell(arguments: &Table<'_, Scalar<'_>>, keys: &[&str]) -> Option<Command> {
    let lines = arguments.all(keys);
    (!lines.is_empty()).then(|| Command::Shell(lines.join("\n")))
}

/// Keys of the arguments that hold commands and paths.
pub(crate) struct ArgumentKeys {
    pub(crate) commands: &'static [&'static str],
    pub(crate) paths: &'static [&'static str],
}

/// Describes a call of a tool that runs the commands and affects the paths in its arguments.
pub(crate) fn by_arguments(wants: ToolUse, input: &RawJson, keys: &ArgumentKeys) -> ToolUse {
    let mut buffer = String::new();
    let given: Table<'_, Scalar<'_>> = surrogates::read(input.get(), &mut buffer);
    match wants.kind {
        ToolKind::Execute => ToolUse {
            command: shell(&given, keys.commands),
            ..wants
        },
        ToolKind::Read | ToolKind::Edit => ToolUse {
            paths: given.all(keys.paths),
            ..wants
        },
        _ => wants,
    }
}

/// Returns a caller's name as agents write it that accept only plain names.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        _ => '_',
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use ostler_core::permission::{Command, ToolKind, ToolUse};
    use ostler_core::raw_json::RawJson;

    /// A call, what it does, the paths it affects and the command it runs.
    pub(crate) type Row<'a> = (&'a str, &'a str, ToolKind, &'a [&'a str], Option<&'a str>);

    /// Checks that each call is described as its row says.
    pub(crate) fn check(table: &[Row<'_>], describe: impl Fn(&str, &RawJson) -> ToolUse) {
        for (tool, input, kind, paths, command) in table {
            let found = describe(tool, &RawJson::parse(input).unwrap());
            assert_eq!((found.tool.as_str(), found.kind), (*tool, *kind), "{input}");
            assert_eq!(found.paths, *paths, "{tool} {input}");
            let command = command.map(|line| Command::Shell(line.to_owned()));
            assert_eq!(found.command, command, "{tool} {input}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: ToolTable = &[
        (ToolKind::Read, &["look", "find"]),
        (ToolKind::Edit, &["write"]),
        (ToolKind::Read, &["mcp__own__look"]),
    ];

    #[test]
    fn a_name_determines_the_kind() {
        for (tool, kind, taken) in [
            ("look", ToolKind::Read, true),
            ("find", ToolKind::Read, true),
            ("write", ToolKind::Edit, true),
            ("mcp__files__write", ToolKind::Mcp, true),
            ("mcp__own__look", ToolKind::Read, true),
            ("Look", ToolKind::Other, false),
            ("mcp_x", ToolKind::Other, false),
            ("", ToolKind::Other, false),
        ] {
            assert_eq!(super::kind(TABLE, tool), kind, "{tool}");
            assert_eq!(is_taken(TABLE, tool), taken, "{tool}");
        }
    }

    #[test]
    fn every_command_line_counts() {
        let arguments = |json| serde_json::from_str(json).unwrap();
        for (json, command) in [
            (r#"{"command":"a"}"#, Some("a")),
            (
                r#"{"command":"a","x":"b","input":"c","command":"d"}"#,
                Some("a\nc\nd"),
            ),
            (r#"{"command":["a"],"input":7}"#, None),
            ("{}", None),
            ("[]", None),
        ] {
            let found = shell(&arguments(json), &["command", "input"]);
            let command = command.map(|line| Command::Shell(line.to_owned()));
            assert_eq!(found, command, "{json}");
        }
    }

    #[test]
    fn plain_names_have_only_plain_characters() {
        for (name, plain) in [("add-2", "add-2"), ("look up!", "look_up_"), ("é_x", "__x")] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
