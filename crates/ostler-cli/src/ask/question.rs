//! What a question says: the tool, what it does, and what it would be given.

use ostler::event::Permission;
use serde_json::{Map, Value};

use crate::output::style::{BAD, DIM, GOOD, TOOL, WARN};
use crate::output::{Question, visible};

/// Where the answer goes.
pub(super) const PROMPT: &str =
    "  [y]es  [n]o  [a]lways this session (this tool with these arguments)  > ";

/// How many lines of a part are shown, and how long a line may be. What is left out is said.
#[derive(Clone, Copy)]
struct Room {
    lines: usize,
    width: usize,
}

/// The room of most parts.
const USUAL: Room = Room {
    lines: 20,
    width: 200,
};

/// The room of a command: what a person approves is what runs, so it is shown whole unless it is absurd.
const COMMAND: Room = Room {
    lines: 200,
    width: 4000,
};

/// Names of arguments that say what a tool is about.
const ABOUT: [&str; 7] = [
    "path",
    "file_path",
    "notebook_path",
    "directory",
    "url",
    "query",
    "pattern",
];

/// The question about a tool. So many more wait.
pub(super) fn about(permission: &Permission, more: usize) -> Question {
    let kind = permission.kind.map_or_else(String::new, |kind| {
        format!(" {DIM}({}){DIM:#}", kind.as_str())
    });
    let more = if more == 0 {
        String::new()
    } else {
        format!(" {DIM}· {more} more to come{DIM:#}")
    };
    let warn = WARN.bold();
    let (tool, left) = cut(&permission.tool);
    let mut lines = vec![format!(
        "{warn}?{warn:#} {TOOL}{tool}{TOOL:#}{left}{kind} may run?{more}"
    )];
    let input = permission
        .input
        .as_ref()
        .map(|input| input.get())
        .unwrap_or_default();
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
    Question {
        lines,
        prompt: PROMPT.to_owned(),
    }
}

fn arguments(map: &Map<String, Value>, lines: &mut Vec<String>) {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let mut rest = map.clone();
    if let Some(command) = text("command") {
        rest.remove("command");
        // Arguments that are no words are left to be shown as they are.
        let all = |args: &Vec<Value>| {
            args.iter()
                .map(|arg| arg.as_str().map(str::to_owned))
                .collect()
        };
        let args: Option<Vec<String>> = map.get("args").and_then(Value::as_array).and_then(all);
        let words = args
            .inspect(|_| drop(rest.remove("args")))
            .unwrap_or_default();
        let words = words.iter().map(|word| argument(word));
        let command = std::iter::once(command.to_owned())
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ");
        painted(&command, COMMAND, ("$ ", anstyle::Style::new()), lines);
    }
    for key in ABOUT {
        if let Some(value) = text(key) {
            // On one line: without a mark before it, a second one could pass for a line of ours.
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
            painted(value, USUAL, (mark, paint), lines);
            rest.remove(key);
        }
    }
    // Whatever else it would be given is shown too: nothing is allowed unseen.
    if !rest.is_empty() {
        let (text, left) = cut(&Value::Object(rest).to_string());
        lines.push(format!("  {DIM}{text}{left}{DIM:#}"));
    }
}

/// An argument that stays one when it is read: in quotes where it needs them, its line breaks spelled out.
fn argument(word: &str) -> String {
    let quoted =
        shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), std::borrow::Cow::into_owned);
    quoted.replace('\n', "\\n")
}

fn painted(text: &str, room: Room, (mark, paint): (&str, anstyle::Style), lines: &mut Vec<String>) {
    // Not `lines`, which takes a carriage return away.
    let all = text.strip_suffix('\n').unwrap_or(text).split('\n');
    for line in all.clone().take(room.lines) {
        let (line, left) = cut_to(line, room.width);
        lines.push(format!(
            "  {paint}{mark}{line}{paint:#}{WARN}{left}{WARN:#}"
        ));
    }
    match all.count().saturating_sub(room.lines) {
        0 => {}
        more => lines.push(format!(
            "  {WARN}and {more} more lines that are not shown{WARN:#}"
        )),
    }
}

/// A line that fits, with everything in it to be seen, and how much of it is missing.
fn cut(line: &str) -> (String, String) {
    cut_to(line, USUAL.width)
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
            input: Some(ostler::RawJson::parse(&input.to_string()).unwrap()),
            decision: Decision::Asked,
            by: DecidedBy::Default,
            message: None,
        };
        let text = about(&permission, 0).lines.join("\n");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_question_shows_everything_that_would_be_done() {
        let bash = serde_json::json!({"command": "rm -rf /\u{1b}[2K\nls", "timeout": 5});
        assert_eq!(
            shown("Bash", ToolKind::Execute, &bash),
            "? Bash (execute) may run?\n  $ rm -rf /\\x1b[2K\n  $ ls\n  {\"timeout\":5}"
        );
        let edit =
            serde_json::json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "2"});
        assert_eq!(
            shown("Edit", ToolKind::Edit, &edit),
            "? Edit (edit) may run?\n  a.rs\n  - one\n  - two\n  + 2"
        );
        let long = serde_json::json!({"command": "x".repeat(COMMAND.width + 3)});
        assert!(shown("Bash", ToolKind::Execute, &long).ends_with("… (3 more characters)"));
        let many = serde_json::json!({"command": "x\n".repeat(COMMAND.lines + 3)});
        assert!(
            shown("Bash", ToolKind::Execute, &many)
                .ends_with("and 3 more lines that are not shown")
        );
    }

    #[test]
    fn nothing_hides_in_a_question() {
        let write = serde_json::json!({"file_path": "a\u{202e}b", "content": "one\u{1b}]0;touch x\u{7}two\r\nthree", "x\u{200b}": 1});
        assert_eq!(
            shown("Wr\u{1b}]0;t\u{7}ite", ToolKind::Edit, &write),
            "? Wr\\x1b]0;t\\x07ite (edit) may run?\n  a\\u{202e}b\n  + one\\x1b]0;touch x\\x07two\\r\n  + three\n  {\"x\\u{200b}\":1}"
        );
        // An argument is one argument, and a path one path: neither makes a line that looks like ours.
        let run = serde_json::json!({"command": "echo", "args": ["a b", "c\n  [y]es", "d"]});
        assert_eq!(
            shown("Run", ToolKind::Execute, &run),
            "? Run (execute) may run?\n  $ echo 'a b' 'c\\n  [y]es' d"
        );
        let read = serde_json::json!({"path": "a\n? Read may run?\n  [y]es  [n]o"});
        assert_eq!(
            shown("Read", ToolKind::Read, &read),
            "? Read (read) may run?\n  a\\n? Read may run?\\n  [y]es  [n]o"
        );
        let run = serde_json::json!({"command": "env", "args": ["a", {"b": 1}]});
        assert_eq!(
            shown("Run", ToolKind::Execute, &run),
            "? Run (execute) may run?\n  $ env\n  {\"args\":[\"a\",{\"b\":1}]}"
        );
    }
}
