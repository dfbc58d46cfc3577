//! Display of tool calls: one line each, diffs of changed files, and the last output of failed
//! commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler::Agents;
use ostler::agent_loop::AWAITING_APPROVAL;
use ostler::dialect::Dialect;
use ostler::event::{Timestamp, ToolCall, ToolResult};
use ostler::permission::{ToolKind, ToolUse};
use ostler::render::change::{self, ChangeKind};

use serde_json::{Map, Value};

use super::diff::{Changed, Diff, DiffLine, Texts};
use super::human::{span_of, thousands};
use super::style::{BAD, DIM, GOOD, TOOL, WARN};
use super::value::{name, one_line};
use crate::files;

/// Maximum number of diff lines to show.
const SHOWN: usize = 40;

/// Maximum number of lines shown from the end of a failed command's output.
const LAST: usize = 10;

/// Maximum width of a line of a diff or of tool output, normally and with full detail.
const WIDTH: usize = 110;
const WHOLE: usize = 4000;

/// Amount of tool output to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Detail {
    Nothing,
    #[default]
    Usual,
    Everything,
}

/// Dialects by agent name; they know what a tool does.
#[derive(Clone)]
pub(crate) struct Dialects(BTreeMap<String, &'static dyn Dialect>);

impl Dialects {
    pub(crate) fn of(agents: &Agents) -> Self {
        Self(
            agents
                .iter()
                .map(|agent| (agent.about().name.to_owned(), agent.dialect()))
                .collect(),
        )
    }

    /// Uses one dialect for all agent names.
    pub(crate) fn only(dialect: &'static dyn Dialect) -> Self {
        Self(BTreeMap::from([(String::new(), dialect)]))
    }

    fn tool_use(&self, agent: &str, call: &ToolCall) -> ToolUse {
        let found = self.0.get(agent).or_else(|| self.0.get(""));
        let unknown = || ToolUse::new(&call.name, ToolKind::Other);
        found.map_or_else(unknown, |dialect| dialect.tool_use(&call.name, &call.input))
    }
}

impl Default for Dialects {
    fn default() -> Self {
        Self::of(&Agents::builtin())
    }
}

/// The tool calls of a session.
pub(super) struct Tools {
    detail: Detail,
    dialects: Dialects,
    agent: String,
    /// The workspace, by each of its names.
    dirs: Vec<PathBuf>,
    /// True during a live session: files on disk are what the tools work on.
    is_live: bool,
    running: Vec<Running>,
    turn: Changed,
    session: Changed,
}

/// A call that has no result yet.
struct Running {
    call: ToolCall,
    wants: ToolUse,
    since: Timestamp,
    /// Text of the files that it may change, read before it ran.
    before: BTreeMap<String, String>,
}

/// A call that has ended; it may have begun before the recording.
struct EndedCall<'a> {
    running: Option<&'a Running>,
    result: &'a ToolResult,
    now: Timestamp,
}

impl Tools {
    pub(super) fn new(detail: Detail, dialects: Dialects, is_live: bool) -> Self {
        Self {
            detail,
            dialects,
            agent: String::new(),
            dirs: Vec::new(),
            is_live,
            running: Vec::new(),
            turn: Changed::default(),
            session: Changed::default(),
        }
    }

    /// Adds a name of the workspace.
    pub(super) fn work_in(&mut self, dir: &Path) {
        let real = dir.canonicalize().ok();
        let real = real.filter(|real| self.is_live && real != dir);
        let names = [dir.to_owned()].into_iter().chain(real);
        self.dirs.extend(names.filter(|dir| dir.is_absolute()));
    }

    /// Starts a session of this agent.
    pub(super) fn begin(&mut self, agent: &str) {
        agent.clone_into(&mut self.agent);
    }

    /// Starts a turn.
    pub(super) fn begin_turn(&mut self) {
        self.running.clear();
        self.turn = Changed::default();
    }

    /// Returns true if no call is running.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Summarizes the files that the turn changed.
    pub(super) fn changed_in_turn(&self) -> Option<String> {
        self.turn.brief()
    }

