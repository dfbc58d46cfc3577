//! Launch commands: arguments from the settings, and the child's environment.
//!
//! The app-server gets its settings over stdin, `codex exec` in its arguments. Neither gets a
//! prompt in its arguments.

use std::collections::BTreeSet;

use ostler_core::dialect::{ARG_CAP, Arg, Launch};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, keys};

use super::plan;
use super::settings::{APPROVAL, CONFIG, EFFORT, EPHEMERAL, check};
use super::tool_use;
use crate::extra::{self, Values};
use crate::inherits;

/// Paths of Codex's sessions, settings and login.
const STATE: &[&str] = &["$CODEX_HOME/", "~/.codex/"];

/// Paths of the native executable, relative to the script `bin/codex.js` that npm puts on PATH.
pub(super) const NATIVES: &[&str] = &[
    "../../codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    "../node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    "../../codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
    "../node_modules/@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
    "../../codex-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
    "../node_modules/@openai/codex-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
    "../../codex-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
    "../node_modules/@openai/codex-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
];

/// Maximum length of a tool name that the model API accepts.
const NAME_CAP: usize = 64;

/// Checks the spec and returns the command that launches the app-server.
pub(super) fn app_server(spec: &Spec) -> Result<Launch, SpecError> {
    check(&spec.settings)?;
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    check_tools(spec)?;
    if let (true, Some(approval @ ("on-request" | "never"))) =
        (spec.policy.is_some(), spec.settings.last(APPROVAL))
    {
        let why = "conflicts with the policy, which needs Codex to ask before every command; \
            remove one of the two";
        return Err(SpecError::new(APPROVAL, approval, why));
    }
    let mut args = vec![plain("app-server")];
    args.extend(overrides(spec)?);
    args.extend(spec.extra_args.iter().map(|arg| plain(arg)));
    Ok(launch(args))
}

/// Checks the spec and returns the command that runs `codex exec` for one message.
pub(super) fn exec(spec: &Spec) -> Result<Launch, SpecError> {
    check(&spec.settings)?;
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    check_exec(spec)?;
    let settings = &spec.settings;
    let mut args: Vec<Arg> = ["exec", "--json", "--skip-git-repo-check"]
        .iter()
        .map(|arg| plain(arg))
        .collect();
    args.extend(
        settings
            .last(keys::MODEL)
            .map(|model| plain(&format!("--model={model}"))),
    );
    args.extend(
        settings
            .last(EFFORT)
            .map(|effort| config_override("model_reasoning_effort", effort)),
    );
    args.extend(
        settings
            .last(keys::PERMISSION_MODE)
            .map(|mode| config_override("sandbox_mode", mode)),
    );
    let dir = spec.dir.as_ref().map(|dir| dir.display().to_string());
    let roots = plan::roots(spec, dir.as_deref());
    if !roots.is_empty() {
        // A JSON list of strings is also valid TOML.
        args.push(config_override(
            "sandbox_workspace_write.writable_roots",
            RawJson::of(&roots).get(),
        ));
    }
    if let Some(prompt) = settings.last(keys::SYSTEM_PROMPT) {
        args.push(Arg::InFile {
            prefix: "--config=model_instructions_file=",
            text: prompt.to_owned(),
        });
    }
    if let Some(schema) = settings.last(keys::JSON_SCHEMA) {
        args.push(Arg::InFile {
            prefix: "--output-schema=",
            text: schema.to_owned(),
        });
    }
    if settings.is_on(EPHEMERAL) {
        args.push(plain("--ephemeral"));
    }
    args.extend(overrides(spec)?);
    args.extend(spec.extra_args.iter().map(|arg| plain(arg)));
    if let Some(id) = settings.last(keys::RESUME) {
        args.extend([
            plain(if settings.is_on(keys::FORK) {
                "fork"
            } else {
                "resume"
            }),
            plain(id),
        ]);
    }
    args.push(plain("-"));
    Ok(launch(args))
}

fn launch(args: Vec<Arg>) -> Launch {
    Launch {
        program: "codex",
        natives: NATIVES,
        args,
        env: Vec::new(),
        inherits: inherits::CODEX,
        needs: &[],
        state: STATE,
    }
}

fn plain(arg: &str) -> Arg {
    Arg::Plain(arg.to_owned())
}

fn config_override(key: &str, value: &str) -> Arg {
    Arg::Plain(format!("--config={key}={value}"))
}

fn overrides(spec: &Spec) -> Result<Vec<Arg>, SpecError> {
    let values = spec.settings.get(CONFIG).unwrap_or_default();
    let arg = |value: &String| match value.len() > ARG_CAP {
        true => Err(SpecError::new(
            CONFIG,
            value,
            "exceeds the command-line limit of 100 KiB",
        )),
        false => Ok(Arg::Plain(format!("--config={value}"))),
    };
    values.iter().map(arg).collect()
}

/// Rejects what `codex exec` does not support: it never asks, does not run the caller's tools, and
/// would expose its settings in its arguments.
fn check_exec(spec: &Spec) -> Result<(), SpecError> {
    let error = |key: &str, why: &str| {
        let why = format!("{why}; leave out transport=exec");
        Err(SpecError::secret(key, why))
    };
    if spec.policy.is_some() {
        return error(
            "policy",
            "codex exec runs commands without asking, so the policy cannot apply",
        );
    }
    if !spec.tools.is_empty() {
        return error("bound tools", "codex exec does not support them");
    }
    if spec.settings.get(keys::APPEND_SYSTEM_PROMPT).is_some() {
        return error(
            keys::APPEND_SYSTEM_PROMPT,
            "codex exec accepts it only as an argument, which other users can read",
        );
    }
    if spec.settings.get(keys::MCP_CONFIG).is_some() {
        return error(
            keys::MCP_CONFIG,
            "codex exec accepts it only as an argument, which other users can read",
        );
    }
    match spec.settings.last(APPROVAL) {
        None | Some("never") => Ok(()),
        Some(_) => error(APPROVAL, "codex exec never asks"),
    }
}

/// Rejects tool names that Codex would refuse a thread for.
fn check_tools(spec: &Spec) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for tool in &spec.tools {
        let error = |why: &str| Err(SpecError::new("bound tools", &tool.name, why));
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.is_empty() || tool.name.len() > NAME_CAP || !tool.name.chars().all(allowed) {
            return error("expected a name of 1 to 64 letters, digits, dashes and underscores");
        }
        if tool_use::is_taken(&tool.name) {
            return error("reserved for Codex's own and MCP tools; choose another name");
        }
        if !names.insert(&tool.name) {
            return error("duplicate tool name");
        }
    }
    Ok(())
}

/// Arguments that would break the conversation.
const RESERVED: &[&str] = &[
    "--json",
    "--listen",
    "--stdio",
    "--print-startup-config",
    "--startup-sign-out",
    "-o",
    "--output-last-message",
    "-C",
    "--cd",
    "--worktree",
    "--color",
    "-h",
    "--help",
    "-V",
    "--version",
    "--",
    "-",
];
