//! The command line that resumes a loop.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{CommandFactory, ValueEnum};

use crate::args::Cli;
use crate::commands::{ELLIPSIS, quoted};

/// Flags that belong to one task or call, or identify the session.
const NOT_REPEATED: [&str; 14] = [
    "text",
    "prompt",
    "prompt_file",
    "stdin",
    "output",
    "json",
    "resume",
    "continue_latest",
    "fork",
    "no_store",
    "raw_log",
    "verbose",
    "quiet",
    "notify",
];

/// Returns the command line that resumes this loop, without session and answer, from the words of
/// this call. It repeats the flags as they were given, above all those that keep the loop safe.
pub(super) fn resume_command(typed: impl IntoIterator<Item = OsString>) -> Option<String> {
    let command = Cli::command();
    let looping = command.find_subcommand("loop")?.clone();
    let matches = command.try_get_matches_from(typed).ok()?;
    let matches = matches.subcommand_matches("loop")?;
    let mut given: Vec<(usize, String)> = Vec::new();
    for arg in looping.get_arguments() {
        let (id, flag) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        if NOT_REPEATED.contains(&id) || !is_given {
            continue;
        }
        let places = matches.indices_of(id).into_iter().flatten();
        if arg.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            let values = values.map(|value| flagged(flag, value));
            given.extend(places.zip(values));
        } else {
            given.extend(places.map(|at| (at, format!("--{flag}"))));
        }
    }
    given.sort();
    let flags = given.iter().map(|(_, flag)| format!(" {flag}"));
    Some(format!("ostler loop{}", flags.collect::<String>()))
}

/// Maximum length of a value to repeat.
const MAX_SHOWN: usize = 200;

/// Formats a flag with its value, except the value of a variable, which may be a secret.
fn flagged(flag: &str, value: &OsStr) -> String {
    let value = value.to_str().unwrap_or(ELLIPSIS);
    let value = match value.split_once('=') {
        Some((name, _)) if flag == "env" => format!("{name}={ELLIPSIS}"),
        _ => value.to_owned(),
    };
    let is_shown = value.chars().count() <= MAX_SHOWN && !value.chars().any(char::is_control);
    // A value that begins with a dash would be parsed as a flag.
    let separator = if value.starts_with('-') { "=" } else { " " };
    if is_shown {
        format!("--{flag}{separator}{}", quoted(&value))
    } else {
        format!("--{flag} {ELLIPSIS}")
    }
}

/// Returns the name of a choice on the command line.
pub(super) fn choice_name(choice: impl ValueEnum + Copy) -> Option<String> {
    choice
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    fn shown(words: &[&str]) -> String {
        let words = ["ostler", "loop"].iter().chain(words);
        resume_command(words.map(OsString::from)).unwrap()
    }

    #[test]
    fn resume_command_repeats_all_flags() {
        let words = "--until 'cargo test' --until-timeout 1500ms --dir there --tools none --mode approve \
                     --instructions '@a role.md' --json-schema s.json --commands strict --permissions read-only --policy p.toml --timeout 90s \
                     --reply-timeout none --tool-timeout 60s --max-iterations 5 --max-tool-calls 6 --max-input-tokens 7 \
                     --max-output-tokens 8 --max-budget-usd 2.5 --max-errors 1 --context-window 9 --set price=1/2 --allow-command 'make check' --env HOME \
                     --trust-project --no-config --ask";
        let typed = shlex::split(words).unwrap();
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        let line = shown(&typed);
        // The line parses back to the same words.
        let read = shlex::split(&line).unwrap();
        assert_eq!(read[..2], ["ostler", "loop"]);
        assert_eq!(read[2..], typed, "{line}");
    }

    #[test]
    fn every_loop_flag_is_repeated_or_excluded() {
        let command = Cli::command();
        let looping = command.find_subcommand("loop").unwrap();
        for flag in looping
            .get_arguments()
            .filter(|flag| !NOT_REPEATED.contains(&flag.get_id().as_str()))
        {
            let name = format!("--{}", flag.get_long().unwrap());
            let value = flag
                .get_possible_values()
                .last()
                .map_or_else(|| "7".to_owned(), |value| value.get_name().to_owned());
            let typed = if flag.get_action().takes_values() {
                vec![&*name, &*value]
            } else {
                vec![&*name]
            };
            let needed: &[&str] = if name == "--until-timeout" {
                &["--until", "true"]
            } else {
                &[]
            };
            assert!(shown(&[needed, &typed].concat()).contains(&name), "{name}");
        }
    }

    #[test]
    fn secrets_and_long_values_are_not_repeated() {
        assert_eq!(
            shown(&["--env", "KEY=secret", "--env", "OTHER"]),
            "ostler loop --env 'KEY=…' --env OTHER"
        );
        let long = "x".repeat(300);
        assert_eq!(
            shown(&["--instructions", &long, "--append-system-prompt", "a\nb"])
                .matches('x')
                .count(),
            0
        );
        assert_eq!(
            shown(&["--instructions=--be kind"]),
            "ostler loop --instructions='--be kind'"
        );
    }

    #[test]
    fn commands_are_split_like_in_a_shell() {
        let split = |text| commands::split("--until", text);
        let words = |text| split(text).unwrap();
        assert_eq!(words("cargo test"), ["cargo", "test"]);
        assert_eq!(
            words("grep -q 'two words' \"a b\" c\\ d $HOME *"),
            ["grep", "-q", "two words", "a b", "c d", "$HOME", "*"]
        );
        for wrong in ["", "  ", "echo 'x", "a && b", "a | b"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        // Quoted shell syntax is fine.
        assert_eq!(words("sh -c 'a && b'"), ["sh", "-c", "a && b"]);
        let hint = split("a && b").unwrap_err().outcome().hint.unwrap();
        let shell = hint.strip_prefix("run it in a shell: --until ").unwrap();
        assert_eq!(words(&words(shell)[0]), ["sh", "-c", "a && b"], "{hint}");
    }
}
