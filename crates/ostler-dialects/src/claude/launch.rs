//! What to start: arguments from the settings, and the variables the child sees.
//!
//! The prompt is never an argument: it goes to stdin, where it has no limit and no `ps` shows it. System prompts, and JSON
//! in which an MCP server's key may stand, go through private files for the same reasons.

use std::collections::BTreeSet;

use ostler_core::dialect::{ARG_CAP, Arg, Launch};
use ostler_core::spec::{Settings, Spec, SpecError, keys};

use super::settings::{Pass, TABLE, is_json};
use super::{mcp, permissions, preset, tool_use};
use crate::extra::{self, Values};
use crate::{inherits, settings};

/// Always there. Without `--verbose` the program refuses stream-json.
const ALWAYS: [&str; 4] = [
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
];

/// Where Claude Code keeps sessions, settings and its login. A file of its settings that is not there yet is not made in a sandbox;
/// it works without.
const STATE: &[&str] = &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"];

/// Set unless the caller says otherwise: an agent that runs unattended has no use for update checks and surveys.
const QUIET: &str = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";

/// How long Claude Code waits for a tool of an MCP server, in milliseconds; the most that its timers can hold is 24 days.
/// How long a bound tool may take is for others to say.
const TOOL_TIMEOUT: &str = "MCP_TOOL_TIMEOUT";

/// The variable behind `--bare`. It is emptied where a policy depends on hooks, whatever the caller's environment says.
const SIMPLE: &str = "CLAUDE_CODE_SIMPLE";

/// The setting that turns hooks off, among other things.
const BARE: &str = "bare";

/// The setting that says who answers questions.
const PROMPTS: &str = "permission_prompt";

/// The longest name of a tool that the model's service takes, with Claude Code's decoration.
const NAME_CAP: usize = 128;

/// Checks the spec and says what to start.
pub(super) fn launch(spec: &Spec) -> Result<Launch, SpecError> {
    settings::check(TABLE, &spec.settings)?;
    check_together(&spec.settings)?;
    extra::check(&spec.extra_args, RESERVED, Values::Many)?;
    let preset = preset::apply(spec)?;
    let chosen = preset.as_ref().unwrap_or(&spec.settings);
    let mut args: Vec<Arg> = ALWAYS
        .iter()
        .map(|arg| Arg::Plain((*arg).to_owned()))
        .collect();
    for row in TABLE {
        let values = chosen.get(row.key).unwrap_or_default();
        pass(&row.pass, row.key, values, &mut args)?;
    }
    args.extend(host(spec)?.into_iter().map(Arg::Plain));
    args.extend(spec.extra_args.iter().cloned().map(Arg::Plain));
    let needs: &[&str] = if preset.is_some() {
        &[preset::PROGRAM]
    } else {
        &[]
    };
    Ok(Launch {
        program: "claude",
        natives: &[],
        args,
        env: variables(spec),
        inherits: inherits::CLAUDE,
        needs,
        state: STATE,
    })
}

/// Whether a flag is among the extra arguments.
fn has_flag(spec: &Spec, flags: &[&str]) -> bool {
    spec.extra_args
        .iter()
        .any(|arg| flags.contains(&arg.split('=').next().unwrap_or_default()))
}

/// What makes Ostler the one who is asked, and the one whose tools are there. The caller's own settings stay as they are.
fn host(spec: &Spec) -> Result<Vec<String>, SpecError> {
    let bare = spec.settings.is_on(BARE) || has_flag(spec, &["--bare"]);
    if spec.policy.is_some()
        && (bare || spec.env.get(SIMPLE).is_some_and(|value| !value.is_empty()))
    {
        let why = "Claude Code calls no hooks in this mode, so that it would not ask the policy; leave out one of the two";
        return Err(SpecError::new(BARE, "true", why));
    }
    let mut args = Vec::new();
    let prompts = spec.settings.get(PROMPTS).is_some()
        || has_flag(spec, &["--permission-prompt-tool", "--permission-prompts"]);
    if permissions::attended(spec) && !prompts {
        args.push("--permission-prompt-tool=stdio".to_owned());
    }
    if !spec.tools.is_empty() {
        args.push(format!("--allowed-tools={}*", mcp::PREFIX));
    }
    check_tools(spec)?;
    Ok(args)
}

