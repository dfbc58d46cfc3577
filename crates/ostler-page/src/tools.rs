//! Tool calls as they are shown: kind, one-line summary, and paths relative to the workspace.

use std::path::{Path, PathBuf};

use ostler_core::clip::sanitize;
use ostler_core::dialect::Dialect;
use ostler_core::names::named;
use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum length of a summary, in characters.
const MAX_SUMMARY: usize = 200;

/// Tools that search, besides reading.
const SEARCH_TOOLS: &[&str] = &[
    "glob",
    "grep",
    "grep_search",
    "file_search",
    "codebase_search",
    "search_files",
    "list_files",
    "list_directory",
    "search",
    "find",
    "ls",
    "rg",
];

/// Tools that start a subagent.
const AGENT_TOOLS: &[&str] = &["task", "agent", "subagent", "spawn_agent", "delegate"];

/// Arguments that say what a call is about, the most specific first.
const SUBJECTS: &[&str] = &[
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "path",
    "file_path",
    "filePath",
    "description",
    "prompt",
];

named! {
    /// Kind of a tool call, as it is shown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CallKind {
        /// Reads files.
        Read = "read",
        /// Changes files.
        Edit = "edit",
        /// Runs commands.
        Execute = "execute",
        /// Searches files.
        Search = "search",
        /// Accesses the network.
        Network = "network",
        /// Belongs to an MCP server.
        Mcp = "mcp",
        /// Starts a subagent.
        Agent = "agent",
        /// Anything else.
        Other = "other",
    }
}

/// The agent's tools, and the directory that it works in.
#[derive(Clone, Default)]
pub struct ToolContext {
    dialect: Option<&'static dyn Dialect>,
    dir: PathBuf,
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext")
            .field("agent", &self.dialect.map(|dialect| dialect.about().name))
            .field("dir", &self.dir)
            .finish()
    }
}

impl ToolContext {
    /// Creates the context of a session. Without a dialect, all tools are of an unknown kind.
    #[must_use]
    pub fn new(dialect: Option<&'static dyn Dialect>, dir: &Path) -> Self {
        Self {
            dialect,
            dir: dir.to_owned(),
        }
    }

    /// Describes what a call does.
    #[must_use]
    pub fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        let unknown = || ToolUse::new(tool, ToolKind::Other);
        self.dialect
            .map_or_else(unknown, |dialect| dialect.tool_use(tool, input))
    }

    /// Returns a path relative to the workspace, or unchanged if it is outside of it.
    #[must_use]
    pub fn relative(&self, path: &str) -> String {
        let is_known = !self.dir.as_os_str().is_empty();
        let inside = Path::new(path).strip_prefix(&self.dir).ok();
        match inside.filter(|_| is_known) {
            Some(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Some(rest) => rest.to_string_lossy().into_owned(),
            None => path.to_owned(),
        }
    }

    /// Describes a call on one line: its command, its path, or its most telling argument.
    #[must_use]
    pub fn summary(&self, wants: &ToolUse, input: &RawJson) -> String {
        let text = match (&wants.command, &wants.paths[..]) {
            (Some(Command::Shell(line)), _) => line.clone(),
            (Some(Command::Words(words)), _) => words.join(" "),
            // A search is described by its pattern rather than by its directory.
            (None, paths) if CallKind::of(wants) == CallKind::Search => {
                let path = paths.first().map(|path| self.relative(path));
                let subject = self.subject(input);
                match path.filter(|path| *path != subject && path != ".") {
                    Some(path) if subject.is_empty() => path,
                    Some(path) => format!("{subject} in {path}"),
                    None => subject,
                }
            }
            (None, []) => self.subject(input),
            (None, [path]) => self.relative(path),
            (None, [path, rest @ ..]) => {
                format!("{} and {} more", self.relative(path), rest.len())
            }
        };
        one_line(&text, MAX_SUMMARY)
    }

    fn subject(&self, input: &RawJson) -> String {
        let Ok(map) = serde_json::from_str::<Map<String, Value>>(input.get()) else {
            return String::new();
        };
        let named = SUBJECTS
            .iter()
            .find_map(|name| map.get(*name)?.as_str())
            .or_else(|| map.values().find_map(Value::as_str));
        named.map(|text| self.relative(text)).unwrap_or_default()
    }
}

