//! Commands as they are typed: split into words, and put together again.

use crate::args::{LoopArgs, LoopMode, ToolSet};
use crate::fault::Fault;

/// The words of a command. Quotes keep words together as in a shell; nothing else that a shell would do is done.
pub(super) fn split(command: &str) -> Result<Vec<String>, Fault> {
    let words = shlex::split(command).ok_or_else(|| {
        Fault::usage(format!("--until {command}: a quote is not closed, or a backslash has nothing behind it"))
    })?;
    if words.is_empty() {
        return Err(Fault::usage("--until: expected a command").hint("--until 'cargo test'"));
    }
    let is_of_a_shell = |word: &&String| ["&&", "||", "|", ";", ">", "<", ">>", "2>&1", "&"].contains(&&***word);
    if let Some(word) = words.iter().find(is_of_a_shell) {
        let hint = format!("have one read it: --until {}", quoted(&format!("sh -c {}", quoted(command))));
        return Err(Fault::usage(format!("--until: {word} is for a shell, and no shell reads the command")).hint(hint));
    }
    Ok(words)
}

/// What to type to go on with this loop, but for the session and the answer.
pub(super) fn again(args: &LoopArgs) -> String {
    let mut words = vec!["ostler loop".to_owned()];
    let mut add = |flag: &str, value: Option<&str>| {
        words.extend(value.map(|value| format!("{flag} {}", quoted(value))));
    };
    add("--model", args.model.as_deref());
    add("--until", args.until.as_deref());
    add("--dir", args.dir.as_deref().and_then(|dir| dir.to_str()));
    add("--tools", (args.tools == ToolSet::None).then_some("none"));
    add(
        "--mode",
        match args.mode {
            Some(LoopMode::Approve) => Some("approve"),
            Some(LoopMode::Plan) => Some("plan"),
            Some(LoopMode::Auto) | None => None,
        },
    );
    words.extend(args.ask.then(|| "--ask".to_owned()));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| "…".to_owned(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would_and_nothing_else_is_done() {
        let words = |text| split(text).unwrap();
        assert_eq!(words("cargo test"), ["cargo", "test"]);
        assert_eq!(
            words("grep -q 'two words' \"a b\" c\\ d $HOME *"),
            ["grep", "-q", "two words", "a b", "c d", "$HOME", "*"]
        );
        for wrong in ["", "  ", "echo 'x", "a && b", "a | b"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        // What a word holds is its own affair.
        assert_eq!(words("sh -c 'a && b'"), ["sh", "-c", "a && b"]);
        let hint = split("a && b").unwrap_err().outcome().hint.unwrap();
        let shell = hint.strip_prefix("have one read it: --until ").unwrap();
        assert_eq!(words(&words(shell)[0]), ["sh", "-c", "a && b"], "{hint}");
    }
}