    /// Summarizes the files that the session changed.
    pub(super) fn changed(&self) -> Option<String> {
        self.session.brief()
    }

    /// Records a call and describes it for the status line.
    pub(super) fn called(&mut self, call: &ToolCall, at: Timestamp) -> String {
        let wants = self.dialects.tool_use(&self.agent, call);
        let looks = self.is_live && wants.kind == ToolKind::Edit;
        let files = wants.paths.iter().filter(|_| looks);
        let before = files
            .filter_map(|path| Some((path.clone(), self.text(path)?)))
            .collect();
        let doing = format!("{} {}", name(&call.name), self.subject(&call.input, &wants));
        self.running.push(Running {
            call: call.clone(),
            wants,
            since: at,
            before,
        });
        doing
    }

    /// Records a result and returns the lines to show.
    pub(super) fn ended(&mut self, result: &ToolResult, now: Timestamp) -> Vec<String> {
        let at = self
            .running
            .iter()
            .position(|running| running.call.id == result.id);
        let running = at.map(|at| self.running.remove(at));
        let changing = running.as_ref().filter(|_| result.ok);
        let diffs = changing.map_or_else(Vec::new, |it| self.diffs(it, result));
        for (path, diff) in &diffs {
            self.turn.add(path, diff);
            self.session.add(path, diff);
        }
        if self.detail == Detail::Nothing {
            return Vec::new();
        }
        let ended = EndedCall {
            running: running.as_ref(),
            result,
            now,
        };
        let mut lines = vec![self.head(&ended, &diffs)];
        lines.extend(self.diff_lines(&diffs));
        let is_command = running.is_some_and(|running| running.wants.kind == ToolKind::Execute);
        lines.extend(self.output_lines(result, is_command));
        lines
    }

    /// Formats the line of a call: result, subject and duration.
    fn head(&self, ended: &EndedCall<'_>, diffs: &[(String, Diff)]) -> String {
        let EndedCall {
            running,
            result,
            now,
        } = *ended;
        let tool = name(result.name.as_deref().unwrap_or("tool"));
        let subject = match (diffs, running) {
            ([(path, _)], _) => one_line(path, WIDTH),
            (_, Some(running)) => self.subject(&running.call.input, &running.wants),
            _ => String::new(),
        };
        let subject = if subject.is_empty() {
            subject
        } else {
            format!(" {subject}")
        };
        let counts = counts(&diffs.iter().map(|(_, diff)| diff).collect::<Vec<_>>());
        let took = running.map_or(Some(0), |running| now.since(running.since));
        let took = took
            .map(|took| format!(" {DIM}{}{DIM:#}", span_of(took)))
            .unwrap_or_default();
        let (mark, paint, how) = match (result.ok, result.denied) {
            (false, _) if result.output == AWAITING_APPROVAL => ("?", WARN, " waits for approval"),
            (true, _) => ("✓", GOOD, ""),
            (false, true) => ("✗", WARN, " denied"),
            (false, false) => ("✗", BAD, " failed"),
        };
        format!(
            "{paint}{mark}{paint:#} {TOOL}{tool}{TOOL:#}{subject}{counts}{took}{paint}{how}{paint:#}"
        )
    }

    fn diff_lines(&self, diffs: &[(String, Diff)]) -> Vec<String> {
        let width = if self.detail == Detail::Everything {
            WHOLE
        } else {
            WIDTH
        };
        let mut lines = Vec::new();
        for (path, diff) in diffs {
            if diffs.len() > 1 {
                lines.push(format!("  {}{}", one_line(path, WIDTH), counts(&[diff])));
            }
            lines.extend(diff.lines.iter().map(|line| match line {
                DiffLine::Same(text) => format!("  {DIM} {}{DIM:#}", code(text, width)),
                DiffLine::Removed(text) => format!("  {BAD}-{}{BAD:#}", code(text, width)),
                DiffLine::Added(text) => format!("  {GOOD}+{}{GOOD:#}", code(text, width)),
                DiffLine::Gap => format!("  {DIM}⋯{DIM:#}"),
            }));
        }
        let more = lines.len().saturating_sub(SHOWN);
        if more > 0 && self.detail != Detail::Everything {
            lines.truncate(SHOWN);
            lines.push(format!(
                "  {DIM}and {} more lines{}{DIM:#}",
                thousands(more as u64),
                self.how_to_see()
            ));
        }
        lines
    }

