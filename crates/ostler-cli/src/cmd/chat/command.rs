//! Parsing of prompt input: a message, or a command that begins with a slash.

use ostler::config::nearest;

use crate::output::wrap_indented;

/// Commands: name, argument and description.
const COMMANDS: [(&str, &str, &str); 8] = [
    ("/help", "", "show this list"),
    (
        "/model",
        "NAME",
        "use another model from the next turn; without NAME, show the current one",
    ),
    ("/permissions", "MODE", "change the agent's permission mode"),
    (
        "/usage",
        "",
        "show tokens and cost of the last turn and of the session",
    ),
    ("/status", "", "show the agent, its session and its state"),
    (
        "/resume",
        "[ID]",
        "resume another session; without ID, list those of this directory",
    ),
    ("/quit", "", "quit (also /exit or Ctrl-D)"),
    ("/exit", "", ""),
];

/// Parsed input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    /// An empty line.
    Empty,
    Message(String),
    Help,
    Model(String),
    Permissions(String),
    Usage,
    Status,
    Resume(String),
    Quit,
    /// Invalid input, with an error message.
    Invalid(String),
}

/// Returns the names of the commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _, _)| *name)
}

/// Returns the list of commands, for a terminal of this width.
pub(super) fn help(width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, argument, about) in COMMANDS.iter().filter(|(_, _, about)| !about.is_empty()) {
        let command = format!("{name} {argument}");
        if width < NARROW {
            lines.push(format!("  {}", command.trim_end()));
            lines.extend(wrap_indented(about, 4, width));
        } else {
            let mut parts = wrap_indented(about, COLUMN, width).into_iter();
            lines.extend(
                parts
                    .next()
                    .map(|first| format!("  {command:<20} {}", first.trim_start())),
            );
            lines.extend(parts);
        }
    }
    lines.extend(
        NOTES
            .iter()
            .flat_map(|remark| wrap_indented(remark, 2, width)),
    );
    lines
}

/// Column of the descriptions in the list of commands.
const COLUMN: usize = 23;

/// Width below which a description gets its own line.
const NARROW: usize = 2 * COLUMN;

/// Notes below the list of commands.
const NOTES: [&str; 4] = [
    "To send a message that begins with a slash, type two: //",
    "Enter sends the message; Alt-Enter, or a backslash at the end of a line, starts a new line.",
    "Ctrl-C interrupts the turn; pressed twice, it quits.",
    "At a permission prompt: y allows once, a allows this tool with these arguments for the whole \
     session, n denies. Text after n is the reason.",
];

/// Parses a line.
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
        return format!("{name} takes no argument");
    }
    let all: Vec<&str> = names().collect();
    let begins = names().find(|known| name.len() > 1 && known.starts_with(name));
    match begins.or_else(|| nearest(name, &all).first().copied()) {
        Some(known) => format!(
            "unknown command {name}; did you mean {known}? To send it as a message, type /{name}"
        ),
        None => format!(
            "unknown command {name}; /help lists the commands. To send it as a message, type /{name}"
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
            wide[1].starts_with("  /model NAME          use another model"),
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
    fn lines_are_parsed_as_messages_or_commands() {
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
            ("/usage x", "takes no argument"),
        ] {
            let ChatInput::Invalid(why) = parse(line) else {
                panic!("{line}")
            };
            assert!(why.contains(want), "{why}");
        }
    }
}
