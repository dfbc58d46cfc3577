//! Launch: arguments from the settings, and environment variables of the child.
//!
//! The prompt is never an argument: on stdin it has no length limit and does not show up in `ps`.
//! System prompts, and JSON that may contain the keys of MCP servers, go through private files for
//! the same reasons.

use std::collections::BTreeSet;

use ostler_core::dialect::{ARG_CAP, Arg, Launch};
use ostler_core::spec::{Settings, Spec, SpecError, keys};

use super::settings::{Pass, TABLE, is_json};
use super::{mcp, permissions, preset, tool_use};
use crate::extra::{self, Values};
use crate::{inherits, settings};

/// Arguments that are always passed. Without `--verbose` the program refuses stream-json.
const ALWAYS: [&str; 4] = [
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
];

/// Where Claude Code stores sessions, settings and its login. Missing settings files are not
/// created in a sandbox; it works without them.
const STATE: &[&str] = &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"];

/// Set unless the caller overrides it: an unattended agent has no use for update checks and
/// surveys.
const QUIET: &str = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";

/// Timeout for MCP tool calls, in milliseconds. The maximum of Claude Code's timers is 24 days.
/// Ostler applies its own tool timeouts.
const TOOL_TIMEOUT: &str = "MCP_TOOL_TIMEOUT";

/// The variable behind `--bare`. It is set to empty if a policy depends on hooks, whatever the
/// caller's environment contains.
const SIMPLE: &str = "CLAUDE_CODE_SIMPLE";

/// The setting that disables hooks, among other things.
const BARE: &str = "bare";

/// The setting that selects the handler of permission prompts.
const PROMPTS: &str = "permission_prompt";

/// Maximum length of a tool name in the model API, including Claude Code's prefix.
const NAME_CAP: usize = 128;

/// Checks the spec and returns what to start.
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
        push_args(&row.pass, row.key, values, &mut args)?;
    }
    args.extend(host_args(spec)?.into_iter().map(Arg::Plain));
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

/// Returns true if one of the flags is among the extra arguments.
fn has_flag(spec: &Spec, flags: &[&str]) -> bool {
    spec.extra_args
        .iter()
        .any(|arg| flags.contains(&arg.split('=').next().unwrap_or_default()))
}

/// Returns the arguments that make Ostler the host: the handler of permission prompts and the
/// server of the caller's tools. The caller's own settings take precedence.
fn host_args(spec: &Spec) -> Result<Vec<String>, SpecError> {
    let bare = spec.settings.is_on(BARE) || has_flag(spec, &["--bare"]);
    if spec.policy.is_some()
        && (bare || spec.env.get(SIMPLE).is_some_and(|value| !value.is_empty()))
    {
        let why = "Claude Code calls no hooks in this mode and would bypass the policy; remove \
            one of the two";
        return Err(SpecError::new(BARE, "true", why));
    }
    let mut args = Vec::new();
    let has_handler = spec.settings.get(PROMPTS).is_some()
        || has_flag(spec, &["--permission-prompt-tool", "--permission-prompts"]);
    if permissions::attended(spec) && !has_handler {
        args.push("--permission-prompt-tool=stdio".to_owned());
    }
    if !spec.tools.is_empty() {
        args.push(format!("--allowed-tools={}*", mcp::PREFIX));
    }
    check_tools(spec)?;
    Ok(args)
}

/// Checks the names of bound tools. Claude Code silently drops tools whose names are invalid or
/// ambiguous.
fn check_tools(spec: &Spec) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for tool in &spec.tools {
        let native = mcp::native(&tool.name);
        let error = |why: &str| Err(SpecError::new("bound tools", &tool.name, why));
        if tool.name.is_empty() || native.len() > NAME_CAP {
            return error("expected a name of 1 to 115 characters");
        }
        if tool_use::is_taken(&tool.name) {
            return error(
                "the name belongs to a built-in or MCP tool of Claude Code; choose another",
            );
        }
        if !names.insert(native) {
            return error("another tool has this name, or one that is the same to Claude Code");
        }
    }
    Ok(())
}

/// Returns the variables to set, except those the caller sets.
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

const TOO_LONG: &str = "exceeds the command-line limit of 100 KiB";

fn push_args(
    pass: &Pass,
    key: &str,
    values: &[String],
    args: &mut Vec<Arg>,
) -> Result<(), SpecError> {
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

/// Checks constraints between settings.
fn check_together(settings: &Settings) -> Result<(), SpecError> {
    let (resume, fork) = (settings.last(keys::RESUME), settings.is_on(keys::FORK));
    if fork && resume.is_none() {
        return Err(SpecError::new(keys::FORK, "true", "needs resume"));
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

/// Arguments that would break the conversation: other formats, modes and subcommands.
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
