//! Text of a permission prompt: the tool, its kind and all of its arguments.

use ostler::event::Permission;
use serde_json::{Map, Value};

use crate::output::style::{BAD, DIM, GOOD, TOOL, WARN};
use crate::output::{QuestionText, visible};

/// Prompt for the answer.
pub(super) const PROMPT: &str =
    "  [y]es  [n]o  [a]lways this session (this tool with these arguments)  > ";

/// Maximum number of lines of a part, and of characters in a line. The prompt says how much is cut
/// off.
#[derive(Clone, Copy)]
struct PartLimits {
    lines: usize,
    width: usize,
}

/// Limits of most parts.
const DEFAULT_LIMITS: PartLimits = PartLimits {
    lines: 20,
    width: 200,
};

/// Limits of a command. Users must see what they approve, so nearly all commands are shown in full.
const COMMAND_LIMITS: PartLimits = PartLimits {
    lines: 200,
    width: 4000,
};

/// Names of arguments that identify what a tool works on.
const SUBJECT_KEYS: [&str; 7] = [
    "path",
    "file_path",
    "notebook_path",
    "directory",
    "url",
    "query",
    "pattern",
];

/// Returns the prompt for a tool call; `more` is the number of further pending prompts.
pub(super) fn about(permission: &Permission, more: usize) -> QuestionText {
    let kind = permission.kind.map_or_else(String::new, |kind| {
        format!(" {DIM}({}){DIM:#}", kind.as_str())
    });
    let more = if more == 0 {
        String::new()
    } else {
        format!(" {DIM}· {more} more pending{DIM:#}")
    };
    let warn = WARN.bold();
    let (tool, left) = cut(&permission.tool);
    let mut lines = vec![format!(
        "{warn}?{warn:#} {TOOL}{tool}{TOOL:#}{left}{kind} wants to run{more}"
    )];
    let input = permission.input.as_ref().map_or("", |input| input.get());
    match serde_json::from_str::<Map<String, Value>>(input) {
        Ok(map) => arguments(&map, &mut lines),
        Err(_) if input.is_empty() => {}
        Err(_) => {
            let (input, left) = cut(input);
            lines.push(format!("  {input}{DIM}{left}{DIM:#}"));
        }
    }
    if let Some(why) = &permission.message {
        let (why, left) = cut(why);
        lines.push(format!("  {DIM}{why}{left}{DIM:#}"));
    }
    QuestionText {
        lines,
        prompt: PROMPT,
    }
}

fn arguments(map: &Map<String, Value>, lines: &mut Vec<String>) {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let mut rest = map.clone();
    if let Some(command) = text("command") {
        rest.remove("command");
        // Arguments that are not strings are shown as JSON below.
        let args = map.get("args").and_then(Value::as_array);
        let args: Option<Vec<&str>> =
            args.and_then(|args| args.iter().map(Value::as_str).collect());
        let args = args.inspect(|_| drop(rest.remove("args")));
        let words = args.iter().flatten().map(|word| argument(word));
        let words: Vec<String> = [command.to_owned()].into_iter().chain(words).collect();
        let command = words.join(" ");
        lines.extend(part(&command, COMMAND_LIMITS, "$ ", anstyle::Style::new()));
    }
    for key in SUBJECT_KEYS {
        if let Some(value) = text(key) {
            // On one line: a second line, without a mark before it, could pass for one of Ostler's.
            let (value, left) = cut(value);
            lines.push(format!("  {value}{DIM}{left}{DIM:#}"));
            rest.remove(key);
        }
    }
    for (key, mark, paint) in [
        ("old_string", "- ", BAD),
        ("new_string", "+ ", GOOD),
        ("content", "+ ", GOOD),
    ] {
        if let Some(value) = text(key) {
            lines.extend(part(value, DEFAULT_LIMITS, mark, paint));
            rest.remove(key);
        }
    }
    // All other arguments are shown too: nothing is approved unseen.
    if !rest.is_empty() {
        let (text, left) = cut(&Value::Object(rest).to_string());
        lines.push(format!("  {DIM}{text}{left}{DIM:#}"));
    }
}

/// Quotes an argument if needed, and escapes line breaks, so that it reads as one argument.
fn argument(word: &str) -> String {
    let quoted =
        shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), std::borrow::Cow::into_owned);
    quoted.replace('\n', "\\n")
}

