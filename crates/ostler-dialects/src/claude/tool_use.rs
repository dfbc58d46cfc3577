//! Classifies calls of Claude Code's tools for the permission policy.

use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;

use crate::lenient::{Scalar, Table};
use crate::surrogates;
use crate::tools::{self, ToolTable};

/// Tools by name, including those of earlier versions. Any other tool may do anything.
pub(super) const TOOLS: ToolTable = &[
    (
        ToolKind::Execute,
        &[
            "Bash",
            "PowerShell",
            "Monitor",
            "BashOutput",
            "KillShell",
            "KillBash",
        ],
    ),
    (ToolKind::Execute, SKILLS),
    (
        ToolKind::Read,
        &["Read", "Glob", "Grep", "LS", "LSP", "NotebookRead"],
    ),
    (
        ToolKind::Edit,
        &["Edit", "MultiEdit", "Write", "NotebookEdit"],
    ),
    (ToolKind::Network, &["WebFetch", "WebSearch"]),
    (
        ToolKind::Mcp,
        &["ListMcpResourcesTool", "ReadMcpResourceTool"],
    ),
    // These change nothing outside the agent and run nothing. The calls of a sub-agent are checked
    // one by one.
    (
        ToolKind::Read,
        &[
            "Task",
            "Agent",
            "ListAgents",
            "TaskOutput",
            "AgentOutputTool",
            "TaskStop",
            "ToolSearch",
        ],
    ),
    (
        ToolKind::Read,
        &[
            "TodoWrite",
            "TodoRead",
            "TaskCreate",
            "TaskGet",
            "TaskList",
            "TaskUpdate",
            "CronList",
        ],
    ),
    (
        ToolKind::Read,
        &[
            "EnterPlanMode",
            "ExitPlanMode",
            "AskUserQuestion",
            "StructuredOutput",
            "ReportFindings",
        ],
    ),
];

/// Tools that load a text. It can contain commands that run while it is loaded; no hook is called
/// for those, and they are not known here.
const SKILLS: &[&str] = &["Skill", "SlashCommand"];

/// Tools that search the working directory when no path is given.
const SEARCH_TOOLS: &[&str] = &["Glob", "Grep", "LS"];

/// Arguments that are paths.
const PATHS: &[&str] = &[
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "directory",
    "cwd",
];

/// Tools that start sub-agents, and the argument that gives one a separate worktree or machine.
const SUB_AGENTS: &[&str] = &["Task", "Agent"];
const ISOLATION: &str = "isolation";

/// Describes what a tool call would do.
///
/// Names from the server `ostler` stay qualified: it is not known here which of them are the
/// caller's, and another server may have the same name.
pub(super) fn tool_use(tool: &str, input: &RawJson) -> ToolUse {
    let kind = tools::kind(TOOLS, tool);
    let mut wants = ToolUse::new(tool, kind);
    let mut room = String::new();
    let given: Table<'_, Scalar<'_>> = surrogates::read(input.get(), &mut room);
    if SUB_AGENTS.contains(&tool) && given.has(ISOLATION) {
        return ToolUse::new(tool, ToolKind::Other);
    }
    match kind {
        ToolKind::Execute if !SKILLS.contains(&tool) => {
            wants.command = tools::shell(&given, &["command"]);
        }
        ToolKind::Read | ToolKind::Edit => {
            wants.paths = given.all(PATHS);
            if wants.paths.is_empty() && SEARCH_TOOLS.contains(&tool) {
                wants.paths.push(".".to_owned());
            }
            if tool == "Glob" {
                let patterns = given.all(&["pattern"]);
                wants.paths.extend(searched(&wants.paths, &patterns));
            }
        }
        _ => {}
    }
    wants
}

/// Returns the directories that the patterns lead to from the search directories.
fn searched(directories: &[String], patterns: &[String]) -> Vec<String> {
    // JSON parsers take either the first or the last value of a repeated key.
    let last = directories.last().filter(|_| directories.len() > 1);
    let bases: Vec<&String> = directories.first().into_iter().chain(last).collect();
    let led = patterns.iter().filter_map(|pattern| leads_to(pattern));
    let places = led.flat_map(|to| match to.starts_with(['/', '~']) {
        true => vec![to],
        false => bases
            .iter()
            .map(|base| format!("{}/{to}", base.trim_end_matches('/')))
            .collect(),
    });
    places.collect()
}

