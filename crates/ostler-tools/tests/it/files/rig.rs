//! A workspace with something outside that must stay unseen and unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ostler_tools::catalog::Reply;
use ostler_tools::{FileRules, ToolError, Workspace};
use serde_json::Value;

/// What no tool may ever give.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// What is at a path: its kind, its mode, its content.
pub(crate) type Picture = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// A workspace and its surroundings, in a directory of its own.
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

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What is in a file of the workspace.
    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.ws.join(path)).unwrap()
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.ws.join(name)).unwrap();
    }

    pub(crate) fn call(&self, tool: &str, args: &Value) -> Result<Reply, ToolError> {
        self.tools.call(tool, &args.to_string())
    }

    /// A call that succeeds, as JSON.
    #[track_caller]
    pub(crate) fn json(&self, tool: &str, args: &Value) -> Value {
        let reply = self
            .call(tool, args)
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
        assert_unseen(&reply);
        serde_json::from_str(&reply.json).unwrap()
    }

    /// A call that succeeds, as text.
    #[track_caller]
    pub(crate) fn text(&self, tool: &str, args: &Value) -> String {
        let reply = self
            .call(tool, args)
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
        assert_unseen(&reply);
        reply.text
    }

    /// A call that fails with one of the codes and leaves everything as it was. Gives the message.
    #[track_caller]
    pub(crate) fn refused(&self, tool: &str, args: &Value, codes: &[&str]) -> String {
        let before = picture(&self.all);
        let refusal = match self.call(tool, args) {
            Ok(reply) => panic!("{tool} {args} was done: {}", reply.json),
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
        assert_same(&before, &picture(&self.all), &format!("{tool} {args}"));
        refusal.message
    }
}

/// A call of each tool at each place where it takes a path, with that path.
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

/// Nothing of what is outside is in a reply.
#[track_caller]
pub(crate) fn assert_unseen(reply: &Reply) {
    assert!(
        !reply.text.contains(CANARY) && !reply.json.contains(CANARY),
        "seen: {}",
        reply.json
    );
}

#[track_caller]
pub(crate) fn assert_same(before: &Picture, after: &Picture, what: &str) {
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

/// All that is below a directory, links not followed; of large files only the size counts.
pub(crate) fn picture(path: &Path) -> Picture {
    use std::os::unix::fs::MetadataExt;

    let mut picture = Picture::new();
    let mut ahead = vec![path.to_owned()];
    while let Some(path) = ahead.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let sort = about.file_type();
        let (kind, content) = if sort.is_dir() {
            ahead.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            ('d', Vec::new())
        } else if sort.is_symlink() {
            (
                'l',
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            )
        } else if sort.is_file() && about.len() <= 1 << 20 {
            ('f', fs::read(&path).unwrap())
        } else {
            ('o', about.len().to_le_bytes().to_vec())
        };
        picture.insert(path, (kind, about.mode(), content));
    }
    picture
}
