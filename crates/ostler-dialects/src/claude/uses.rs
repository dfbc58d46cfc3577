//! What a call of one of Claude Code's tools would do, for rules to decide on.

use ostler_core::permission::{Command, ToolKind, ToolUse};
use ostler_core::raw::Raw;

use super::mcp;
use crate::lenient::{Scalar, Table};
use crate::surrogates;

/// The tools by their names, those of earlier versions too. Whatever is not here may do anything.
const TOOLS: &[(ToolKind, &[&str])] = &[
    (ToolKind::Execute, &["Bash", "PowerShell", "Monitor", "BashOutput", "KillShell", "KillBash"]),
    (ToolKind::Read, &["Read", "Glob", "Grep", "LS", "LSP", "NotebookRead"]),
    (ToolKind::Edit, &["Edit", "MultiEdit", "Write", "NotebookEdit"]),
    (ToolKind::Network, &["WebFetch", "WebSearch"]),
    (ToolKind::Mcp, &["ListMcpResourcesTool", "ReadMcpResourceTool"]),
    // These change nothing outside of the agent. What a sub-agent does is asked call by call.
    (
        ToolKind::Read,
        &["Task", "Agent", "ListAgents", "TaskOutput", "AgentOutputTool", "TaskStop", "ToolSearch", "Skill"],
    ),
    (ToolKind::Read, &["TodoWrite", "TodoRead", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "CronList"]),
    (ToolKind::Read, &["EnterPlanMode", "ExitPlanMode", "AskUserQuestion", "StructuredOutput", "ReportFindings"]),
];

/// Tools that look around in the working directory when no path is given.
const LOOK_AROUND: &[&str] = &["Glob", "Grep", "LS"];

/// The arguments that are paths.
const PATHS: &[&str] = &["file_path", "notebook_path", "path"];

/// What a call of a tool would do.
pub(super) fn tool_use(tool: &str, input: &Raw) -> ToolUse {
    if let Some(own) = tool.strip_prefix(mcp::PREFIX) {
        return ToolUse::of(own, ToolKind::Other); // the caller's, who alone knows
    }
    let known = TOOLS.iter().find(|(_, names)| names.contains(&tool)).map(|(kind, _)| *kind);
    let kind = known.unwrap_or(if tool.starts_with("mcp__") { ToolKind::Mcp } else { ToolKind::Other });
    let mut wants = ToolUse::of(tool, kind);
    let mended;
    let table: Table<'_, Scalar<'_>> = match serde_json::from_str(input.get()) {
        Ok(table) => table,
        Err(_) => {
            mended = surrogates::mend(input.get());
            serde_json::from_str(&mended).unwrap_or_default()
        }
    };
    // Every value of a key that is there twice: no rule should overlook one.
    let fields = table.0.unwrap_or_default();
    let all = |keys: &[&str]| -> Vec<String> {
        let wanted = fields.iter().filter(|(key, _)| keys.contains(&&**key));
        wanted.filter_map(|(_, value)| value.owned()).collect()
    };
    match kind {
        ToolKind::Execute => {
            let lines = all(&["command"]);
            wants.command = (!lines.is_empty()).then(|| Command::Shell(lines.join("\n")));
        }
        ToolKind::Read | ToolKind::Edit => {
            wants.paths = all(PATHS);
            if wants.paths.is_empty() && LOOK_AROUND.contains(&tool) {
                wants.paths.push(".".to_owned());
            }
            if tool == "Glob" {
                wants.paths.extend(all(&["pattern"]).iter().filter_map(|pattern| leads_to(pattern)));
            }
        }
        _ => {}
    }
    wants
}

/// Where a pattern leads that does not stay below the directory in which it is looked for.
fn leads_to(pattern: &str) -> Option<String> {
    let stays = !pattern.starts_with(['/', '~']) && !pattern.split('/').any(|part| part == "..");
    let fixed = &pattern[..pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len())];
    let directory = fixed.rfind('/').map_or(fixed, |at| &fixed[..=at]);
    // Dots behind a wildcard lead anywhere.
    let tail = &pattern[fixed.len()..];
    let anywhere = tail.split('/').any(|part| part == "..");
    (!stays).then(|| if anywhere { "/".to_owned() } else { directory.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_every_command_is_there() {
        use ToolKind::{Edit, Execute, Mcp, Network, Other, Read};
        type Row = (&'static str, &'static str, ToolKind, &'static [&'static str], Option<&'static str>);
        let table: &[Row] = &[
            ("Bash", r#"{"command":"ls; rm x","description":"d"}"#, Execute, &[], Some("ls; rm x")),
            ("Bash", r#"{"command":"a","command":"b"}"#, Execute, &[], Some("a\nb")),
            ("Bash", r#"{"command":"echo \ud83d"}"#, Execute, &[], Some("echo \u{fffd}")),
            ("Monitor", r#"{"command":"tail -f x"}"#, Execute, &[], Some("tail -f x")),
            ("KillShell", r#"{"shell_id":"1"}"#, Execute, &[], None),
            ("Bash", "[]", Execute, &[], None),
            ("Read", r#"{"file_path":"/etc/passwd","limit":3}"#, Read, &["/etc/passwd"], None),
            ("Grep", r#"{"pattern":"/x/..","path":"src"}"#, Read, &["src"], None),
            ("Grep", r#"{"pattern":"x"}"#, Read, &["."], None),
            ("Glob", r#"{"pattern":"**/*.rs"}"#, Read, &["."], None),
            ("Glob", r#"{"pattern":"/etc/*.conf"}"#, Read, &[".", "/etc/"], None),
            ("Glob", r#"{"pattern":"../../x*","path":"src"}"#, Read, &["src", "../../"], None),
            ("Glob", r#"{"pattern":"*/../../../etc/*"}"#, Read, &[".", "/"], None),
            ("Write", r#"{"file_path":"a","file_path":"b","content":"c"}"#, Edit, &["a", "b"], None),
            ("NotebookEdit", r#"{"notebook_path":"n.ipynb","new_source":""}"#, Edit, &["n.ipynb"], None),
            ("WebFetch", r#"{"url":"http://x"}"#, Network, &[], None),
            ("mcp__files__write", r#"{"path":"/x"}"#, Mcp, &[], None),
            ("Task", r#"{"prompt":"p"}"#, Read, &[], None),
            ("EnterWorktree", r#"{"path":"x"}"#, Other, &[], None),
            ("BrandNew", r#"{"command":"x"}"#, Other, &[], None),
        ];
        for (tool, input, kind, paths, command) in table {
            let found = tool_use(tool, &Raw::parse(input).unwrap());
            assert_eq!((found.tool.as_str(), found.kind), (*tool, *kind), "{input}");
            assert_eq!(found.paths, *paths, "{tool} {input}");
            assert_eq!(found.command, command.map(|line| Command::Shell(line.to_owned())), "{tool} {input}");
        }
        assert_eq!(tool_use("mcp__ostler__add", &Raw::null()), ToolUse::of("add", Other), "the caller's own name");
    }
}