/// Claude Code leaves out tools whose names it does not like, or cannot tell apart, and says nothing.
fn check_tools(spec: &Spec) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for tool in &spec.tools {
        let native = mcp::native(&tool.name);
        let fault = |why: &str| Err(SpecError::new("bound tools", &tool.name, why));
        if tool.name.is_empty() || native.len() > NAME_CAP {
            return fault("expected a name of 1 to 115 characters");
        }
        if tool_use::is_taken(&tool.name) {
            return fault(
                "Claude Code has a tool of this name, or an MCP server could: choose another",
            );
        }
        if !names.insert(native) {
            return fault(
                "another tool has this name, or one that Claude Code cannot tell from it",
            );
        }
    }
    Ok(())
}

/// Variables that are set, unless the caller sets them.
fn variables(spec: &Spec) -> Vec<(&'static str, String)> {
    let mut all = vec![(QUIET, "1")];
    if !spec.tools.is_empty() {
        all.push((TOOL_TIMEOUT, "2147483647"));
    }
    if spec.policy.is_some() {
        all.push((SIMPLE, ""));
    }
    all.retain(|(name, _)| !spec.env.contains_key(*name));
    all.into_iter()
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}

const TOO_LONG: &str = "longer than the 100 KiB that fit on a command line";

fn pass(pass: &Pass, key: &str, values: &[String], args: &mut Vec<Arg>) -> Result<(), SpecError> {
    let on = values.last().map(|value| value == "true");
    match *pass {
        Pass::Value(flag) | Pass::Each(flag) => {
            for value in values {
                if value.len() > ARG_CAP {
                    return Err(SpecError::new(key, value, TOO_LONG));
                }
                args.push(Arg::Plain(format!("{flag}={value}")));
            }
        }
        Pass::Switch(flag) if on == Some(true) => args.push(Arg::Plain(flag.to_owned())),
        Pass::SwitchOff(flag) if on != Some(false) => args.push(Arg::Plain(flag.to_owned())),
        Pass::Switch(_) | Pass::SwitchOff(_) | Pass::Preset => {}
        Pass::File(prefix) => args.extend(values.iter().map(|value| Arg::InFile {
            prefix,
            text: value.clone(),
        })),
        Pass::Json(prefix) => {
            for value in values {
                args.push(match is_json(value) {
                    true => Arg::InFile {
                        prefix,
                        text: value.clone(),
                    },
                    false if value.len() > ARG_CAP => return Err(SpecError::secret(key, TOO_LONG)),
                    false => Arg::Plain(format!("{prefix}{value}")),
                });
            }
        }
        Pass::Prompts => args.extend(values.iter().map(|value| {
            Arg::Plain(match value.as_str() {
                "stdio" => "--permission-prompt-tool=stdio".to_owned(),
                who => format!("--permission-prompts={who}"),
            })
        })),
    }
    Ok(())
}

/// What only holds between settings.
fn check_together(settings: &Settings) -> Result<(), SpecError> {
    let (resume, fork) = (settings.last(keys::RESUME), settings.is_on(keys::FORK));
    if fork && resume.is_none() {
        return Err(SpecError::new(
            keys::FORK,
            "true",
            "needs resume: a copy of which session?",
        ));
    }
    if let (Some(id), Some(_), false) = (settings.last(keys::SESSION_ID), resume, fork) {
        return Err(SpecError::new(
            keys::SESSION_ID,
            id,
            "a resumed session keeps its id; use fork to give a copy another one",
        ));
    }
    Ok(())
}

/// Arguments that would take the ground from under the conversation: other formats, other modes, other subcommands.
const RESERVED: &[&str] = &[
    "-p",
    "--print",
    "--output-format",
    "--input-format",
    "--verbose",
    "-v",
    "--version",
    "-h",
    "--help",
    "--bg",
    "--background",
    "--cloud",
    "--desktop",
    "--tmux",
    "--teleport",
    "--remote-control",
    "--",
];
