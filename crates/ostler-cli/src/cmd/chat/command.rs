//! What is typed at the prompt: a message, or a command that begins with a slash.

use crate::output::wrap_lines;

/// A command, what follows it, and what it does.
const COMMANDS: [(&str, &str, &str); 8] = [
    ("/help", "", "this list"),
    (
        "/model",
        "NAME",
        "another model from the next turn on; alone: the one in use",
    ),
    (
        "/permissions",
        "MODE",
        "what the agent may do without asking, in its own words",
    ),
    (
        "/usage",
        "",
        "tokens and cost, of the last turn and of the session",
    ),
    ("/status", "", "the agent, its session and what it is doing"),
    (
        "/resume",
        "[ID]",
        "go on with another session; alone: those of this directory",
    ),
    ("/quit", "", "leave (also /exit, Ctrl-D)"),
    ("/exit", "", ""),
];

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    /// Nothing: the line is empty.
    Empty,
    Message(String),
    Help,
    Model(String),
    Permissions(String),
    Usage,
    Status,
    Resume(String),
    Quit,
    /// It cannot be done, and this is why.
    Invalid(String),
}

/// The names of the commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _, _)| *name)
}

/// The list of the commands, for a terminal of that width.
pub(super) fn help(width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, after, does) in COMMANDS.iter().filter(|(_, _, does)| !does.is_empty()) {
        let command = format!("{name} {after}");
        if width < NARROW {
            lines.push(format!("  {}", command.trim_end()));
            lines.extend(wrapped(does, 4, width));
        } else {
            let mut parts = wrapped(does, COLUMN, width).into_iter();
            lines.extend(
                parts
                    .next()
                    .map(|first| format!("  {command:<20} {}", first.trim_start())),
            );
            lines.extend(parts);
        }
    }
    lines.extend(NOTES.iter().flat_map(|remark| wrapped(remark, 2, width)));
    lines
}

/// The column at which the list of commands says what each does.
const COLUMN: usize = 23;

/// The width below which that stands on a line of its own.
const NARROW: usize = 2 * COLUMN;

/// What else is good to know, below the list of commands.
const NOTES: [&str; 4] = [
    "A message that begins with // is sent with one slash.",
    "Enter sends; a backslash at the end of a line, or Alt-Enter, begins another line.",
    "Ctrl-C interrupts the turn; twice, it leaves.",
    "At a question: y allows it once; a always, for this tool with these arguments and this session; \
     n denies it, and what follows the n is the reason.",
];

/// Breaks a text into indented lines that end before the edge.
fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let lines = wrap_lines(text, width.saturating_sub(indent), 0);
    lines
        .into_iter()
        .map(|line| format!("{:indent$}{line}", ""))
        .collect()
}

/// Reads a line.
pub(super) fn parse(line: &str) -> ChatInput {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return ChatInput::Empty;
    }
    if let Some(message) = trimmed.strip_prefix("//") {
        return ChatInput::Message(format!("/{message}"));
    }
    if !trimmed.starts_with('/') {
        return ChatInput::Message(trimmed.to_owned());
    }
    let (name, rest) = trimmed
        .split_once(char::is_whitespace)
        .unwrap_or((trimmed, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("/help", "") => ChatInput::Help,
        ("/model", _) => ChatInput::Model(rest.to_owned()),
        ("/permissions", _) => ChatInput::Permissions(rest.to_owned()),
        ("/usage", "") => ChatInput::Usage,
        ("/status", "") => ChatInput::Status,
        ("/resume", _) => ChatInput::Resume(rest.to_owned()),
        ("/quit" | "/exit", "") => ChatInput::Quit,
        _ => ChatInput::Invalid(unknown_command(name)),
    }
}

fn unknown_command(name: &str) -> String {
    if names().any(|known| known == name) {
        return format!("{name} takes nothing behind it");
    }
    let near = names()
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min();
    let begins = names().find(|known| name.len() > 1 && known.starts_with(name));
    match begins.or_else(|| near.filter(|(far, _)| *far <= 2).map(|(_, known)| known)) {
        Some(known) => format!(
            "there is no {name}; did you mean {known}? // sends a message that begins with a slash"
        ),
        None => format!(
            "there is no {name}; /help lists what there is, // sends a message that begins with a slash"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // On a narrow terminal, words were cut in two at its edge.
    #[test]
    fn help_wraps_between_words() {
        let words = |lines: &[String]| {
            lines
                .join(" ")
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let wide = help(200);
        assert!(
            wide[1].starts_with("  /model NAME          another model"),
            "{wide:#?}"
        );
        for width in [24, 40, 60, 80, 110] {
            let lines = help(width);
            let long: Vec<_> = lines.iter().filter(|line| line.len() > width).collect();
            assert!(long.is_empty(), "{width}: {long:#?}");
            assert!(
                lines
                    .iter()
                    .all(|line| line.starts_with("  ") && !line.ends_with(' ')),
                "{lines:#?}"
            );
            assert_eq!(words(&lines), words(&wide), "{width}");
        }
    }

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(parse("  "), ChatInput::Empty);
        assert_eq!(parse(" hi /help "), ChatInput::Message("hi /help".into()));
        assert_eq!(
            parse("//etc is a place"),
            ChatInput::Message("/etc is a place".into())
        );
        assert_eq!(parse("/model  opus"), ChatInput::Model("opus".into()));
        assert_eq!(parse("/exit"), ChatInput::Quit);
        for (line, want) in [
            ("/modle x", "did you mean /model?"),
            ("/mod", "/model?"),
            ("/etc", "/help lists"),
            ("/usage x", "takes nothing"),
        ] {
            let ChatInput::Invalid(why) = parse(line) else {
                panic!("{line}")
            };
            assert!(why.contains(want), "{why}");
        }
    }
}
