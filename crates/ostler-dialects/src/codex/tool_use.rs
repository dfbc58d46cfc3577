//! What a call of one of Codex's tools would do, for rules to decide on; and the command in the words that Codex wraps it in.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::value::RawValue;

use super::wire::FileChange;
use crate::lenient::{List, Node, Scalar, wire};
use crate::surrogates;

/// The tools as the model knows them. Items are named after them too.
pub(super) const COMMAND: &str = "exec_command";
pub(super) const PATCH: &str = "apply_patch";
pub(super) const SEARCH: &str = "web_search";
pub(super) const IMAGE: &str = "view_image";
/// These two are no tools: a command wants to reach a host, the agent wants to be allowed more.
pub(super) const NETWORK: &str = "network";
pub(super) const PERMISSIONS: &str = "request_permissions";

/// What stands before the names of MCP tools.
const MCP: &str = "mcp__";

const TOOLS: &[(&str, ToolKind)] = &[
    (COMMAND, ToolKind::Execute),
    ("write_stdin", ToolKind::Execute),
    ("shell", ToolKind::Execute),
    (PATCH, ToolKind::Edit),
    (SEARCH, ToolKind::Network),
    (NETWORK, ToolKind::Network),
    (IMAGE, ToolKind::Read),
    (PERMISSIONS, ToolKind::Other),
];

/// Whether a name stands for a tool of Codex's own or of an MCP server.
pub(super) fn is_taken(name: &str) -> bool {
    name.starts_with(MCP) || TOOLS.iter().any(|(tool, _)| *tool == name)
}

/// The name of a tool of an MCP server.
pub(super) fn mcp(server: &str, tool: &str) -> String {
    format!("{MCP}{server}__{tool}")
}

wire! {
    /// The arguments of a call, as events show them.
    struct Input {
        cmd: Scalar<'a>,
        workdir: Scalar<'a>,
        path: Scalar<'a>,
        root: Scalar<'a>,
        changes: Option<&'a RawValue>,
    }
}

/// What a call would do.
pub(super) fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let known = TOOLS
        .iter()
        .find(|(name, _)| *name == tool)
        .map(|(_, kind)| *kind);
    let kind = known.unwrap_or(if tool.starts_with(MCP) {
        ToolKind::Mcp
    } else {
        ToolKind::Other
    });
    let mut wants = ToolUse::of(tool, kind);
    let mut room = String::new();
    let read: Node<'_, Input<'_>> = surrogates::read(input.get(), &mut room);
    let empty = Input::default();
    let read = read.map().unwrap_or(&empty);
    match kind {
        ToolKind::Execute => {
            wants.command = read
                .cmd
                .text()
                .map(|line| located(line, read.workdir.text()))
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

/// A line of shell, with the way to where it runs when that is not where the session is.
fn located(line: &str, cwd: Option<&str>) -> Command {
    match cwd {
        None => Command::Shell(line.to_owned()),
        Some(cwd) => Command::Shell(format!("cd '{}' && {line}", cwd.replace('\'', r"'\''"))),
    }
}

/// Every path of a list of changes: also where a file is moved to.
pub(super) fn paths(changes: &str) -> Vec<String> {
    let changes: List<Node<'_, FileChange<'_>>> = serde_json::from_str(changes).unwrap_or_default();
    let of = |change: &FileChange<'_>| {
        let moved = change.kind.map().and_then(|kind| kind.move_path.owned());
        change
            .path
            .owned()
            .into_iter()
            .chain(moved)
            .collect::<Vec<_>>()
    };
    changes
        .0
        .iter()
        .filter_map(Node::map)
        .flat_map(of)
        .collect()
}

/// The arguments of a command, as the model writes them: the line, and where it runs when that is not where the session is.
#[derive(Serialize)]
struct Run<'a> {
    cmd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    workdir: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// What is known of a command: the line as Codex wraps it, where it runs, and why it is asked about.
pub(super) fn command_input(
    command: &str,
    (cwd, home): (Option<&str>, Option<&str>),
    reason: Option<&str>,
) -> RawJson {
    let cwd = cwd.filter(|cwd| home.is_none_or(|home| home != *cwd));
    RawJson::of(&Run {
        cmd: &unwrapped(command),
        workdir: cwd,
        reason,
    })
}

/// The arguments of a change of files.
pub(super) fn changes_input(changes: Option<&RawValue>) -> RawJson {
    #[derive(Serialize)]
    struct Changes<'a> {
        changes: Option<&'a RawValue>,
    }
    RawJson::of(&Changes { changes })
}

/// The shells that Codex puts a line into, and the flags with which it does so.
const SHELLS: &[&str] = &["bash", "sh", "zsh"];
const FLAGS: &[&str] = &["-c", "-lc"];

/// The line within `/bin/bash -lc '…'`; the whole when it is not wrapped like that.
pub(super) fn unwrapped(command: &str) -> String {
    let words = words(command);
    match words.as_deref() {
        Some([shell, flag, line]) if is_shell(shell) && FLAGS.contains(&flag.as_str()) => {
            line.clone()
        }
        _ => command.to_owned(),
    }
}

fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program.rsplit('/').next().unwrap_or_default())
}

/// The words of a quoted command line; none when a quote is left open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut chars) = (Vec::new(), None::<String>, line.chars());
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => single(&mut chars, word.get_or_insert_default())?,
            '"' => double(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// What stands between single quotes.
fn single(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '\'' => return Some(()),
            c => word.push(c),
        }
    }
}

/// What stands between double quotes.
fn double(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => match chars.next()? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_within_a_shell_is_found() {
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
            assert_eq!(unwrapped(command), line, "{command}");
        }
    }

    #[test]
    fn every_path_and_every_command_is_there() {
        use ToolKind::{Edit, Execute, Mcp, Network, Other, Read};
        type Row = (
            &'static str,
            &'static str,
            ToolKind,
            &'static [&'static str],
            Option<&'static str>,
        );
        let table: &[Row] = &[
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
        for (tool, input, kind, paths, command) in table {
            let found = tool_use(tool, &RawJson::parse(input).unwrap());
            assert_eq!((found.tool.as_str(), found.kind), (*tool, *kind), "{input}");
            assert_eq!(found.paths, *paths, "{tool} {input}");
            assert_eq!(
                found.command,
                command.map(|line| Command::Shell(line.to_owned())),
                "{tool} {input}"
            );
        }
        for (name, taken) in [
            ("exec_command", true),
            ("mcp__x__y", true),
            ("adder", false),
        ] {
            assert_eq!(is_taken(name), taken, "{name}");
        }
    }
}
