//! Effect of a call of Codex's tools, for the policy, and the command inside the shell invocation
//! that Codex wraps it in.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::wire::FileChange;
use crate::json_lines::without_nulls;
use crate::lenient::{Object, Objects, wire};
use crate::surrogates;
use crate::tools::{self, ToolTable};

/// Names of the tools, as the model knows them. Items are named after them too.
pub(super) const COMMAND: &str = "exec_command";
pub(super) const PATCH: &str = "apply_patch";
pub(super) const SEARCH: &str = "web_search";
pub(super) const IMAGE: &str = "view_image";
/// These two are not tools: a command requests access to a host, or the agent requests more
/// permissions.
pub(super) const NETWORK: &str = "network";
pub(super) const PERMISSIONS: &str = "request_permissions";

pub(super) const TOOLS: ToolTable = &[
    (ToolKind::Execute, &[COMMAND, "write_stdin", "shell"]),
    (ToolKind::Edit, &[PATCH]),
    (ToolKind::Network, &[SEARCH, NETWORK]),
    (ToolKind::Read, &[IMAGE]),
    (ToolKind::Other, &[PERMISSIONS]),
];

/// Returns the name of an MCP server's tool.
pub(super) fn mcp(server: &str, tool: &str) -> String {
    format!("{}{server}__{tool}", tools::MCP)
}

wire! {
    /// Arguments of a call, as shown in events.
    struct Input {
        cmd,
        workdir,
        path,
        root,
        changes: Option<&'a RawValue>,
    }
}

/// Describes what a call would do.
pub(super) fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let kind = tools::kind(TOOLS, tool);
    let mut wants = ToolUse::new(tool, kind);
    let mut buffer = String::new();
    let read: Object<Input<'_>> = surrogates::read(input.get(), &mut buffer);
    match kind {
        ToolKind::Execute => {
            wants.command = read
                .cmd
                .text()
                .map(|line| with_workdir(line, read.workdir.text()));
        }
        ToolKind::Edit => {
            wants.paths = read
                .changes
                .map(|changes| paths(changes.get()))
                .unwrap_or_default();
            wants.paths.extend(read.root.owned());
        }
        ToolKind::Read => wants.paths.extend(read.path.owned()),
        _ => {}
    }
    wants
}

/// Returns a shell command, preceded by a `cd` if it does not run in the session's directory.
fn with_workdir(line: &str, cwd: Option<&str>) -> Command {
    match cwd {
        None => Command::Shell(line.to_owned()),
        Some(cwd) => Command::Shell(format!("cd '{}' && {line}", cwd.replace('\'', r"'\''"))),
    }
}

/// Returns every path in a list of changes, including the targets of moves.
pub(super) fn paths(changes: &str) -> Vec<String> {
    let changes: Objects<FileChange<'_>> = serde_json::from_str(changes).unwrap_or_default();
    let of = |change: &FileChange<'_>| {
        let moved = change.kind.move_path.owned();
        change
            .path
            .owned()
            .into_iter()
            .chain(moved)
            .collect::<Vec<_>>()
    };
    changes.iter().flat_map(of).collect()
}

/// A command as Codex reports it.
pub(super) struct CommandInput<'a> {
    /// The invocation of a shell that wraps it.
    pub(super) command: &'a str,
    pub(super) cwd: Option<&'a str>,
    pub(super) session_dir: Option<&'a str>,
    /// Reason of the request to run it.
    pub(super) reason: Option<&'a str>,
}

impl CommandInput<'_> {
    /// Returns the arguments of the command.
    pub(super) fn arguments(&self) -> RawJson {
        let workdir = self.cwd.filter(|_| self.cwd != self.session_dir);
        let command = unwrap_shell(self.command);
        RawJson::of(&without_nulls(
            json!({"cmd": command, "workdir": workdir, "reason": self.reason}),
        ))
    }
}

/// Returns the arguments of a file change.
pub(super) fn changes_input(changes: Option<&RawValue>) -> RawJson {
    #[derive(Serialize)]
    struct Changes<'a> {
        changes: Option<&'a RawValue>,
    }
    RawJson::of(&Changes { changes })
}

/// Shells that Codex wraps commands in, and the flags it uses.
const SHELLS: &[&str] = &["bash", "sh", "zsh"];
const FLAGS: &[&str] = &["-c", "-lc"];

/// Returns the command inside `/bin/bash -lc '…'`, or the whole if it is not wrapped.
fn unwrap_shell(command: &str) -> String {
    match shlex::split(command).as_deref() {
        Some([shell, flag, line]) if is_shell(shell) && FLAGS.contains(&flag.as_str()) => {
            line.clone()
        }
        _ => command.to_owned(),
    }
}

fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing;

    #[test]
    fn wrapped_commands_are_unwrapped() {
        for (command, line) in [
            ("/bin/bash -lc ls", "ls"),
            ("/bin/bash -lc 'touch made'", "touch made"),
            ("bash -c \"echo \\\"hi\\\" 'x'\"", "echo \"hi\" 'x'"),
            ("/usr/bin/zsh -lc 'echo '\"'\"'a'\"'\"''", "echo 'a'"),
            ("/bin/bash -lc 'a\nb'", "a\nb"),
            ("/bin/bash -lc ''", ""),
            ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
            ("/bin/bash -lc ls extra", "/bin/bash -lc ls extra"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
            ("bash", "bash"),
        ] {
            assert_eq!(unwrap_shell(command), line, "{command}");
        }
    }

    #[test]
    fn every_path_and_command_is_extracted() {
        use ToolKind::{Edit, Execute, Mcp, Network, Other, Read};
        let table: &[testing::Row<'_>] = &[
            (
                "exec_command",
                r#"{"cmd":"ls; rm x"}"#,
                Execute,
                &[],
                Some("ls; rm x"),
            ),
            (
                "exec_command",
                r#"{"cmd":"rm x","workdir":"/it's"}"#,
                Execute,
                &[],
                Some(r"cd '/it'\''s' && rm x"),
            ),
            (
                "exec_command",
                r#"{"cmd":"echo \ud83d"}"#,
                Execute,
                &[],
                Some("echo \u{fffd}"),
            ),
            ("exec_command", "[]", Execute, &[], None),
            (
                "apply_patch",
                r#"{"changes":[{"path":"/a","kind":{"type":"update","move_path":"/b"}},{"path":"/c","kind":{"type":"add"}}]}"#,
                Edit,
                &["/a", "/b", "/c"],
                None,
            ),
            (
                "apply_patch",
                r#"{"changes":[{"path":"a","kind":"add"}],"root":"/r"}"#,
                Edit,
                &["a", "/r"],
                None,
            ),
            (
                "view_image",
                r#"{"path":"/x.png"}"#,
                Read,
                &["/x.png"],
                None,
            ),
            ("web_search", r#"{"query":"x"}"#, Network, &[], None),
            ("network", r#"{"host":"x"}"#, Network, &[], None),
            ("mcp__files__write", r#"{"path":"/x"}"#, Mcp, &[], None),
            ("request_permissions", "{}", Other, &[], None),
            ("adder", r#"{"cmd":"x"}"#, Other, &[], None),
        ];
        testing::check(table, tool_use);
        for (name, taken) in [
            ("exec_command", true),
            ("mcp__x__y", true),
            ("adder", false),
        ] {
            assert_eq!(tools::is_taken(TOOLS, name), taken, "{name}");
        }
    }
}