/// Returns the directory that a pattern names before its first wildcard, or `None` if it stays in
/// the search directory.
fn leads_to(pattern: &str) -> Option<String> {
    let stays = !pattern.contains('/') && !pattern.starts_with('~') && pattern != "..";
    let fixed = &pattern[..pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len())];
    let directory = fixed.rfind('/').map_or(fixed, |at| &fixed[..=at]);
    // `..` after a wildcard can lead anywhere.
    let tail = &pattern[fixed.len()..];
    let anywhere = tail.split('/').any(|part| part == "..");
    let to = if anywhere { "/" } else { directory };
    (!stays && (to.contains('/') || to.starts_with('~') || to == "..")).then(|| to.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing;

    #[test]
    fn every_path_and_command_is_extracted() {
        use ToolKind::{Edit, Execute, Mcp, Network, Other, Read};
        let table: &[testing::Row<'_>] = &[
            (
                "Bash",
                r#"{"command":"ls; rm x","description":"d"}"#,
                Execute,
                &[],
                Some("ls; rm x"),
            ),
            (
                "Bash",
                r#"{"command":"a","command":"b"}"#,
                Execute,
                &[],
                Some("a\nb"),
            ),
            (
                "Bash",
                r#"{"command":"echo \ud83d"}"#,
                Execute,
                &[],
                Some("echo \u{fffd}"),
            ),
            (
                "Monitor",
                r#"{"command":"tail -f x"}"#,
                Execute,
                &[],
                Some("tail -f x"),
            ),
            ("KillShell", r#"{"shell_id":"1"}"#, Execute, &[], None),
            ("Bash", "[]", Execute, &[], None),
            (
                "Read",
                r#"{"file_path":"/etc/passwd","limit":3}"#,
                Read,
                &["/etc/passwd"],
                None,
            ),
            (
                "Grep",
                r#"{"pattern":"/x/..","path":"src"}"#,
                Read,
                &["src"],
                None,
            ),
            ("Grep", r#"{"pattern":"x"}"#, Read, &["."], None),
            ("Glob", r#"{"pattern":"**/*.rs"}"#, Read, &["."], None),
            (
                "Glob",
                r#"{"pattern":"/etc/*.conf"}"#,
                Read,
                &[".", "/etc/"],
                None,
            ),
            (
                "Glob",
                r#"{"pattern":"../../x*","path":"src"}"#,
                Read,
                &["src", "src/../../"],
                None,
            ),
            (
                "Glob",
                r#"{"pattern":"keys/*","path":"/w/conf/"}"#,
                Read,
                &["/w/conf/", "/w/conf/keys/"],
                None,
            ),
            (
                "Glob",
                r#"{"pattern":"k/*","path":"a","path":"b"}"#,
                Read,
                &["a", "b", "a/k/", "b/k/"],
                None,
            ),
            (
                "Glob",
                r#"{"pattern":"..","path":"a"}"#,
                Read,
                &["a", "a/.."],
                None,
            ),
            ("Glob", r#"{"pattern":"~x*"}"#, Read, &[".", "~x"], None),
            (
                "LSP",
                r#"{"operation":"hover","filePath":"a.rs","line":1}"#,
                Read,
                &["a.rs"],
                None,
            ),
            (
                "Glob",
                r#"{"pattern":"*/../../../etc/*"}"#,
                Read,
                &[".", "/"],
                None,
            ),
            (
                "Write",
                r#"{"file_path":"a","file_path":"b","content":"c"}"#,
                Edit,
                &["a", "b"],
                None,
            ),
            (
                "NotebookEdit",
                r#"{"notebook_path":"n.ipynb","new_source":""}"#,
                Edit,
                &["n.ipynb"],
                None,
            ),
            ("WebFetch", r#"{"url":"http://x"}"#, Network, &[], None),
            ("mcp__files__write", r#"{"path":"/x"}"#, Mcp, &[], None),
            ("mcp__ostler__add", r#"{"path":"/x"}"#, Mcp, &[], None),
            ("add", r#"{"path":"/x"}"#, Other, &[], None),
            ("Task", r#"{"prompt":"p"}"#, Read, &[], None),
            (
                "Task",
                r#"{"prompt":"p","isolation":"worktree"}"#,
                Other,
                &[],
                None,
            ),
            ("Skill", r#"{"skill":"s","args":"x"}"#, Execute, &[], None),
            ("SlashCommand", r#"{"command":"/s x"}"#, Execute, &[], None),
            ("Workflow", r#"{"script":"x"}"#, Other, &[], None),
            ("RemoteTrigger", r#"{"action":"run"}"#, Other, &[], None),
            (
                "CronCreate",
                r#"{"cron":"* * * * *","prompt":"x"}"#,
                Other,
                &[],
                None,
            ),
            ("EnterWorktree", r#"{"path":"x"}"#, Other, &[], None),
            ("BrandNew", r#"{"command":"x"}"#, Other, &[], None),
        ];
        testing::check(table, tool_use);
        for (name, taken) in [
            ("Bash", true),
            ("Read", true),
            ("mcp__x__y", true),
            ("bash", false),
            ("add", false),
        ] {
            assert_eq!(tools::is_taken(TOOLS, name), taken, "{name}");
        }
    }
}
