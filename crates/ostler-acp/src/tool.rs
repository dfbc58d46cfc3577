//! Display of a tool call in an editor: title, kind, locations and diffs. Pure.

use std::path::{Path, PathBuf};

use ostler::event::RawJson;
use ostler::permission::{Command, ToolKind, ToolUse};
use ostler::render::change::{self, ChangeKind, FileChange};
use serde::{Deserialize, Serialize};

/// Maximum length of a title.
const MAX_TITLE: usize = 200;

/// Tools with a more specific kind than their general one.
const KINDS: &[(&str, &[&str])] = &[
    (
        "search",
        &[
            "Grep",
            "Glob",
            "LS",
            "WebSearch",
            "search_files",
            "list_files",
        ],
    ),
    ("delete", &["delete_file"]),
    ("move", &["move_file"]),
    (
        "think",
        &["Task", "Agent", "TodoWrite", "TaskCreate", "TaskUpdate"],
    ),
    ("switch_mode", &["ExitPlanMode", "EnterPlanMode"]),
];

/// A tool call as shown by an editor.
#[derive(Debug)]
pub(crate) struct ToolCallView {
    pub(crate) title: String,
    pub(crate) kind: &'static str,
    pub(crate) locations: Vec<Location>,
    pub(crate) diffs: Vec<Content>,
    pub(crate) plan: Vec<PlanEntry>,
}

/// A file that a tool works on.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
}

/// Content of a tool call.
#[derive(Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Content {
    Content {
        content: TextBlock,
    },
    Diff {
        path: PathBuf,
        old_text: Option<String>,
        new_text: String,
    },
}

/// A content block.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum TextBlock {
    Text { text: String },
}

impl Content {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Content {
            content: TextBlock::Text { text: text.into() },
        }
    }
}

/// A step of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct PlanEntry {
    content: String,
    priority: &'static str,
    status: &'static str,
}

/// Returns the view of a tool call in a directory.
pub(crate) fn view(
    tool: &str,
    input: Option<&RawJson>,
    wants: &ToolUse,
    dir: &Path,
) -> ToolCallView {
    let todos = input.and_then(|input| serde_json::from_str::<TodoInput>(input.get()).ok());
    let location = |path: &String| Location {
        path: dir.join(path),
    };
    let changes = input.map(|input| change::of_input(wants, input));
    let changes = changes.into_iter().flatten();
    ToolCallView {
        title: title(tool, wants),
        kind: kind(tool, wants.kind),
        locations: wants.paths.iter().map(location).collect(),
        diffs: changes.filter_map(|change| diff(change, dir)).collect(),
        plan: todos.unwrap_or_default().plan(),
    }
}

fn title(tool: &str, wants: &ToolUse) -> String {
    let words = match (&wants.command, &wants.paths[..]) {
        (Some(Command::Shell(line)), _) => line.clone(),
        (Some(Command::Words(words)), _) => words.join(" "),
        (None, []) => tool.to_owned(),
        (None, [path]) => format!("{tool} {path}"),
        (None, [path, rest @ ..]) => format!("{tool} {path} and {} more", rest.len()),
    };
    let words = words.trim();
    let first = words
        .lines()
        .next()
        .filter(|line| !line.is_empty())
        .unwrap_or(tool);
    let short: String = first.chars().take(MAX_TITLE).collect();
    if short.len() < words.len() {
        format!("{short}…")
    } else {
        short
    }
}

fn kind(tool: &str, kind: ToolKind) -> &'static str {
    let named = KINDS
        .iter()
        .find(|(_, tools)| tools.contains(&tool))
        .map(|(kind, _)| *kind);
    named.unwrap_or(match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Execute => "execute",
        ToolKind::Network => "fetch",
        ToolKind::Mcp | ToolKind::Other => "other",
    })
}

/// Converts a change into a diff, if the text is known.
fn diff(change: FileChange, dir: &Path) -> Option<Content> {
    let (old_text, new_text) = match change.kind {
        ChangeKind::Replace { old, new } => (Some(old), new),
        ChangeKind::Write(new) => (None, new),
        ChangeKind::Patch(_) | ChangeKind::Delete | ChangeKind::Create | ChangeKind::Edit => {
            return None;
        }
    };
    Some(Content::Diff {
        path: dir.join(change.path),
        old_text,
        new_text,
    })
}

/// Tool arguments that contain a plan.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TodoInput {
    todos: Vec<Todo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Todo {
    content: String,
    status: String,
}

