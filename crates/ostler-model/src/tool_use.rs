//! Classifies calls of Ostler's own tools for the permission policy.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use ostler_core::lenient::{Content, Scalar, Table};

/// Name of the tool that runs commands.
pub(crate) const RUN_COMMAND: &str = "run_command";

/// Tools by name, as offered by the runner. Any other tool belongs to the caller, and its effects
/// are unknown.
const TOOLS: &[(&str, ToolKind)] = &[
    ("read_file", ToolKind::Read),
    ("list_files", ToolKind::Read),
    ("search_files", ToolKind::Read),
    ("write_file", ToolKind::Edit),
    ("create_file", ToolKind::Edit),
    ("edit_file", ToolKind::Edit),
    ("delete_file", ToolKind::Edit),
    ("move_file", ToolKind::Edit),
    ("make_directory", ToolKind::Edit),
    (RUN_COMMAND, ToolKind::Execute),
];

/// Arguments that are paths.
const PATHS: &[&str] = &["path", "from", "to"];

/// Describes what a tool call would do.
#[must_use]
pub fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let kind = TOOLS
        .iter()
        .find(|(name, _)| *name == tool)
        .map_or(ToolKind::Other, |(_, kind)| *kind);
    let mut wants = ToolUse::new(tool, kind);
    // All values of a repeated key: the tool rejects repetitions, but no rule should miss one.
    let table: Table<'_, Content<'_, Scalar<'_>>> =
        serde_json::from_str(input.get()).unwrap_or_default();
    let fields = table.0.unwrap_or_default();
    match kind {
        ToolKind::Read | ToolKind::Edit => {
            let paths = fields.iter().filter_map(|(key, value)| match value {
                Content::Text(path) if PATHS.contains(&&**key) => Some(path.clone().into_owned()),
                _ => None,
            });
            wants.paths.extend(paths);
            if wants.paths.is_empty() && kind == ToolKind::Read {
                wants.paths.push(".".to_owned()); // the default for listing and searching
            }
        }
        ToolKind::Execute => wants.command = Some(Command::Words(words(&fields))),
        _ => {}
    }
    wants
}

/// Returns the command and its arguments.
fn words<K: AsRef<str>>(fields: &[(K, Content<'_, Scalar<'_>>)]) -> Vec<String> {
    let of = |wanted: &'static str| {
        fields
            .iter()
            .filter(move |(key, _)| key.as_ref() == wanted)
            .flat_map(|(_, value)| match value {
                Content::Text(word) => vec![word.clone().into_owned()],
                Content::Blocks(words) => words.iter().filter_map(Scalar::owned).collect(),
                Content::None => Vec::new(),
            })
    };
    of("command").chain(of("args")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_argument_is_extracted() {
        use ToolKind::{Edit, Execute, Other, Read};
        type Case<'a> = (&'a str, &'a str, ToolKind, &'a [&'a str], &'a [&'a str]);
        let table: &[Case<'_>] = &[
            ("read_file", r#"{"path":"a","offset":1}"#, Read, &["a"], &[]),
            ("list_files", r#"{"path":null}"#, Read, &["."], &[]),
            (
                "search_files",
                r#"{"pattern":"path","path":"src"}"#,
                Read,
                &["src"],
                &[],
            ),
            (
                "edit_file",
                r#"{"path":"a\n","edits":[{"find":"x","replace":"path"}]}"#,
                Edit,
                &["a\n"],
                &[],
            ),
            (
                "move_file",
                r#"{"from":"a","to":"../b","overwrite":true}"#,
                Edit,
                &["a", "../b"],
                &[],
            ),
            (
                "write_file",
                r#"{"path":"a","path":"b"}"#,
                Edit,
                &["a", "b"],
                &[],
            ),
            ("delete_file", "{}", Edit, &[], &[]),
            (
                "run_command",
                r#"{"command":"git","args":["push","-f"]}"#,
                Execute,
                &[],
                &["git", "push", "-f"],
            ),
            (
                "run_command",
                r#"{"args":["x",1],"command":"git"}"#,
                Execute,
                &[],
                &["git", "x"],
            ),
            ("run_command", "\"no object\"", Execute, &[], &[]),
            ("weather", r#"{"path":"a","command":"rm"}"#, Other, &[], &[]),
        ];
        for (tool, input, kind, paths, words) in table {
            let found = tool_use(tool, &RawJson::parse(input).unwrap());
            assert_eq!((found.tool.as_str(), found.kind), (*tool, *kind), "{input}");
            assert_eq!(found.paths, *paths, "{tool} {input}");
            let command = (*kind == Execute)
                .then(|| Command::Words(words.iter().map(ToString::to_string).collect()));
            assert_eq!(found.command, command, "{tool} {input}");
        }
    }
}
