//! What is typed at the prompt: a message, or a command that begins with a slash.

/// A command, what follows it, and what it does.
const COMMANDS: [(&str, &str, &str); 8] = [
    ("/help", "", "this list"),
    ("/model", "NAME", "another model from the next turn on; alone: the one in use"),
    ("/permissions", "MODE", "what the agent may do without asking, in its own words"),
    ("/usage", "", "tokens and cost, of the last turn and of the session"),
    ("/status", "", "the agent, its session and what it is doing"),
    ("/resume", "[ID]", "go on with another session; alone: those of this directory"),
    ("/quit", "", "leave (also /exit, Ctrl-D)"),
    ("/exit", "", ""),
];

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing: the line is empty.
    Nothing,
    Say(String),
    Help,
    Model(String),
    Permissions(String),
    Usage,
    Status,
    Resume(String),
    Quit,
    /// It cannot be done, and this is why.
    Wrong(String),
}

/// The names of the commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _, _)| *name)
}

/// The list of the commands.
pub(super) fn help() -> Vec<String> {
    let told = COMMANDS.iter().filter(|(_, _, does)| !does.is_empty());
    let mut lines: Vec<String> =
        told.map(|(name, after, does)| format!("  {:<20} {does}", format!("{name} {after}"))).collect();
    lines.push("  A message that begins with // is sent with one slash.".into());
    lines.push("  Enter sends; a backslash at the end of a line, or Alt-Enter, begins another line.".into());
    lines.push("  Ctrl-C interrupts the turn; twice, it leaves.".into());
    lines.push(
        "  At a question: y allows it once; a always, for this tool with these arguments and this session;".into(),
    );
    lines.push("  n denies it, and what follows the n is the reason.".into());
    lines
}

/// Reads a line.
pub(super) fn read(line: &str) -> Wish {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return Wish::Nothing;
    }
    if let Some(message) = trimmed.strip_prefix("//") {
        return Wish::Say(format!("/{message}"));
    }
    if !trimmed.starts_with('/') {
        return Wish::Say(trimmed.to_owned());
    }
    let (name, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("/help", "") => Wish::Help,
        ("/model", _) => Wish::Model(rest.to_owned()),
        ("/permissions", _) => Wish::Permissions(rest.to_owned()),
        ("/usage", "") => Wish::Usage,
        ("/status", "") => Wish::Status,
        ("/resume", _) => Wish::Resume(rest.to_owned()),
        ("/quit" | "/exit", "") => Wish::Quit,
        _ => Wish::Wrong(wrong(name)),
    }
}

fn wrong(name: &str) -> String {
    if names().any(|known| known == name) {
        return format!("{name} takes nothing behind it");
    }
    let near = names().map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
    let begins = names().find(|known| name.len() > 1 && known.starts_with(name));
    match begins.or_else(|| near.filter(|(far, _)| *far <= 2).map(|(_, known)| known)) {
        Some(known) => format!("there is no {name}; did you mean {known}? // sends a message that begins with a slash"),
        None => format!("there is no {name}; /help lists what there is, // sends a message that begins with a slash"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(read("  "), Wish::Nothing);
        assert_eq!(read(" hi /help "), Wish::Say("hi /help".into()));
        assert_eq!(read("//etc is a place"), Wish::Say("/etc is a place".into()));
        assert_eq!(read("/model  opus"), Wish::Model("opus".into()));
        assert_eq!(read("/exit"), Wish::Quit);
        for (line, want) in [
            ("/modle x", "did you mean /model?"),
            ("/mod", "/model?"),
            ("/etc", "/help lists"),
            ("/usage x", "takes nothing"),
        ] {
            let Wish::Wrong(why) = read(line) else { panic!("{line}") };
            assert!(why.contains(want), "{why}");
        }
    }
}
