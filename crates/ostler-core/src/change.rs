//! File changes: the effect of a tool call on the text of files, derived from its arguments and
//! result.
//!
//! Agents name the same arguments differently, but use few shapes: a replacement, a whole new text,
//! or a patch. This module parses all of them, so a dialect only has to say which tools edit
//! ([`ToolUse`]).

use serde_json::{Map, Value};

use crate::event::{ToolCall, ToolResult};
use crate::permission::{ToolKind, ToolUse};
use crate::raw_json::RawJson;

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path of the file, as the agent wrote it.
    pub path: String,
    /// New path, if the file is moved.
    pub moved_to: Option<String>,
    /// The change to its text.
    pub kind: ChangeKind,
}

/// A change to a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// The whole new text; the previous text is unknown.
    Write(String),
    /// The text, or a part of it, before and after.
    Replace {
        /// Text before; empty for a new file.
        old: String,
        /// Text after.
        new: String,
    },
    /// Hunks of a unified diff.
    Patch(String),
    /// The file is deleted; its text is unknown.
    Delete,
    /// The file is created; its text is unknown.
    Create,
    /// The file is modified; the change is unknown.
    Edit,
}

/// Argument names for the text to replace.
const OLD: &[&str] = &[
    "old_string",
    "oldString",
    "old_str",
    "oldText",
    "old_text",
    "find",
    "before",
];

/// Argument names for the replacement.
const NEW: &[&str] = &[
    "new_string",
    "newString",
    "new_str",
    "newText",
    "new_text",
    "replace",
    "after",
    "insert_text",
];

/// Argument names for a whole new text.
const WHOLE: &[&str] = &["content", "contents", "file_text", "new_source"];

/// Argument names for a patch.
const PATCH: &[&str] = &["patch", "patchText", "patch_text", "input", "diff"];

/// Argument names for a path, within a call that changes several files.
const PATH: &[&str] = &["path", "file_path", "filePath", "absolute_path"];

/// Tools that delete a file.
const DELETE_TOOLS: &[&str] = &["delete", "delete_file"];

/// Returns the changes that a call made. Prefers what the agent reports in the result, and falls
/// back to the arguments.
#[must_use]
pub fn of_call(wants: &ToolUse, call: &ToolCall, result: &ToolResult) -> Vec<FileChange> {
    let shown = result.content.as_ref().map(diff_blocks).unwrap_or_default();
    if !shown.is_empty() {
        return shown;
    }
    match &wants.paths[..] {
        [path] if wants.kind == ToolKind::Edit && is_unified(&result.output) => {
            vec![FileChange::new(
                path,
                ChangeKind::Patch(result.output.clone()),
            )]
        }
        _ => of_input(wants, &call.input),
    }
}

/// Returns the changes that a call with these arguments requests.
#[must_use]
pub fn of_input(wants: &ToolUse, input: &RawJson) -> Vec<FileChange> {
    // A patch is recognizable by itself, so an unknown tool may contain one.
    if !matches!(wants.kind, ToolKind::Edit | ToolKind::Other) {
        return Vec::new();
    }
    let Ok(Value::Object(arguments)) = serde_json::from_str(input.get()) else {
        return Vec::new();
    };
    let patch = text(&arguments, PATCH).map(parse_patch).unwrap_or_default();
    if !patch.is_empty() || wants.kind != ToolKind::Edit {
        return patch;
    }
    match arguments.get("changes") {
        Some(Value::Array(changes)) => return changes.iter().filter_map(listed_change).collect(),
        Some(Value::Object(changes)) => {
            return changes
                .iter()
                .filter_map(|(path, change)| keyed_change(path, change))
                .collect();
        }
        _ => {}
    }
    match &wants.paths[..] {
        [path] => of_file(wants, path, &arguments),
        [from, to] if arguments.contains_key("from") => {
            vec![FileChange {
                moved_to: Some(to.clone()),
                ..FileChange::new(from, ChangeKind::Patch(String::new()))
            }]
        }
        _ => edit_list(None, &arguments),
    }
}

impl FileChange {
    fn new(path: &str, kind: ChangeKind) -> Self {
        Self {
            path: path.to_owned(),
            moved_to: None,
            kind,
        }
    }

