//! Help texts: each flag under its heading, wrapped once, at the terminal's width.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use crate::rig::{Rig, finish};

/// Every verb that has a help text.
const VERBS: &[&[&str]] = &[
    &[],
    &["run"],
    &["loop"],
    &["chat"],
    &["acp"],
    &["serve"],
    &["attach"],
    &["send"],
    &["interrupt"],
    &["open"],
    &["stop"],
    &["pause"],
    &["resume"],
    &["restart"],
    &["fork"],
    &["approvals"],
    &["approvals", "answer"],
    &["eval"],
    &["eval", "run"],
    &["eval", "list"],
    &["eval", "report"],
    &["eval", "compare"],
    &["eval", "regrade"],
    &["eval", "validate"],
    &["eval", "gate"],
    &["worker"],
    &["fleet"],
    &["fleet", "init"],
    &["fleet", "add-worker"],
    &["fleet", "remove-worker"],
    &["fleet", "prepare"],
    &["fleet", "status"],
    &["fleet", "up"],
    &["doctor"],
    &["replay"],
    &["sessions"],
    &["sessions", "list"],
    &["sessions", "show"],
    &["sessions", "prune"],
    &["sandbox"],
    &["sandbox", "check"],
    &["policy"],
    &["policy", "show"],
    &["policy", "test"],
    &["config"],
    &["config", "show"],
    &["config", "path"],
    &["config", "example"],
    &["trust"],
    &["schema"],
    &["completions"],
    &["man"],
    &["version"],
];

fn help(verb: &[&str], columns: usize) -> String {
    let rig = Rig::new();
    let done = finish(
        rig.ostler(verb)
            .arg("--help")
            .env("COLUMNS", columns.to_string()),
    );
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{verb:?}");
    done.stdout
}

#[test]
fn help_fits_the_terminal() {
    for verb in VERBS {
        for columns in [80, 100] {
            let text = help(verb, columns);
            // Clap does not wrap the usage line.
            let lines = text.lines().filter(|line| !line.starts_with("Usage:"));
            let long: Vec<&str> = lines
                .filter(|line| line.trim_end().chars().count() > columns)
                .collect();
            assert!(long.is_empty(), "{verb:?} at {columns}: {long:#?}");
        }
    }
}

/// A short line followed by a continuation was wrapped twice.
#[test]
fn help_is_wrapped_once() {
    for verb in VERBS {
        for columns in [80, 100] {
            let text = help(verb, columns);
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let [line, next] = pair else { continue };
                let is_prose =
                    |line: &str| !line.starts_with(' ') && !line.is_empty() && !line.ends_with(':');
                let Some(word) = next.split_whitespace().next() else {
                    continue;
                };
                let has_room =
                    line.trim_end().chars().count() + 1 + word.chars().count() <= columns;
                assert!(
                    !(is_prose(line) && is_prose(next) && has_room),
                    "{verb:?} at {columns}: {line:?} and {next:?}"
                );
            }
        }
    }
}

/// Returns the flags under each heading.
fn headings(verb: &[&str]) -> String {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in help(verb, 100).lines() {
        let flag = line.trim_start();
        if let Some(heading) = line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            found.push((heading.to_owned(), Vec::new()));
        } else if line.starts_with("  ")
            && !line.starts_with("          ")
            && flag.starts_with(['-', '[', '<'])
            && let Some((_, flags)) = found.last_mut()
        {
            let long = flag
                .split_whitespace()
                .find(|word| word.starts_with("--"))
                .unwrap_or(flag);
            flags.push(long.trim_end_matches(',').to_owned());
        }
    }
    let lines = found.iter().filter(|(_, flags)| !flags.is_empty());
    lines
        .map(|(heading, flags)| format!("{heading}: {}\n", flags.join(" ")))
        .collect()
}

#[test]
fn each_flag_is_under_its_heading() {
    assert_snapshot!(headings(&["run"]), @r"
    Arguments: [PROMPT] [ARGS]...
    Options: --prompt --prompt-file --stdin --output --verbose --quiet --notify[=<HOW>] --json --detach --daemon --no-daemon --attended --name --fleet --needs-label --agent --dir --no-config --help --version
    Agent settings: --model --system-prompt --append-system-prompt --permission-mode --tools --allowed-tools --disallowed-tools --workspace-tools --mcp-config --strict-mcp --json-schema --set --env --program
    Permissions: --tolerate-denials --permissions --policy --trust-project --sandbox
    Session: --resume --session-id --fork --continue --no-store --label --raw-log
    Limits: --timeout --idle-timeout --startup-timeout --max-turns --max-budget-usd --max-tokens --max-messages --max-time --max-log-size --max-raw-size
    Commands (for agents that use Ostler's tools: openai-api, scripted, loop): --commands --allow-command
    Log: --log --log-file
    ");
    assert_snapshot!(headings(&["loop"]), @r"
    Arguments: [PROMPT]
    Options: --prompt --prompt-file --stdin --output --verbose --quiet --notify[=<HOW>] --json --model --tools --until --until-timeout --mode --ask --instructions --append-system-prompt --json-schema --set --env --dir --no-config --help --version
    Session: --resume --continue --fork --no-store --raw-log
    Limits: --timeout --reply-timeout --tool-timeout --max-iterations --max-tool-calls --max-input-tokens --max-output-tokens --max-budget-usd --max-errors --context-window --max-log-size --max-raw-size
    Permissions: --permissions --policy --trust-project
    Commands (for agents that use Ostler's tools: openai-api, scripted, loop): --commands --allow-command
    Log: --log --log-file
    ");
    let run = headings(&["run"]);
    let chat = headings(&["chat"]);
    let by_heading = |text: &str| -> BTreeMap<String, String> {
        text.lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    };
    let (run, chat) = (by_heading(&run), by_heading(&chat));
    for heading in run
        .keys()
        .filter(|heading| !["Arguments", "Options"].contains(&heading.as_str()))
    {
        assert_eq!(run[heading], chat[heading], "{heading}");
    }
}

#[test]
fn help_of_a_small_verb() {
    assert_snapshot!(help(&["doctor"], 80), @r"
    Show which agents are installed and ready to use

    Usage: ostler doctor [OPTIONS] [AGENT]

    Arguments:
      [AGENT]  Show details about this agent only

    Options:
          --json                    Print JSON
          --conformance <AGENT>     Test an installed agent against a local scripted
                                    model: no account, network or cost
          --workspace-tools <NAME>  Also check for the program that `ostler run
                                    --workspace-tools` needs [possible values:
                                    file-tools]
          --no-config               Ignore all ostler.toml files; see
                                    docs/configuration.md
      -h, --help                    Print help
      -V, --version                 Print version

    Log:
          --log <LEVEL>      Log to stderr, from a level on: error, warn, info,
                             debug, trace; see docs/debugging.md
          --log-file <FILE>  Append the log to a file instead; the default level is
                             debug

    States:
      ready            installed and logged in
      needs login      installed, but not logged in
      unknown login    installed; checking the login would need a model call
      broken, too old  installed, but not usable

    Examples:
      ostler doctor
      ostler doctor claude
      ostler doctor --json
      ostler doctor --conformance codex

    Exit codes: 0 an agent is usable (with AGENT: that agent), 3 none is.
    ");
}
