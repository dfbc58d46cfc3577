//! The command line that resumes a loop.

use std::path::PathBuf;

use clap::ValueEnum;

use ostler::config::SizeLimit;

use crate::args::{LoopArgs, LoopMode, Time, ToolSet, size_text};
use crate::commands::{ELLIPSIS, quoted};

/// Returns the command line that resumes this loop, without session and answer. It repeats the
/// flags, above all those that keep it safe.
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
    let tools = Some(args.tools).filter(|tools| *tools != ToolSet::default());
    let mode = mode.filter(|mode| *mode != LoopMode::Auto);
    let flags = [
        ("--model", model.clone()),
        ("--until", until.clone()),
        ("--until-timeout", span(args.until_timeout)),
        ("--dir", path(dir)),
        ("--tools", tools.and_then(choice_name)),
        ("--mode", mode.and_then(choice_name)),
        ("--instructions", args.instructions.clone()),
        ("--append-system-prompt", args.append_system_prompt.clone()),
        ("--json-schema", args.json_schema.clone()),
        ("--commands", args.commands.commands.and_then(choice_name)),
        ("--permissions", policy.permissions.and_then(choice_name)),
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
    let given = flags.into_iter();
    let mut flags: Vec<(&str, String)> = given
        .filter_map(|(flag, value)| Some((flag, value?)))
        .collect();
    flags.extend(args.set.iter().map(|set| ("--set", set.clone())));
    let allowed = args.commands.allow_command.iter();
    flags.extend(allowed.map(|command| ("--allow-command", command.clone())));
    flags.extend(args.env.iter().map(|env| ("--env", redacted(env))));
    let switches = [
        ("--trust-project", policy.trust_project),
        ("--no-config", args.config.no_config),
        ("--ask", args.ask),
    ];
    let switches = switches.into_iter().filter(|(_, on)| *on);
    let mut words = vec!["ostler loop".to_owned()];
    words.extend(flags.iter().map(|(flag, value)| flagged(flag, value)));
    words.extend(switches.map(|(flag, _)| flag.to_owned()));
    words.join(" ")
}

/// Maximum length of a value to repeat.
const MAX_SHOWN: usize = 200;

/// Formats a flag with its value.
fn flagged(flag: &str, value: &str) -> String {
    let is_shown = value.chars().count() <= MAX_SHOWN && !value.chars().any(char::is_control);
    // A value that begins with a dash would be parsed as a flag.
    let separator = if value.starts_with('-') { "=" } else { " " };
    if is_shown {
        format!("{flag}{separator}{}", quoted(value))
    } else {
        format!("{flag} {ELLIPSIS}")
    }
}

/// Replaces the value of a variable, which may be a secret.
fn redacted(variable: &str) -> String {
    variable.split_once('=').map_or_else(
        || variable.to_owned(),
        |(name, _)| format!("{name}={ELLIPSIS}"),
    )
}

fn span(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}

fn size(size: Option<SizeLimit>) -> Option<String> {
    size.map(size_text)
}

/// Returns the name of a choice on the command line.
pub(super) fn choice_name(choice: impl ValueEnum + Copy) -> Option<String> {
    choice
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Verb};
    use crate::commands;

    fn shown(words: &[&str]) -> String {
        let Verb::Loop(args) = Cli::try_parse_from(["ostler", "loop"].iter().chain(words))
            .unwrap()
            .verb
        else {
            panic!("expected `loop`")
        };
        resume_command(&args)
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
        // Flags that belong to one task or call, or identify the session.
        let not_repeated = [
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