    /// Returns a note about the flag that shows everything, for verbs that have it.
    fn how_to_see(&self) -> &'static str {
        if self.is_live {
            " (-v to show all)"
        } else {
            ""
        }
    }

    /// Formats the part of a tool's output that is shown.
    fn output_lines(&self, result: &ToolResult, is_command: bool) -> Vec<String> {
        if result.output == AWAITING_APPROVAL {
            return Vec::new();
        }
        let output = result.output.trim_end();
        let lines: Vec<&str> = output.lines().collect();
        let shown = |line: &&str, width| format!("  {DIM}│ {}{DIM:#}", code(line, width));
        if self.detail == Detail::Everything {
            return lines.iter().map(|line| shown(line, WHOLE)).collect();
        }
        if result.ok {
            return Vec::new();
        }
        if !is_command || result.denied {
            let first = lines.iter().find(|line| !line.trim().is_empty());
            return first
                .map(|line| format!("  {DIM}{}{DIM:#}", one_line(line, WIDTH)))
                .into_iter()
                .collect();
        }
        let before = lines.len().saturating_sub(LAST);
        let cut = (before > 0).then(|| {
            format!(
                "  {DIM}⋯ {} more lines before{}{DIM:#}",
                thousands(before as u64),
                self.how_to_see()
            )
        });
        cut.into_iter()
            .chain(lines[before..].iter().map(|line| shown(line, WIDTH)))
            .collect()
    }

    /// Returns the diffs of the files that a call changed.
    fn diffs(&self, running: &Running, result: &ToolResult) -> Vec<(String, Diff)> {
        let changes = change::of_call(&running.wants, &running.call, result);
        if changes.is_empty() && running.wants.kind == ToolKind::Edit && self.is_live {
            let paths = running.wants.paths.iter();
            return paths
                .filter_map(|path| self.on_disk(running, path))
                .collect();
        }
        let mut diffs: Vec<(String, Diff)> = Vec::new();
        for change in &changes {
            let moved = change
                .moved_to
                .as_ref()
                .map(|to| format!(" → {}", self.relative(to)))
                .unwrap_or_default();
            let path = format!("{}{moved}", self.relative(&change.path));
            let before = running.before.get(&change.path).map(String::as_str);
            let is_silent = matches!(change.kind, ChangeKind::Create | ChangeKind::Edit);
            let is_read = is_silent && self.is_live;
            let after = is_read.then(|| self.text(&change.path)).flatten();
            let after = after.as_deref();
            let diff = Diff::of(change, Texts { before, after });
            match diffs.last_mut().filter(|(last, _)| *last == path) {
                Some((_, last)) => last.append(diff),
                None => diffs.push((path, diff)),
            }
        }
        diffs
    }

    /// Compares a file on disk with its text before the call; `None` if nothing changed.
    fn on_disk(&self, running: &Running, path: &str) -> Option<(String, Diff)> {
        let before = running.before.get(path).map_or("", String::as_str);
        let diff = Diff::between(before, &self.text(path).unwrap_or_default());
        (!diff.lines.is_empty()).then(|| (self.relative(path), diff))
    }

    /// Reads a small text file inside the workspace.
    fn text(&self, path: &str) -> Option<String> {
        let real = self.dirs.first()?.join(path).canonicalize().ok()?;
        let is_inside = self.dirs.iter().any(|dir| real.starts_with(dir));
        is_inside.then(|| files::text(&real).ok()?)?
    }

    /// Returns a path relative to the workspace.
    fn relative(&self, path: &str) -> String {
        let rest = self
            .dirs
            .iter()
            .find_map(|dir| Path::new(path).strip_prefix(dir).ok());
        match rest {
            Some(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Some(rest) => rest.display().to_string(),
            None => path.to_owned(),
        }
    }

    /// Describes the subject of a call on one line.
    fn subject(&self, input: &ostler::event::RawJson, wants: &ToolUse) -> String {
        match (wants.kind, &wants.paths[..]) {
            (ToolKind::Edit, [first, rest @ ..]) => {
                let more = if rest.is_empty() {
                    String::new()
                } else {
                    format!(" and {} more", rest.len())
                };
                one_line(&format!("{}{more}", self.relative(first)), WIDTH)
            }
            _ => brief(input.get(), |path| self.relative(path)),
        }
    }
}

