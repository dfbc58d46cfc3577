//! Test rig: a workspace next to files that must stay unseen and unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ostler_tools::catalog::ToolOutput;
use ostler_tools::{FileRules, ToolError, Workspace};
use serde_json::Value;

/// Content that no tool may ever return.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// Entries below a directory: kind, mode and content.
pub(crate) type TreeSnapshot = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// A workspace and its surroundings, in a temporary directory.
pub(crate) struct Rig {
    _temp: tempfile::TempDir,
    pub(crate) all: PathBuf,
    pub(crate) ws: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) tools: Workspace,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(&FileRules::default())
    }

    pub(crate) fn with(rules: &FileRules) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let all = temp.path().canonicalize().unwrap();
        let (ws, outside) = (all.join("ws"), all.join("outside"));
        for (path, content) in [
            (outside.join("secret.txt"), format!("{CANARY}\n")),
            (outside.join("dir/secret.txt"), format!("{CANARY}\n")),
            (all.join("ws-evil/secret.txt"), format!("{CANARY}\n")),
            (ws.join("a.txt"), "one\ntwo\nthree\n".to_owned()),
            (ws.join("src/main.rs"), "fn main() {}\n".to_owned()),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let tools = Workspace::open(&ws, rules).unwrap();
        Self {
            _temp: temp,
            all,
            ws,
            outside,
            tools,
        }
    }

    /// Writes a file in the workspace.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Reads a file of the workspace.
    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.ws.join(path)).unwrap()
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.ws.join(name)).unwrap();
    }

    pub(crate) fn call(&self, tool: &str, args: &Value) -> Result<ToolOutput, ToolError> {
        self.tools.call(tool, &args.to_string())
    }

    /// Makes a call that succeeds, and returns the JSON.
    #[track_caller]
    pub(crate) fn json(&self, tool: &str, args: &Value) -> Value {
        let output = self
            .call(tool, args)
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
        assert_unseen(&output);
        serde_json::from_str(&output.json).unwrap()
    }

    /// Makes a call that succeeds, and returns the text.
    #[track_caller]
    pub(crate) fn text(&self, tool: &str, args: &Value) -> String {
        let output = self
            .call(tool, args)
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
        assert_unseen(&output);
        output.text
    }

    /// Makes a call that fails with one of the codes and changes nothing, and returns the message.
    #[track_caller]
    pub(crate) fn refused(&self, tool: &str, args: &Value, codes: &[&str]) -> String {
        let before = tree_snapshot(&self.all);
        let refusal = match self.call(tool, args) {
            Ok(output) => panic!("{tool} {args} succeeded: {}", output.json),
            Err(error) => error,
        };
        assert!(
            codes.contains(&refusal.code.as_str()),
            "{tool} {args}: {refusal}, not {codes:?}"
        );
        assert!(
            !refusal.message.contains(CANARY),
            "{tool} {args}: {refusal}"
        );
        assert_same(
            &before,
            &tree_snapshot(&self.all),
            &format!("{tool} {args}"),
        );
        refusal.message
    }
}

/// Returns a call of each tool for each of its path arguments, with that path.
pub(crate) fn every_call(path: &str) -> Vec<(&'static str, Value)> {
    use serde_json::json;

    vec![
        ("read_file", json!({"path": path})),
        ("read_file", json!({"path": path, "offset": 1, "limit": 1})),
        ("write_file", json!({"path": path, "content": "x"})),
        ("create_file", json!({"path": path, "content": "x"})),
        (
            "edit_file",
            json!({"path": path, "find": "CANARY", "replace": "x"}),
        ),
        (
            "edit_file",
            json!({"path": path, "edits": [{"find": "CANARY", "replace": "x"}]}),
        ),
        ("delete_file", json!({"path": path})),
        ("list_files", json!({"path": path, "hidden": true})),
        (
            "list_files",
            json!({"path": path, "pattern": "**", "hidden": true}),
        ),
        ("search_files", json!({"path": path, "pattern": "CANARY"})),
        ("move_file", json!({"from": path, "to": "taken.txt"})),
        ("move_file", json!({"from": "a.txt", "to": path})),
        (
            "move_file",
            json!({"from": "a.txt", "to": path, "overwrite": true}),
        ),
        ("make_directory", json!({"path": path})),
    ]
}

/// Asserts that nothing from outside is in a result.
#[track_caller]
pub(crate) fn assert_unseen(output: &ToolOutput) {
    assert!(
        !output.text.contains(CANARY) && !output.json.contains(CANARY),
        "seen: {}",
        output.json
    );
}

#[track_caller]
pub(crate) fn assert_same(before: &TreeSnapshot, after: &TreeSnapshot, what: &str) {
    let gone: Vec<_> = before
        .keys()
        .filter(|path| !after.contains_key(*path))
        .collect();
    let new: Vec<_> = after
        .keys()
        .filter(|path| !before.contains_key(*path))
        .collect();
    let other: Vec<_> = before
        .iter()
        .filter(|(path, was)| after.get(*path).is_some_and(|is| is != *was))
        .collect();
    let other: Vec<_> = other.into_iter().map(|(path, _)| path).collect();
    assert!(
        gone.is_empty() && new.is_empty() && other.is_empty(),
        "{what}: gone {gone:?}, new {new:?}, changed {other:?}"
    );
}

/// Returns everything below a directory, without following links; for large files only the size.
pub(crate) fn tree_snapshot(path: &Path) -> TreeSnapshot {
    use std::os::unix::fs::MetadataExt;

    let mut tree_snapshot = TreeSnapshot::new();
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let file_type = metadata.file_type();
        let (kind, content) = if file_type.is_dir() {
            pending.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            ('d', Vec::new())
        } else if file_type.is_symlink() {
            (
                'l',
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            )
        } else if file_type.is_file() && metadata.len() <= 1 << 20 {
            ('f', fs::read(&path).unwrap())
        } else {
            ('o', metadata.len().to_le_bytes().to_vec())
        };
        tree_snapshot.insert(path, (kind, metadata.mode(), content));
    }
    tree_snapshot
}