impl CallKind {
    /// Returns the kind of a call.
    #[must_use]
    pub fn of(wants: &ToolUse) -> Self {
        let name = wants.tool.to_ascii_lowercase();
        match wants.kind {
            ToolKind::Read | ToolKind::Other if AGENT_TOOLS.contains(&&*name) => Self::Agent,
            ToolKind::Read | ToolKind::Other if SEARCH_TOOLS.contains(&&*name) => Self::Search,
            ToolKind::Read => Self::Read,
            ToolKind::Edit => Self::Edit,
            ToolKind::Execute => Self::Execute,
            ToolKind::Network => Self::Network,
            ToolKind::Mcp => Self::Mcp,
            ToolKind::Other => Self::Other,
        }
    }
}

/// Returns a text on one line, without control characters, of at most `most` characters.
#[must_use]
pub fn one_line(text: &str, most: usize) -> String {
    let text = sanitize(text);
    let words = text.split_whitespace();
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * most {
            break; // long enough in any encoding
        }
    }
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(kind: ToolKind, tool: &str, paths: &[&str], input: &Value) -> (CallKind, String) {
        let mut wants = ToolUse::new(tool, kind);
        wants.paths = paths.iter().map(|path| (*path).to_owned()).collect();
        if let Some(line) = input["command"].as_str() {
            wants.command = Some(Command::Shell(line.to_owned()));
        }
        let context = ToolContext::new(None, Path::new("/w"));
        (
            CallKind::of(&wants),
            context.summary(&wants, &RawJson::of(input)),
        )
    }

    #[test]
    fn calls_are_described_on_one_line() {
        use ToolKind::{Edit, Execute, Mcp, Network, Other, Read};
        let table = [
            (
                summary(Execute, "Bash", &[], &json!({"command": "ls -l\n  pwd"})),
                (CallKind::Execute, "ls -l pwd"),
            ),
            (
                summary(Read, "Read", &["/w/a b.rs"], &json!({})),
                (CallKind::Read, "a b.rs"),
            ),
            (
                summary(Read, "Read", &["/ww/a"], &json!({})),
                (CallKind::Read, "/ww/a"),
            ),
            (
                summary(
                    Read,
                    "Grep",
                    &["/w/src"],
                    &json!({"pattern": "fn x", "path": "/w/src"}),
                ),
                (CallKind::Search, "fn x in src"),
            ),
            (
                summary(Read, "Glob", &["."], &json!({"pattern": "*.rs"})),
                (CallKind::Search, "*.rs"),
            ),
            (
                summary(Edit, "apply_patch", &["/w/a", "/w/b", "c"], &json!({})),
                (CallKind::Edit, "a and 2 more"),
            ),
            (
                summary(
                    Read,
                    "Task",
                    &[],
                    &json!({"description": "Look", "prompt": "p"}),
                ),
                (CallKind::Agent, "Look"),
            ),
            (
                summary(Network, "WebFetch", &[], &json!({"url": "https://x"})),
                (CallKind::Network, "https://x"),
            ),
            (
                summary(Mcp, "mcp__a__b", &[], &json!({"n": 1, "t": "\u{202e}x"})),
                (CallKind::Mcp, "\\u{202e}x"),
            ),
            (summary(Other, "x", &[], &json!([1])), (CallKind::Other, "")),
        ];
        for ((kind, got), (want_kind, want)) in table {
            assert_eq!((kind, &*got), (want_kind, want));
        }
        let long = "é".repeat(5000);
        let (_, got) = summary(Execute, "Bash", &[], &json!({ "command": long }));
        assert_eq!(got.chars().count(), MAX_SUMMARY + 1);
    }
}
