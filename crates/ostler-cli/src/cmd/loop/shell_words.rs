//! Commands as they are typed: split into words, and put together again.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::args::{LoopArgs, LoopMode, Size, Time, ToolSet};
use crate::commands::{self, ELLIPSIS, quoted};
use crate::fault::Fault;

/// The words of the command that checks a loop's result.
pub(super) fn split(command: &str) -> Result<Vec<String>, Fault> {
    commands::split("--until", command)
}

/// What to type to go on with this loop, but for the session and the answer: what was typed, and above all what keeps it safe.
pub(super) fn resume_command(args: &LoopArgs) -> String {
    let LoopArgs {
        model,
        until,
        dir,
        mode,
        limits,
        policy,
        ..
    } = args;
    let path = |path: &Option<PathBuf>| {
        path.as_ref()
            .map(|path| path.to_str().unwrap_or(ELLIPSIS).to_owned())
    };
    let flags = [
        ("--model", model.clone()),
        ("--until", until.clone()),
        ("--until-timeout", span(args.until_timeout)),
        ("--dir", path(dir)),
        (
            "--tools",
            Some(args.tools)
                .filter(|tools| *tools != ToolSet::default())
                .and_then(word),
        ),
        (
            "--mode",
            mode.filter(|mode| *mode != LoopMode::Auto).and_then(word),
        ),
        ("--instructions", args.instructions.clone()),
        ("--append-system-prompt", args.append_system_prompt.clone()),
        ("--json-schema", args.json_schema.clone()),
        ("--commands", args.commands.commands.and_then(word)),
        ("--permissions", policy.permissions.and_then(word)),
        ("--policy", path(&policy.policy)),
        ("--timeout", span(limits.timeout)),
        ("--reply-timeout", span(limits.reply_timeout)),
        ("--tool-timeout", span(limits.tool_timeout)),
        ("--max-iterations", limits.max_iterations.clone()),
        ("--max-tool-calls", limits.max_tool_calls.clone()),
        ("--max-input-tokens", limits.max_input_tokens.clone()),
        ("--max-output-tokens", limits.max_output_tokens.clone()),
        ("--max-budget-usd", limits.max_budget_usd.clone()),
        ("--max-errors", limits.max_errors.clone()),
        ("--context-window", limits.context_window.clone()),
        ("--max-log-size", size(limits.sizes.max_log_size)),
        ("--max-raw-size", size(limits.sizes.max_raw_size)),
    ];
    let repeated = args.set.iter().map(|set| ("--set", set.clone()));
    let repeated = repeated.chain(
        args.commands
            .allow_command
            .iter()
            .map(|command| ("--allow-command", command.clone())),
    );
    let repeated = repeated.chain(args.env.iter().map(|env| ("--env", redacted(env))));
    let flags = flags
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?)))
        .chain(repeated);
    let switches = [
        ("--trust-project", policy.trust_project),
        ("--no-config", args.config.no_config),
        ("--ask", args.ask),
    ];
    let switches = switches
        .into_iter()
        .filter(|(_, on)| *on)
        .map(|(flag, _)| flag.to_owned());
    let words = flags
        .map(|(flag, value)| flagged(flag, &value))
        .chain(switches);
    std::iter::once("ostler loop".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// So much of what was typed is shown again.
const SHOWN: usize = 200;

/// A flag with its value.
fn flagged(flag: &str, value: &str) -> String {
    let is_shown = value.chars().count() <= SHOWN && !value.chars().any(char::is_control);
    // What begins with a dash would be taken for a flag.
    let between = if value.starts_with('-') { "=" } else { " " };
    if is_shown {
        format!("{flag}{between}{}", quoted(value))
    } else {
        format!("{flag} {ELLIPSIS}")
    }
}

/// A variable without its value, which may be a key.
fn redacted(variable: &str) -> String {
    variable.split_once('=').map_or_else(
        || variable.to_owned(),
        |(name, _)| format!("{name}={ELLIPSIS}"),
    )
}

/// A time as it can be typed.
fn span(time: Option<Time>) -> Option<String> {
    let Time(Some(time)) = time? else {
        return Some("none".to_owned());
    };
    Some(if time.subsec_nanos() == 0 {
        format!("{}s", time.as_secs())
    } else {
        format!("{}ms", time.as_millis().max(1))
    })
}

/// A size as it can be typed.
fn size(size: Option<Size>) -> Option<String> {
    size.map(|Size(limit)| limit.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string()))
}

/// A choice as it is typed.
fn word(choice: impl ValueEnum + Copy) -> Option<String> {
    choice
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Verb};

    fn shown(words: &[&str]) -> String {
        let Verb::Loop(args) = Cli::try_parse_from(["ostler", "loop"].iter().chain(words))
            .unwrap()
            .verb
        else {
            panic!("it is a loop")
        };
        resume_command(&args)
    }

    #[test]
    fn what_was_typed_is_typed_again() {
        let words = "--until 'cargo test' --until-timeout 1500ms --dir there --tools none --mode approve \
                     --instructions '@a role.md' --json-schema s.json --commands strict --permissions read-only --policy p.toml --timeout 90s \
                     --reply-timeout none --tool-timeout 60s --max-iterations 5 --max-tool-calls 6 --max-input-tokens 7 \
                     --max-output-tokens 8 --max-budget-usd 2.5 --max-errors 1 --context-window 9 --set price=1/2 --allow-command 'make check' --env HOME \
                     --trust-project --no-config --ask";
        let typed = shlex::split(words).unwrap();
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        let line = shown(&typed);
        // It is read as it was, whatever was typed.
        let read = shlex::split(&line).unwrap();
        assert_eq!(read[..2], ["ostler", "loop"]);
        assert_eq!(read[2..], typed, "{line}");
    }

    #[test]
    fn every_flag_of_a_loop_is_shown_again_or_has_a_reason_not_to_be() {
        // What belongs to one task or to one call, and what is shown with it: the session.
        let not_repeated = [
            "text",
            "prompt",
            "prompt_file",
            "stdin",
            "output",
            "json",
            "resume",
            "go_on",
            "fork",
            "no_store",
            "raw_log",
            "verbose",
            "quiet",
            "notify",
        ];
        let command = <Cli as clap::CommandFactory>::command();
        let looping = command.find_subcommand("loop").unwrap();
        for flag in looping
            .get_arguments()
            .filter(|flag| !not_repeated.contains(&flag.get_id().as_str()))
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
    fn what_may_be_a_key_or_is_long_is_not_shown() {
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
        let shell = hint.strip_prefix("run it in a shell: --until ").unwrap();
        assert_eq!(words(&words(shell)[0]), ["sh", "-c", "a && b"], "{hint}");
    }
}
