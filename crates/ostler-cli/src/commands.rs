//! Parsing of `--commands` and `--allow-command`.

use ostler::sandbox::{CommandChoice, CommandPreset};

use crate::args::{CommandArgs, Commands};
use crate::fault::Result;

/// Returns the commands that the flags allow.
pub(crate) fn choice(args: &CommandArgs) -> Result<CommandChoice> {
    let preset = args.commands.map(|commands| match commands {
        Commands::Strict => CommandPreset::Strict,
        Commands::Build => CommandPreset::Build,
        Commands::Any => CommandPreset::Any,
    });
    let allowed = args
        .allow_command
        .iter()
        .map(|command| split("--allow-command", command));
    Ok(CommandChoice {
        preset,
        allowed: allowed.collect::<Result<_, _>>()?,
    })
}

/// Splits the command given to a flag into words. Quotes work as in a shell; no other shell syntax
/// is interpreted.
pub(crate) fn split(flag: &str, command: &str) -> Result<Vec<String>> {
    let words = shlex::split(command)
        .ok_or_else(|| usage!("{flag} {command}: unclosed quote or trailing backslash"))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(
            usage!("{flag}: expected a command").hint(format!("for example: {flag} 'cargo test'"))
        );
    }
    if let Some(syntax) = shell_syntax(command) {
        let hint = format!(
            "run it in a shell: {flag} {}",
            quoted(&format!("sh -c {}", quoted(command)))
        );
        return Err(usage!(
            "{flag}: the command runs without a shell, but {syntax} is shell syntax"
        )
        .hint(hint));
    }
    Ok(words)
}

/// Returns the first shell operator, redirection or substitution outside quotes.
fn shell_syntax(command: &str) -> Option<char> {
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '\\') => drop(chars.next()),
            (None, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '`') => return Some(c),
            _ => {}
        }
    }
    None
}

/// Placeholder for text that is not shown.
pub(crate) const ELLIPSIS: &str = "…";

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| ELLIPSIS.to_owned(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        let args = CommandArgs {
            commands: Some(Commands::Any),
            allow_command: vec!["cargo test -p 'a b'".to_owned(), "./check.sh".to_owned()],
        };
        let read = choice(&args).unwrap();
        assert_eq!(read.preset, Some(CommandPreset::Any));
        assert_eq!(
            read.allowed,
            [vec!["cargo", "test", "-p", "a b"], vec!["./check.sh"]]
        );
        for wrong in [
            "", " ", "''", "a 'b", "a && b", "a; b", "a $(b)", "a `b`", "a>b", "a|b",
        ] {
            let args = CommandArgs {
                commands: None,
                allow_command: vec![wrong.to_owned()],
            };
            assert!(
                choice(&args)
                    .unwrap_err()
                    .outcome()
                    .message
                    .contains("--allow-command"),
                "{wrong}"
            );
        }
    }
}
