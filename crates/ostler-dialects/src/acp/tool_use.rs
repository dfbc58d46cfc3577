//! What a tool call would do, for rules to decide on: from its name where that is known, else from what the agent says.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use serde::de::IgnoredAny;

use super::calls::Call;
use super::entry::Entry;
use crate::lenient::{List, Scalar, Table};
use crate::surrogates;

/// The kinds of ACP. What only changes the agent's own mind is as good as reading.
fn kind_of(word: &str) -> Option<ToolKind> {
    Some(match word {
        "read" | "search" | "think" => ToolKind::Read,
        "edit" | "delete" | "move" => ToolKind::Edit,
        "execute" => ToolKind::Execute,
        "fetch" => ToolKind::Network,
        _ => return None,
    })
}

/// The arguments that are paths.
const PATHS: &[&str] = &[
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "dir_path",
    "directory",
    "notebook_path",
    "file",
    "fileName",
    "filepath",
];

/// The arguments that are commands.
const COMMANDS: &[&str] = &["command", "cmd"];

/// The caller's name for a tool that the agent shows by one of its own.
pub(super) fn bound(entry: &Entry, shown: &str, names: &[String]) -> Option<String> {
    let plain = |name: &str| {
        name.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    let is = |name: &&String| {
        let forms: [String; 2] = [(*name).clone(), plain(name)];
        let mut patterns = entry.quirks.bound_names.iter();
        patterns.any(|pattern| {
            forms
                .iter()
                .any(|form| pattern.replace("{}", form) == shown)
        })
    };
    names.iter().find(is).cloned()
}

/// Whether arguments hold a command, or cannot be read.
pub(super) fn has_command(input: &RawJson) -> bool {
    let table = serde_json::from_str::<Table<'_, IgnoredAny>>(input.get());
    table.map_or(true, |table| {
        table
            .0
            .unwrap_or_default()
            .iter()
            .any(|(key, _)| COMMANDS.contains(&&**key))
    })
}

/// What a tool of this name does.
fn known(entry: &Entry, tool: &str) -> Option<ToolKind> {
    entry
        .tools
        .iter()
        .find(|(name, _)| *name == tool)
        .map(|(_, kind)| *kind)
}

/// A tool of a server, by its name.
fn of_server(tool: &str) -> Option<ToolKind> {
    tool.starts_with("mcp__").then_some(ToolKind::Mcp)
}

/// What a call would do, by the tool's name and its arguments alone.
pub(super) fn by_name(entry: &Entry, tool: &str, input: &RawJson) -> ToolUse {
    let kind = known(entry, tool)
        .or_else(|| of_server(tool))
        .or_else(|| kind_of(tool))
        .unwrap_or(ToolKind::Other);
    with_input(entry, ToolUse::of(tool, kind), input)
}

/// What a call would do, by all that the agent says about it.
pub(super) fn of(entry: &Entry, call: &Call) -> ToolUse {
    if let Some(name) = &call.bound {
        return ToolUse::of(name, ToolKind::Other);
    }
    // A name can be the model's own words; what the agent says of its kind comes first, then.
    let server = || of_server(&call.name).filter(|_| matches!(call.kind.as_str(), "" | "other"));
    let kind = known(entry, &call.name)
        .or_else(server)
        .or_else(|| kind_of(&call.kind))
        .unwrap_or(ToolKind::Other);
    let mut wants = with_input(entry, ToolUse::of(&call.name, kind), &call.input());
    if matches!(kind, ToolKind::Read | ToolKind::Edit) {
        let more = call.paths.iter().filter(|path| !wants.paths.contains(path));
        let more: Vec<String> = more.cloned().collect();
        wants.paths.extend(more);
        if wants.paths.is_empty() && kind == ToolKind::Read && call.kind == "search" {
            wants.paths.push(".".to_owned());
        }
    }
    wants
}

fn with_input(entry: &Entry, mut wants: ToolUse, input: &RawJson) -> ToolUse {
    let mut room = String::new();
    let given: Table<'_, Scalar<'_>> = surrogates::read(input.get(), &mut room);
    match wants.kind {
        ToolKind::Execute => {
            let title: &[&str] = if entry.quirks.title_is_command {
                &["title"]
            } else {
                &[]
            };
            let lines = given.all(&[COMMANDS, title].concat());
            let words = words_in(input);
            wants.command = match lines.is_empty() {
                false => Some(Command::Shell(lines.join("\n"))),
                true => (!words.is_empty()).then_some(Command::Words(words)),
            };
        }
        ToolKind::Read | ToolKind::Edit => {
            wants.paths = given.all(PATHS);
            wants.paths.extend(lists_in(input, "locations"));
        }
        _ => {}
    }
    wants
}

/// A command that is given as words.
fn words_in(input: &RawJson) -> Vec<String> {
    COMMANDS
        .iter()
        .map(|key| lists_in(input, key))
        .find(|words| !words.is_empty())
        .unwrap_or_default()
}

fn lists_in(input: &RawJson, key: &str) -> Vec<String> {
    let table: Table<'_, List<Scalar<'_>>> = serde_json::from_str(input.get()).unwrap_or_default();
    let rows = table
        .0
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| &**name == key);
    rows.flat_map(|(_, list)| list.0)
        .filter_map(|word| word.owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::{COPILOT, GEMINI, OPENCODE};

    #[test]
    fn every_path_and_every_command_is_there() {
        use ToolKind::{Edit, Execute, Network, Other, Read};
        type Row = (
            &'static Entry,
            &'static str,
            &'static str,
            ToolKind,
            &'static [&'static str],
            Option<&'static str>,
        );
        let (gemini, opencode, copilot) = (GEMINI.0, OPENCODE.0, COPILOT.0);
        let table: &[Row] = &[
            (
                opencode,
                "bash",
                r#"{"command":"ls; rm x","cwd":"/w"}"#,
                Execute,
                &[],
                Some("ls; rm x"),
            ),
            (
                copilot,
                "execute",
                r#"{"command":"ls","commands":["ls"]}"#,
                Execute,
                &[],
                Some("ls"),
            ),
            (
                gemini,
                "run_shell_command",
                r#"{"title":"rm x","locations":[]}"#,
                Execute,
                &[],
                Some("rm x"),
            ),
            (
                copilot,
                "execute",
                r#"{"title":"rm x","locations":[]}"#,
                Execute,
                &[],
                None,
            ),
            (
                gemini,
                "write_file",
                r#"{"title":"Writing to a","locations":["/w/a"]}"#,
                Edit,
                &["/w/a"],
                None,
            ),
            (
                opencode,
                "write",
                r#"{"filePath":"a","filePath":"b"}"#,
                Edit,
                &["a", "b"],
                None,
            ),
            (
                opencode,
                "read",
                r#"{"filePath":"/etc/passwd"}"#,
                Read,
                &["/etc/passwd"],
                None,
            ),
            (copilot, "delete", r#"{"path":"a"}"#, Edit, &["a"], None),
            (
                opencode,
                "webfetch",
                r#"{"url":"http://x"}"#,
                Network,
                &[],
                None,
            ),
            (
                opencode,
                "mcp__adder__add",
                r#"{"command":"x"}"#,
                ToolKind::Mcp,
                &[],
                None,
            ),
            (
                opencode,
                "brand_new",
                r#"{"command":"x"}"#,
                Other,
                &[],
                None,
            ),
        ];
        for (entry, tool, input, kind, paths, command) in table {
            let found = by_name(entry, tool, &RawJson::parse(input).unwrap());
            assert_eq!((found.tool.as_str(), found.kind), (*tool, *kind), "{input}");
            assert_eq!(found.paths, *paths, "{tool} {input}");
            assert_eq!(
                found.command,
                command.map(|line| Command::Shell(line.to_owned())),
                "{tool} {input}"
            );
        }
        let words = by_name(
            copilot,
            "execute",
            &RawJson::parse(r#"{"command":["rm","x"]}"#).unwrap(),
        );
        assert_eq!(
            words.command,
            Some(Command::Words(vec!["rm".into(), "x".into()]))
        );
    }

    #[test]
    fn bound_tools_are_known_by_whatever_an_agent_makes_of_their_names() {
        let names = ["add".to_owned(), "look up!".to_owned()];
        for (shown, name) in [
            ("ostler_add", Some("add")),
            ("ostler-look_up_", Some("look up!")),
            ("mcp__ostler__add", Some("add")),
            ("add (ostler MCP Server)", Some("add")),
            ("add", None),
            ("ostler_sub", None),
        ] {
            assert_eq!(bound(OPENCODE.0, shown, &names).as_deref(), name, "{shown}");
        }
    }
}