/// Formats the number of added and removed lines; empty if unknown or zero.
fn counts(diffs: &[&Diff]) -> String {
    let (added, removed) = diffs
        .iter()
        .fold((0, 0), |(a, r), diff| (a + diff.added, r + diff.removed));
    let is_known = added + removed > 0 && diffs.iter().all(|diff| !diff.is_unknown);
    if is_known {
        format!(" {DIM}+{added} −{removed}{DIM:#}")
    } else {
        String::new()
    }
}

/// Sanitizes a line of code or output, expanding tabs.
fn code(line: &str, width: usize) -> String {
    one_line(&line.replace('\t', "    "), width)
}

/// Describes the subject of a tool call on one line, given its input as JSON.
pub(crate) fn tool_subject(input: &str) -> String {
    brief(input, str::to_owned)
}

/// Formats a tool's input on one line: its subject or first text value, with arguments for a
/// command; otherwise the JSON.
fn brief(input: &str, relative: impl Fn(&str) -> String) -> String {
    let Ok(map) = serde_json::from_str::<Map<String, Value>>(input) else {
        return one_line(input, 80);
    };
    if map.is_empty() {
        return String::new();
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let path = ["path", "file_path", "filePath"]
        .iter()
        .find_map(|key| text(key))
        .map(relative);
    let first = path.or_else(|| {
        let mut named = ["command", "cmd", "pattern"].iter();
        let named = named.find_map(|key| text(key));
        let first = named.or_else(|| map.values().find_map(Value::as_str));
        first.map(str::to_owned)
    });
    let Some(first) = first else {
        return one_line(input, 80);
    };
    let args = map.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = std::iter::once(&*first).chain(args).collect();
    one_line(&words.join(" "), 80)
}

#[cfg(test)]
mod tests {
    use ostler::event::RawJson;
    use serde_json::{Value, json};

    use super::*;

    fn tools(detail: Detail, dir: &Path) -> Tools {
        let mut tools = Tools::new(detail, Dialects::default(), true);
        tools.work_in(dir);
        tools
    }

    fn call(tool: &str, input: &Value) -> ToolCall {
        ToolCall {
            id: "1".into(),
            name: tool.into(),
            input: RawJson::of(input),
            parent: None,
        }
    }

    fn result(tool: &str, ok: bool, output: &str) -> ToolResult {
        let (id, name, output) = ("1".into(), Some(tool.into()), output.into());
        ToolResult {
            id,
            name,
            ok,
            output,
            denied: false,
            content: None,
        }
    }

    /// Renders one call of an agent; `meanwhile` runs between call and result.
    fn seen(agent: &str, dir: &Path, shown: &Shown<'_>, meanwhile: impl Fn()) -> String {
        let Shown {
            tool,
            input,
            ok,
            output,
        } = *shown;
        let mut tools = tools(Detail::Usual, dir);
        tools.begin(agent);
        tools.called(&call(tool, input), Timestamp(1));
        meanwhile();
        let lines = tools.ended(&result(tool, ok, output), Timestamp(6));
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    /// A call and its result.
    struct Shown<'a> {
        tool: &'a str,
        input: &'a Value,
        ok: bool,
        output: &'a str,
    }

    impl<'a> Shown<'a> {
        fn ok(tool: &'a str, input: &'a Value) -> Self {
            let (ok, output) = (true, "");
            Self {
                tool,
                input,
                ok,
                output,
            }
        }
    }

    #[test]
    fn edits_of_every_agent_are_diffs() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::write(dir.join("a.rs"), "one\ntwo\n").unwrap();
        let at = |name: &str| dir.join(name).display().to_string();
        let edited = "a.rs +1 −1 5ms\n   one\n  -two\n  +2";
        let new = "b.rs +1 −0 5ms\n  +new";
        let hunk = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
        let patch = "*** Begin Patch\n*** Add File: b.rs\n+new\n*** End Patch";
        let replace = |path: &str, old: &str, new: &str| json!({path: at("a.rs"), old: "one\ntwo\n", new: "one\n2\n"});
        let write = |path: &str, text: &str| json!({path: at("a.rs"), text: "one\n2\n"});
        let create = |path: &str, text: &str| json!({path: at("b.rs"), text: "new\n"});
        let table = [
            (
                "claude",
                "Edit",
                replace("file_path", "old_string", "new_string"),
                edited,
            ),
            ("claude", "Write", write("file_path", "content"), edited),
            ("claude", "Write", create("file_path", "content"), new),
            (
                "claude",
                "MultiEdit",
                json!({"file_path": at("a.rs"), "edits":
                [{"old_string": "one\ntwo\n", "new_string": "one\n2\n"}]}),
                edited,
            ),
            (
                "codex",
                "apply_patch",
                json!({"changes": [{"path": at("a.rs"), "kind": {"type": "update"}, "diff": hunk}]}),
                edited,
            ),
            (
                "codex",
                "apply_patch",
                json!({"changes": [{"path": at("b.rs"), "kind": {"type": "add"}, "diff": "new\n"}]}),
                new,
            ),
            (
                "copilot",
                "edit",
                replace("path", "old_str", "new_str"),
                edited,
            ),
            ("copilot", "create", create("path", "file_text"), new),
            ("copilot", "apply_patch", json!({"input": patch}), new),
            (
                "gemini",
                "replace",
                replace("file_path", "old_string", "new_string"),
                edited,
            ),
            (
                "gemini",
                "write_file",
                write("file_path", "content"),
                edited,
            ),
            (
                "qwen",
                "edit",
                replace("file_path", "old_string", "new_string"),
                edited,
            ),
            (
                "opencode",
                "edit",
                replace("filePath", "oldString", "newString"),
                edited,
            ),
            ("opencode", "write", create("filePath", "content"), new),
            ("opencode", "apply_patch", json!({"patchText": patch}), new),
            ("goose", "edit", replace("path", "before", "after"), edited),
            (
                "scripted",
                "edit_file",
                replace("path", "find", "replace"),
                edited,
            ),
            ("scripted", "create_file", create("path", "content"), new),
        ];
        for (agent, tool, input, want) in table {
            let found = seen(agent, &dir, &Shown::ok(tool, &input), || {});
            assert_eq!(found, format!("✓ {tool} {want}"), "{agent} {input}");
        }
    }

    // With unknown arguments, the file shows what changed.
    #[test]
    fn unknown_edits_are_read_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.txt");
        std::fs::write(&file, "one\n").unwrap();
        let input = json!({"path": "a.txt", "strange": true});
        let edit = Shown::ok("edit_file", &input);
        let found = seen("scripted", dir.path(), &edit, || {
            std::fs::write(&file, "one\ntwo\n").unwrap();
        });
        assert_eq!(found, "✓ edit_file a.txt +1 −0 5ms\n   one\n  +two");
        // Files outside the workspace are not read.
        let outside = json!({"file_path": "/etc/hostname", "content": "x\n"});
        let write = Shown::ok("Write", &outside);
        let found = seen("claude", dir.path(), &write, || {});
        assert_eq!(found, "✓ Write /etc/hostname +1 −0 5ms\n  +x");
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("link")).unwrap();
        for path in ["../../etc/hostname", "link"] {
            let input = json!({"file_path": path, "content": "x\n"});
            let found = seen("claude", dir.path(), &Shown::ok("Write", &input), || {});
            assert_eq!(found, format!("✓ Write {path} +1 −0 5ms\n  +x"));
        }
    }

    #[test]
    fn several_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let input = json!({"changes": [
            {"path": dir.path().join("a"), "kind": {"type": "add"}, "diff": "1\n"},
            {"path": dir.path().join("b"), "kind": {"type": "update", "move_path": dir.path().join("c")}, "diff": "@@ -1 +0,0 @@\n-2\n"},
        ]});
        let patch = Shown::ok("apply_patch", &input);
        let found = seen("codex", dir.path(), &patch, || {});
        let want = "✓ apply_patch a and 2 more +1 −1 5ms\n  a +1 −0\n  +1\n  b → c +0 −1\n  -2";
        assert_eq!(found, want);
    }

    #[test]
    fn failed_commands_show_their_last_output() {
        let dir = tempfile::tempdir().unwrap();
        let output: String = (1..=12).map(|n| format!("{n}\t.\n")).collect();
        let make = json!({"command": "make"});
        let bash = |ok| Shown {
            ok,
            output: &output,
            ..Shown::ok("Bash", &make)
        };
        let found = seen("claude", dir.path(), &bash(false), || {});
        let last: String = (3..=12).map(|n| format!("\n  │ {n}    .")).collect();
        assert_eq!(
            found,
            format!("✗ Bash make 5ms failed\n  ⋯ 2 more lines before (-v to show all){last}")
        );
        assert_eq!(
            seen("claude", dir.path(), &bash(true), || {}),
            "✓ Bash make 5ms"
        );
        // For other tools, the first line is shown.
        let input = json!({"file_path": "x"});
        let read = Shown {
            ok: false,
            output: "\nnot found\nmore",
            ..Shown::ok("Read", &input)
        };
        let found = seen("claude", dir.path(), &read, || {});
        assert_eq!(found, "✗ Read x 5ms failed\n  not found");
    }

    #[test]
    fn detail_controls_the_number_of_lines() {
        let dir = tempfile::tempdir().unwrap();
        let long: String = (1..=60).map(|n| format!("{n}\n")).collect();
        let write = call("Write", &json!({"file_path": "a", "content": long}));
        for (detail, lines) in [
            (Detail::Nothing, 0),
            (Detail::Usual, 1 + SHOWN + 1),
            (Detail::Everything, 1 + 60 + 2),
        ] {
            let mut tools = tools(detail, dir.path());
            tools.begin("claude");
            tools.called(&write, Timestamp(1));
            assert_eq!(
                tools
                    .ended(&result("Write", true, "Done.\nYes."), Timestamp(1))
                    .len(),
                lines,
                "{detail:?}"
            );
            assert_eq!(tools.changed_in_turn().unwrap(), "1 file +60 −0");
            tools.begin_turn();
            assert_eq!(
                (tools.changed_in_turn(), tools.changed().unwrap()),
                (None, "1 file +60 −0".to_owned())
            );
        }
    }

    // P19
    #[test]
    fn cutting_keeps_characters_whole() {
        let brief = |input: &str| brief(input, |path| path.trim_start_matches("/w/").to_owned());
        assert_eq!(
            brief(&format!("{{\"text\":\"{}\"}}", "é😀".repeat(60))),
            format!("{}…", "é😀".repeat(40))
        );
        assert_eq!(brief(r#"{"command":"ls\n-la","n":1}"#), "ls -la");
        assert_eq!(brief("[1,2]"), "[1,2]");
        assert_eq!(brief("{}"), "");
        assert_eq!(brief(r#"{"content":"long","path":"/w/a.txt"}"#), "a.txt");
        assert_eq!(
            brief(r#"{"args":["test","--quiet"],"command":"cargo"}"#),
            "cargo test --quiet"
        );
    }
}