    fn replace(path: &str, old: &str, new: &str) -> Self {
        Self::new(
            path,
            ChangeKind::Replace {
                old: old.to_owned(),
                new: new.to_owned(),
            },
        )
    }
}

/// Returns the changes of a call that concerns one file.
fn of_file(wants: &ToolUse, path: &str, arguments: &Map<String, Value>) -> Vec<FileChange> {
    if DELETE_TOOLS.contains(&&*wants.tool) {
        return vec![FileChange::new(path, ChangeKind::Delete)];
    }
    if let Some(diff) = text(arguments, PATCH).filter(|diff| is_unified(diff)) {
        return vec![FileChange::new(path, ChangeKind::Patch(diff.to_owned()))];
    }
    let replaced = text(arguments, NEW)
        .map(|new| FileChange::replace(path, text(arguments, OLD).unwrap_or_default(), new));
    let written = || {
        text(arguments, WHOLE)
            .map(|whole| FileChange::new(path, ChangeKind::Write(whole.to_owned())))
    };
    replaced
        .or_else(written)
        .into_iter()
        .chain(edit_list(Some(path), arguments))
        .collect()
}

/// Returns the changes of an `edits` list, each with its own path or all with the same one.
fn edit_list(path: Option<&str>, arguments: &Map<String, Value>) -> Vec<FileChange> {
    let edits = arguments
        .get("edits")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let change = |edit: &Value| {
        let edit = edit.as_object()?;
        let path = text(edit, PATH).or(path)?;
        Some(FileChange::replace(
            path,
            text(edit, OLD).unwrap_or_default(),
            text(edit, NEW)?,
        ))
    };
    edits.iter().filter_map(change).collect()
}

/// Parses a change of the form `{"path", "kind", "diff"}`. The diff of a created or deleted file is
/// its text.
fn listed_change(change: &Value) -> Option<FileChange> {
    let path = change["path"].as_str()?;
    let kind = change["kind"]
        .as_str()
        .or(change["kind"]["type"].as_str())?;
    let moved = change["kind"]["move_path"]
        .as_str()
        .or(change["kind"]["movePath"].as_str());
    let found = change_of_kind(path, kind, change["diff"].as_str())?;
    Some(FileChange {
        moved_to: moved.map(str::to_owned),
        ..found
    })
}

/// Parses a change of the form `{"PATH": {"type", "content" or "unified_diff"}}`, or with the type
/// as a key.
fn keyed_change(path: &str, change: &Value) -> Option<FileChange> {
    let (kind, body) = match change["type"].as_str() {
        Some(kind) => (kind.to_owned(), change),
        None => change
            .as_object()?
            .iter()
            .next()
            .map(|(kind, body)| (kind.clone(), body))?,
    };
    let found = change_of_kind(
        path,
        &kind,
        body["unified_diff"].as_str().or(body["content"].as_str()),
    )?;
    Some(FileChange {
        moved_to: body["move_path"].as_str().map(str::to_owned),
        ..found
    })
}

fn change_of_kind(path: &str, kind: &str, body: Option<&str>) -> Option<FileChange> {
    match (kind, body) {
        ("add", Some(new)) => Some(FileChange::replace(path, "", new)),
        ("add", None) => Some(FileChange::new(path, ChangeKind::Create)),
        ("delete", Some(old)) => Some(FileChange::replace(path, old, "")),
        ("delete", None) => Some(FileChange::new(path, ChangeKind::Delete)),
        ("update", Some(diff)) => Some(FileChange::new(path, ChangeKind::Patch(diff.to_owned()))),
        ("update", None) => Some(FileChange::new(path, ChangeKind::Edit)),
        _ => None,
    }
}

/// Returns the changes that an agent reports as content blocks of type `diff`.
fn diff_blocks(content: &RawJson) -> Vec<FileChange> {
    let blocks: Vec<Value> = serde_json::from_str(content.get()).unwrap_or_default();
    let diffs = blocks.iter().filter(|block| block["type"] == "diff");
    let change = |block: &Value| {
        Some(FileChange::replace(
            block["path"].as_str()?,
            block["oldText"].as_str().unwrap_or_default(),
            block["newText"].as_str()?,
        ))
    };
    diffs.filter_map(change).collect()
}

fn is_unified(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("@@ -"))
}