/// Returns the lines of a text that fit, each with a mark, and a note about the rest.
fn part(text: &str, room: PartLimits, mark: &str, paint: anstyle::Style) -> Vec<String> {
    // Not `lines`, which strips carriage returns.
    let all = text.strip_suffix('\n').unwrap_or(text).split('\n');
    let shown = all.clone().take(room.lines).map(|line| {
        let (line, left) = cut_to(line, room.width);
        format!("  {paint}{mark}{line}{paint:#}{WARN}{left}{WARN:#}")
    });
    let more = all.clone().count().saturating_sub(room.lines);
    shown.chain(not_shown(more)).collect()
}

/// Returns a note about lines that are left out, if there are any.
pub(super) fn not_shown(more: usize) -> Option<String> {
    (more > 0).then(|| format!("  {WARN}({more} more lines not shown){WARN:#}"))
}

/// Cuts a line to the default width, with invisible characters escaped. Also returns a note about
/// the rest.
fn cut(line: &str) -> (String, String) {
    cut_to(line, DEFAULT_LIMITS.width)
}

fn cut_to(line: &str, width: usize) -> (String, String) {
    match visible(line, width) {
        (line, 0) => (line, String::new()),
        (line, left) => (format!("{line}…"), format!(" ({left} more characters)")),
    }
}

#[cfg(test)]
mod tests {
    use ostler::event::{DecidedBy, Decision};
    use ostler::permission::ToolKind;

    use super::*;

    fn shown(tool: &str, kind: ToolKind, input: &Value) -> String {
        let permission = Permission {
            id: "1".into(),
            tool: tool.into(),
            kind: Some(kind),
            input: Some(ostler::event::RawJson::parse(&input.to_string()).unwrap()),
            decision: Decision::Asked,
            by: DecidedBy::Default,
            message: None,
        };
        let text = about(&permission, 0).lines.join("\n");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn prompt_shows_all_arguments() {
        let bash = serde_json::json!({"command": "rm -rf /\u{1b}[2K\nls", "timeout": 5});
        assert_eq!(
            shown("Bash", ToolKind::Execute, &bash),
            "? Bash (execute) wants to run\n  $ rm -rf /\\x1b[2K\n  $ ls\n  {\"timeout\":5}"
        );
        let edit =
            serde_json::json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "2"});
        assert_eq!(
            shown("Edit", ToolKind::Edit, &edit),
            "? Edit (edit) wants to run\n  a.rs\n  - one\n  - two\n  + 2"
        );
        let long = serde_json::json!({"command": "x".repeat(COMMAND_LIMITS.width + 3)});
        assert!(shown("Bash", ToolKind::Execute, &long).ends_with("… (3 more characters)"));
        let many = serde_json::json!({"command": "x\n".repeat(COMMAND_LIMITS.lines + 3)});
        assert!(shown("Bash", ToolKind::Execute, &many).ends_with("(3 more lines not shown)"));
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let write = serde_json::json!({"file_path": "a\u{202e}b", "content": "one\u{1b}]0;touch x\u{7}two\r\nthree", "x\u{200b}": 1});
        assert_eq!(
            shown("Wr\u{1b}]0;t\u{7}ite", ToolKind::Edit, &write),
            "? Wr\\x1b]0;t\\x07ite (edit) wants to run\n  a\\u{202e}b\n  + one\\x1b]0;touch x\\x07two\\r\n  + three\n  {\"x\\u{200b}\":1}"
        );
        // Line breaks in arguments and paths are escaped: they cannot fake a line of the prompt.
        let run = serde_json::json!({"command": "echo", "args": ["a b", "c\n  [y]es", "d"]});
        assert_eq!(
            shown("Run", ToolKind::Execute, &run),
            "? Run (execute) wants to run\n  $ echo 'a b' 'c\\n  [y]es' d"
        );
        let read = serde_json::json!({"path": "a\n? Read wants to run\n  [y]es  [n]o"});
        assert_eq!(
            shown("Read", ToolKind::Read, &read),
            "? Read (read) wants to run\n  a\\n? Read wants to run\\n  [y]es  [n]o"
        );
        let run = serde_json::json!({"command": "env", "args": ["a", {"b": 1}]});
        assert_eq!(
            shown("Run", ToolKind::Execute, &run),
            "? Run (execute) wants to run\n  $ env\n  {\"args\":[\"a\",{\"b\":1}]}"
        );
    }
}