impl TodoInput {
    fn plan(&self) -> Vec<PlanEntry> {
        let status = |status: &str| match status {
            "completed" => "completed",
            "in_progress" => "in_progress",
            _ => "pending",
        };
        let entry = |todo: &Todo| PlanEntry {
            content: todo.content.clone(),
            priority: "medium",
            status: status(&todo.status),
        };
        self.todos.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(tool: &str, kind: ToolKind, paths: &[&str], input: &Value) -> ToolCallView {
        let mut wants = ToolUse::new(tool, kind);
        wants.paths = paths.iter().map(|path| (*path).to_owned()).collect();
        if let Some(command) = input["command"].as_str() {
            wants.command = Some(Command::Shell(command.to_owned()));
        }
        view(tool, Some(&RawJson::of(input)), &wants, Path::new("/w"))
    }

    #[test]
    fn titles_and_kinds_of_tool_calls() {
        let long = "x".repeat(300);
        let table = [
            (
                of(
                    "Bash",
                    ToolKind::Execute,
                    &[],
                    &json!({"command": "ls -l\npwd"}),
                ),
                "ls -l…",
                "execute",
            ),
            (
                of("Bash", ToolKind::Execute, &[], &json!({"command": " "})),
                "Bash",
                "execute",
            ),
            (
                of("Read", ToolKind::Read, &["a.rs"], &json!({})),
                "Read a.rs",
                "read",
            ),
            (
                of("Grep", ToolKind::Read, &["a", "b", "c"], &json!({})),
                "Grep a and 2 more",
                "search",
            ),
            (
                of("WebFetch", ToolKind::Network, &[], &json!({"url": "u"})),
                "WebFetch",
                "fetch",
            ),
            (
                of("mcp__x__y", ToolKind::Mcp, &[], &json!([1])),
                "mcp__x__y",
                "other",
            ),
            (
                of("delete_file", ToolKind::Edit, &["a"], &json!({})),
                "delete_file a",
                "delete",
            ),
            (
                of("move_file", ToolKind::Edit, &["a", "b"], &json!({})),
                "move_file a and 1 more",
                "move",
            ),
        ];
        for (look, title, kind) in table {
            assert_eq!((&*look.title, look.kind), (title, kind));
        }
        let look = of("Bash", ToolKind::Execute, &[], &json!({"command": long}));
        assert_eq!(look.title.chars().count(), MAX_TITLE + 1);
    }

    #[test]
    fn file_changes_become_diffs() {
        let diff = |old: Option<&str>, new: &str| Content::Diff {
            path: "/w/a.rs".into(),
            old_text: old.map(str::to_owned),
            new_text: new.into(),
        };
        let edited = |input: Value| of("Edit", ToolKind::Edit, &["a.rs"], &input).diffs;
        assert_eq!(
            edited(json!({"old_string": "1", "new_string": "2"})),
            [diff(Some("1"), "2")]
        );
        assert_eq!(
            edited(json!({"find": "1", "replace": "2", "all": true})),
            [diff(Some("1"), "2")]
        );
        assert_eq!(edited(json!({"content": "all"})), [diff(None, "all")]);
        let two = json!({"edits": [{"find": "1", "replace": "2"}, {"old_string": "3", "new_string": "4"}, {}]});
        assert_eq!(edited(two), [diff(Some("1"), "2"), diff(Some("3"), "4")]);
        assert_eq!(edited(json!({"old_string": 7, "edits": "no"})), []);
        // Only changes with a known file are shown as diffs.
        assert_eq!(
            of("Read", ToolKind::Read, &["a.rs"], &json!({"content": "x"})).diffs,
            []
        );
        assert_eq!(
            of(
                "Edit",
                ToolKind::Edit,
                &["a", "b"],
                &json!({"content": "x"})
            )
            .diffs,
            []
        );
        assert_eq!(
            of("Edit", ToolKind::Edit, &["/x/../a"], &json!({})).locations,
            [Location {
                path: "/x/../a".into()
            }]
        );
    }

    #[test]
    fn todo_list_becomes_a_plan() {
        let todos = json!({"todos": [{"content": "a", "status": "completed", "activeForm": "b"},
            {"content": "c", "status": "in_progress"}, {"content": "d", "status": "?"}]});
        let plan = of("TodoWrite", ToolKind::Other, &[], &todos).plan;
        let states: Vec<_> = plan
            .iter()
            .map(|entry| (&*entry.content, entry.status))
            .collect();
        assert_eq!(
            states,
            [("a", "completed"), ("c", "in_progress"), ("d", "pending")]
        );
    }
}