/// Parses a patch that begins with `*** Begin Patch`.
fn parse_patch(patch: &str) -> Vec<FileChange> {
    let mut changes: Vec<FileChange> = Vec::new();
    let mut lines = patch
        .lines()
        .skip_while(|line| line.trim() != "*** Begin Patch")
        .skip(1);
    for line in lines
        .by_ref()
        .take_while(|line| line.trim() != "*** End Patch")
    {
        let head = line
            .strip_prefix("*** ")
            .and_then(|line| line.split_once(": "));
        match (head, changes.last_mut()) {
            (Some(("Add File", path)), _) => changes.push(FileChange::replace(path, "", "")),
            (Some(("Update File", path)), _) => {
                changes.push(FileChange::new(path, ChangeKind::Patch(String::new())));
            }
            (Some(("Delete File", path)), _) => {
                changes.push(FileChange::new(path, ChangeKind::Delete));
            }
            (Some(("Move to", path)), Some(change)) => change.moved_to = Some(path.to_owned()),
            (
                _,
                Some(FileChange {
                    kind: ChangeKind::Replace { new, .. },
                    ..
                }),
            ) => {
                new.push_str(line.strip_prefix('+').unwrap_or(line));
                new.push('\n');
            }
            (
                _,
                Some(FileChange {
                    kind: ChangeKind::Patch(hunks),
                    ..
                }),
            ) => {
                hunks.push_str(line);
                hunks.push('\n');
            }
            _ => {}
        }
    }
    changes
}

