//! Effect of a tool call, for the policy: derived from the tool's name if it is known, otherwise
//! from what the agent reports.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use serde::de::IgnoredAny;

use super::calls::Call;
use super::profile::AgentProfile;
use crate::lenient::{List, Scalar, Table};
use crate::surrogates;
use crate::tools::{self, plain_name, shell};

/// Maps ACP's tool kinds. Tools that only change the agent's own state count as reading.
fn kind_of(kind: &str) -> Option<ToolKind> {
    Some(match kind {
        "read" | "search" | "think" => ToolKind::Read,
        "edit" | "delete" | "move" => ToolKind::Edit,
        "execute" => ToolKind::Execute,
        "fetch" => ToolKind::Network,
        _ => return None,
    })
}

/// Arguments that hold paths.
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

/// Arguments that hold commands.
const COMMANDS: &[&str] = &["command", "cmd"];

/// Returns the caller's name of a tool that the agent shows under its own.
pub(super) fn bound(profile: &AgentProfile, shown: &str, names: &[String]) -> Option<String> {
    let matches = |name: &&String| {
        let forms: [String; 2] = [(*name).clone(), plain_name(name)];
        let mut patterns = profile.quirks.bound_names.iter();
        patterns.any(|pattern| {
            forms
                .iter()
                .any(|form| pattern.replace("{}", form) == shown)
        })
    };
    names.iter().find(matches).cloned()
}

/// Returns true if the arguments hold a command or cannot be parsed.
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

/// Describes a call by the tool's name and arguments alone.
pub(super) fn by_name(profile: &AgentProfile, tool: &str, input: &RawJson) -> ToolUse {
    let kind = tools::find(profile.tools, tool)
        .or_else(|| tools::mcp(tool))
        .or_else(|| kind_of(tool))
        .unwrap_or(ToolKind::Other);
    with_input(profile, ToolUse::new(tool, kind), input)
}

/// Describes a call by everything that the agent reports about it.
pub(super) fn of(profile: &AgentProfile, call: &Call) -> ToolUse {
    if let Some(name) = &call.bound {
        return ToolUse::new(name, ToolKind::Other);
    }
    // A name can be the model's own words, so the reported kind takes precedence.
    let server = || tools::mcp(&call.name).filter(|_| matches!(call.kind.as_str(), "" | "other"));
    let kind = tools::find(profile.tools, &call.name)
        .or_else(server)
        .or_else(|| kind_of(&call.kind))
        .unwrap_or(ToolKind::Other);
    let mut wants = with_input(profile, ToolUse::new(&call.name, kind), &call.input());
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

fn with_input(profile: &AgentProfile, mut wants: ToolUse, input: &RawJson) -> ToolUse {
    let mut buffer = String::new();
    let arguments: Table<'_, Scalar<'_>> = surrogates::read(input.get(), &mut buffer);
    match wants.kind {
        ToolKind::Execute => {
            let title: &[&str] = if profile.quirks.title_is_command {
                &["title"]
            } else {
                &[]
            };
            let words = command_words(input);
            let words = (!words.is_empty()).then_some(Command::Words(words));
            wants.command = shell(&arguments, &[COMMANDS, title].concat()).or(words);
        }
        ToolKind::Read | ToolKind::Edit => {
            wants.paths = arguments.all(PATHS);
            wants.paths.extend(list_argument(input, "locations"));
        }
        _ => {}
    }
    wants
}

/// Returns a command that is given as a list of words.
fn command_words(input: &RawJson) -> Vec<String> {
    COMMANDS
        .iter()
        .map(|key| list_argument(input, key))
        .find(|words| !words.is_empty())
        .unwrap_or_default()
}

fn list_argument(input: &RawJson, key: &str) -> Vec<String> {
    let table: Table<'_, List<Scalar<'_>>> = serde_json::from_str(input.get()).unwrap_or_default();
    let rows = table
        .0
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| &**name == key);
    rows.flat_map(|(_, list)| list.0)
        .filter_map(|kind| kind.owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::{COPILOT, GEMINI, OPENCODE};
    use crate::tools::testing;

    #[test]
    #[expect(clippy::too_many_lines, reason = "one flat table")]
    fn every_path_and_command_is_extracted() {
        use ToolKind::{Edit, Execute, Network, Other, Read};
        type Row<'a> = (&'a AgentProfile, testing::Row<'a>);
        let (gemini, opencode, copilot) = (GEMINI.0, OPENCODE.0, COPILOT.0);
        let table: &[Row<'_>] = &[
            (
                opencode,
                (
                    "bash",
                    r#"{"command":"ls; rm x","cwd":"/w"}"#,
                    Execute,
                    &[],
                    Some("ls; rm x"),
                ),
            ),
            (
                copilot,
                (
                    "execute",
                    r#"{"command":"ls","commands":["ls"]}"#,
                    Execute,
                    &[],
                    Some("ls"),
                ),
            ),
            (
                gemini,
                (
                    "run_shell_command",
                    r#"{"title":"rm x","locations":[]}"#,
                    Execute,
                    &[],
                    Some("rm x"),
                ),
            ),
            (
                copilot,
                (
                    "execute",
                    r#"{"title":"rm x","locations":[]}"#,
                    Execute,
                    &[],
                    None,
                ),
            ),
            (
                gemini,
                (
                    "write_file",
                    r#"{"title":"Writing to a","locations":["/w/a"]}"#,
                    Edit,
                    &["/w/a"],
                    None,
                ),
            ),
            (
                opencode,
                (
                    "write",
                    r#"{"filePath":"a","filePath":"b"}"#,
                    Edit,
                    &["a", "b"],
                    None,
                ),
            ),
            (
                opencode,
                (
                    "read",
                    r#"{"filePath":"/etc/passwd"}"#,
                    Read,
                    &["/etc/passwd"],
                    None,
                ),
            ),
            (copilot, ("delete", r#"{"path":"a"}"#, Edit, &["a"], None)),
            (
                opencode,
                ("webfetch", r#"{"url":"http://x"}"#, Network, &[], None),
            ),
            (
                opencode,
                (
                    "mcp__adder__add",
                    r#"{"command":"x"}"#,
                    ToolKind::Mcp,
                    &[],
                    None,
                ),
            ),
            (
                opencode,
                ("brand_new", r#"{"command":"x"}"#, Other, &[], None),
            ),
        ];
        for (profile, row) in table {
            testing::check(&[*row], |tool, input| by_name(profile, tool, input));
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
    fn bound_tools_are_recognized_under_agent_names() {
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
