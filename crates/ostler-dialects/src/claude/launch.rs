//! Launch and probe: arguments from the settings, and environment variables of the child.
//!
//! The prompt is never an argument: on stdin it has no length limit and does not show up in `ps`.
//! System prompts, and JSON that may contain the keys of MCP servers, go through private files for
//! the same reasons.

use std::collections::BTreeSet;

use ostler_core::dialect::{Arg, Launch, Login, LoginFile, LoginQuery, Probe, Version};
use ostler_core::spec::{Spec, SpecError, keys};
use serde::Deserialize;

use super::settings::TABLE;
use super::{mcp, preset, tool_use};
use crate::extra::{self, Values};
use crate::lenient::Scalar;
use crate::{inherits, settings, tools};

/// Arguments that are always passed. Without `--verbose` the program refuses stream-json.
const ALWAYS: [&str; 4] = [
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
];

/// Where Claude Code stores sessions, settings and its login. Missing settings files are not
/// created in a sandbox; it works without them.
pub(crate) const STATE: &[&str] = &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"];

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

/// The setting that selects the settings files to load.
pub(super) const SOURCES: &str = "setting_sources";

/// Maximum length of a tool name in the model API, including Claude Code's prefix.
const NAME_CAP: usize = 128;

/// Checks the spec and returns what to start.
pub(super) fn launch(spec: &Spec) -> Result<Launch, SpecError> {
    let given = spec.to_settings();
    settings::check(TABLE, &given)?;
    check_together(spec)?;
    extra::check(&spec.extra_args, RESERVED, Values::Many)?;
    let preset = preset::apply(spec)?;
    let chosen = preset.as_ref().unwrap_or(&given);
    let mut args = Vec::from(ALWAYS.map(Arg::from));
    args.extend(settings::arguments(TABLE, chosen)?);
    args.extend(host_args(spec)?.into_iter().map(Arg::from));
    args.extend(spec.extra_args.iter().map(Arg::from));
    let needs: &[&str] = if preset.is_some() {
        &[preset::PROGRAM]
    } else {
        &[]
    };
    Ok(Launch {
        program: "claude",
        args,
        env: variables(spec),
        inherits: inherits::CLAUDE,
        needs,
        state: STATE,
        ..Launch::default()
    })
}

/// Returns true if one of the flags is among the extra arguments.
fn has_flag(spec: &Spec, flags: &[&str]) -> bool {
    spec.extra_args
        .iter()
        .any(|arg| flags.contains(&arg.split('=').next().unwrap_or_default()))
}

/// Returns the arguments that make Ostler the host: the handler of permission prompts, the server
/// of the caller's tools, and no hooks or servers of the project beside a policy. The caller's own
/// settings take precedence.
fn host_args(spec: &Spec) -> Result<Vec<String>, SpecError> {
    let bare = spec.is_on(BARE) || has_flag(spec, &["--bare"]);
    if spec.policy.is_some()
        && (bare || spec.env.get(SIMPLE).is_some_and(|value| !value.is_empty()))
    {
        let why = "Claude Code calls no hooks in this mode and would bypass the policy; remove \
            one of the two";
        return Err(SpecError::new(BARE, "true", why));
    }
    let mut args = Vec::new();
    let has_handler = spec.values(PROMPTS).is_some()
        || has_flag(spec, &["--permission-prompt-tool", "--permission-prompts"]);
    if spec.is_supervised() && !has_handler {
        args.push("--permission-prompt-tool=stdio".to_owned());
    }
    let has_sources = spec.values(SOURCES).is_some() || has_flag(spec, &["--setting-sources"]);
    if spec.ignores_project_settings() && !has_sources {
        args.push("--setting-sources=user".to_owned());
    }
    if !spec.bound_tools.is_empty() {
        args.push(format!("--allowed-tools={}*", mcp::PREFIX));
    }
    check_tools(spec)?;
    Ok(args)
}

/// Checks the names of bound tools. Claude Code silently drops tools whose names are invalid or
/// ambiguous.
fn check_tools(spec: &Spec) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for tool in &spec.bound_tools {
        let native = mcp::native(&tool.name);
        let error = |why: &str| Err(SpecError::new("bound tools", &tool.name, why));
        if tool.name.is_empty() || native.len() > NAME_CAP {
            return error("expected a name of 1 to 115 characters");
        }
        if tools::is_taken(tool_use::TOOLS, &tool.name) {
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
    if !spec.bound_tools.is_empty() {
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

/// Checks constraints between settings.
fn check_together(spec: &Spec) -> Result<(), SpecError> {
    if let (Some(id), Some(_), false) = (&spec.session_id, &spec.resume, spec.fork) {
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

pub(super) const PROBE: Probe = Probe {
    program: "claude",
    natives: &[],
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LoginQuery {
        args: &["auth", "status"],
        env: &[],
        input: "",
        read: read_login,
    }),
    // A conservative minimum, not a measured one: only 2.1.325 was tested. An older release that
    // lacks a flag reports it on stderr, and `blame.rs` turns that into a hint to update.
    minimum: Version(2, 1, 0),
    tested: Some(Version(2, 1, 325)),
    install_hint: "claude CLI not found in PATH. Install from https://claude.ai/code \
                   (npm install -g @anthropic-ai/claude-code), then run `claude auth login`.",
    login_hint: "claude has no valid authentication. Run `claude auth login`, or set \
        ANTHROPIC_API_KEY to an API key.",
    login_files: &[LoginFile {
        variable: Some("CLAUDE_CONFIG_DIR"),
        below_home: ".claude",
        name: ".credentials.json",
    }],
    inherits: inherits::CLAUDE,
};

/// Parses the output of `claude auth status`: a JSON object on stdout, with exit code 1 if not
/// logged in. The output of a version without that command proves nothing.
fn read_login(_: Option<i32>, stdout: &str) -> Login {
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Status<'a> {
        logged_in: Scalar<'a>,
        auth_method: Scalar<'a>,
    }
    match serde_json::from_str::<Status<'_>>(stdout) {
        Ok(status) if status.logged_in.is_true() => Login::LoggedIn(status.auth_method.owned()),
        Ok(status) if status.logged_in.is_false() => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-1, S4-3, S1-3
    #[test]
    fn login_is_parsed_from_auth_status() {
        let read = |stdout| read_login(Some(1), stdout);
        assert_eq!(
            read(
                "{\n  \"loggedIn\": true,\n  \"authMethod\": \"api_key\",\n  \"apiProvider\": \
                 \"firstParty\"\n}\n"
            ),
            Login::LoggedIn(Some("api_key".into()))
        );
        assert_eq!(
            read("{\"loggedIn\": false, \"authMethod\": \"none\"}"),
            Login::LoggedOut
        );
        assert_eq!(read("error: unknown command 'auth'"), Login::Unknown);
        assert_eq!(read(""), Login::Unknown);
        assert!(
            PROBE.login_hint.contains("authentication") && PROBE.login_hint.contains("API key")
        );
        assert!(
            PROBE
                .install_hint
                .starts_with("claude CLI not found in PATH. Install from https://claude.ai/code")
        );
        assert_eq!(
            (PROBE.read_version)("2.1.325 (Claude Code)\n"),
            Some(Version(2, 1, 325))
        );
    }
}