/// Returns the first of these arguments that is a string.
fn text<'a>(arguments: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arguments.get(*name)?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replace(path: &str, old: &str, new: &str) -> FileChange {
        FileChange::replace(path, old, new)
    }

    fn patch(path: &str, hunks: &str) -> FileChange {
        FileChange::new(path, ChangeKind::Patch(hunks.to_owned()))
    }

    fn edits(tool: &str, paths: &[&str], input: &Value) -> Vec<FileChange> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let wants = ToolUse {
            paths,
            ..ToolUse::new(tool, ToolKind::Edit)
        };
        of_input(&wants, &RawJson::of(input))
    }

    #[test]
    fn arguments_of_every_shape_are_parsed() {
        let table = [
            (
                json!({"file_path": "a", "old_string": "1", "new_string": "2"}),
                vec![replace("a", "1", "2")],
            ),
            (
                json!({"filePath": "a", "oldString": "1", "newString": ""}),
                vec![replace("a", "1", "")],
            ),
            (
                json!({"path": "a", "old_str": "1", "new_str": "2"}),
                vec![replace("a", "1", "2")],
            ),
            (
                json!({"path": "a", "find": "1", "replace": "2", "all": true}),
                vec![replace("a", "1", "2")],
            ),
            (
                json!({"path": "a", "insert_line": 3, "new_str": "2"}),
                vec![replace("a", "", "2")],
            ),
            (
                json!({"path": "a", "content": "2"}),
                vec![FileChange::new("a", ChangeKind::Write("2".into()))],
            ),
            (
                json!({"path": "a", "file_text": "2"}),
                vec![FileChange::new("a", ChangeKind::Write("2".into()))],
            ),
            (
                json!({"path": "a", "edits": [
                    {"oldText": "1", "newText": "2"}, {"find": "3", "replace": "4"}, {}, 5]}),
                vec![replace("a", "1", "2"), replace("a", "3", "4")],
            ),
            (
                json!({"path": "a", "diff": "@@ -1 +1 @@\n-1\n+2\n"}),
                vec![patch("a", "@@ -1 +1 @@\n-1\n+2\n")],
            ),
            (json!({"old_string": 7, "edits": "no"}), vec![]),
            (json!([1]), vec![]),
        ];
        for (input, want) in table {
            assert_eq!(edits("edit", &["a"], &input), want, "{input}");
        }
        assert_eq!(
            edits("delete_file", &["a"], &json!({})),
            [FileChange::new("a", ChangeKind::Delete)]
        );
        let moved = FileChange {
            moved_to: Some("b".into()),
            ..patch("a", "")
        };
        assert_eq!(
            edits("move_file", &["a", "b"], &json!({"from": "a", "to": "b"})),
            [moved]
        );
        // Text without a file is not a change.
        assert_eq!(edits("edit", &["a", "b"], &json!({"content": "x"})), []);
    }

    #[test]
    fn changes_to_several_files_are_parsed() {
        let listed = json!({"changes": [
            {"path": "a", "kind": {"type": "add"}, "diff": "1\n"},
            {"path": "b", "kind": {"type": "update", "move_path": "c"}, "diff": "@@ -1 +1 @@\n-1\n+2\n"},
            {"path": "d", "kind": "delete", "diff": "1\n"},
            {"path": "e", "kind": "delete"},
            {"path": "f", "kind": "add"},
            {"path": "g", "kind": "update"},
            {"path": "h", "kind": "new"},
        ]});
        let moved = FileChange {
            moved_to: Some("c".into()),
            ..patch("b", "@@ -1 +1 @@\n-1\n+2\n")
        };
        let [gone, new, edited] = [
            ("e", ChangeKind::Delete),
            ("f", ChangeKind::Create),
            ("g", ChangeKind::Edit),
        ]
        .map(|(path, kind)| FileChange::new(path, kind));
        let all = [
            replace("a", "", "1\n"),
            moved,
            replace("d", "1\n", ""),
            gone,
            new,
            edited,
        ];
        assert_eq!(edits("apply_patch", &["a", "b", "c"], &listed), all);
        let keyed = json!({"changes": {"a": {"type": "add", "content": "1\n"},
            "b": {"update": {"unified_diff": "@@ -1 +1 @@\n", "move_path": null}}}});
        assert_eq!(
            edits("patch", &[], &keyed),
            [replace("a", "", "1\n"), patch("b", "@@ -1 +1 @@\n")]
        );
        let text = "*** Begin Patch\n*** Add File: a\n+1\n+2\n*** Update File: b\n\
             *** Move to: c\n@@ fn x\n 1\n-2\n+3\n\
                    *** Delete File: d\n*** End Patch\n";
        let moved = FileChange {
            moved_to: Some("c".into()),
            ..patch("b", "@@ fn x\n 1\n-2\n+3\n")
        };
        let gone = FileChange::new("d", ChangeKind::Delete);
        let all = vec![replace("a", "", "1\n2\n"), moved, gone];
        assert_eq!(edits("apply_patch", &[], &json!({"patchText": text})), all);
        // For an unknown tool only a patch counts as a change; for a reading tool nothing does.
        let of = |kind, input: Value| of_input(&ToolUse::new("x", kind), &RawJson::of(&input));
        assert_eq!(of(ToolKind::Other, json!({"input": text})), all);
        assert_eq!(
            of(ToolKind::Other, json!({"path": "a", "content": "x"})),
            []
        );
        assert_eq!(of(ToolKind::Execute, json!({"input": text})), []);
    }

    #[test]
    fn the_result_takes_precedence_over_the_arguments() {
        let call = |input: &Value| ToolCall {
            id: "1".into(),
            name: "edit".into(),
            input: RawJson::of(input),
            parent: None,
        };
        let result = |output: &str, content: Option<Value>| ToolResult {
            id: "1".into(),
            name: None,
            ok: true,
            output: output.into(),
            denied: false,
            content: content.map(|content| RawJson::of(&content)),
        };
        let wants = ToolUse {
            paths: vec!["a".into()],
            ..ToolUse::new("edit", ToolKind::Edit)
        };
        let input = json!({"path": "a", "content": "2\n"});
        let blocks = json!([{"type": "content", "content": {"type": "text", "text": "x"}},
            {"type": "diff", "path": "/w/a", "oldText": "1\n", "newText": "2\n"},
            {"type": "diff", "path": "/w/b", "oldText": null, "newText": "3\n"}]);
        let shown = of_call(&wants, &call(&input), &result("", Some(blocks)));
        assert_eq!(
            shown,
            [replace("/w/a", "1\n", "2\n"), replace("/w/b", "", "3\n")]
        );
        let diff = "Changed.\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n";
        assert_eq!(
            of_call(&wants, &call(&input), &result(diff, None)),
            [patch("a", diff)]
        );
        let written = FileChange::new("a", ChangeKind::Write("2\n".into()));
        assert_eq!(
            of_call(&wants, &call(&input), &result("Done.", None)),
            [written]
        );
    }
}
