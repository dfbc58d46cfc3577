//! Launch commands and probe: arguments from the settings, and the child's environment.
//!
//! The app-server gets its settings over stdin, `codex exec` in its arguments. Neither gets a
//! prompt in its arguments.

use std::collections::BTreeSet;

use ostler_core::dialect::{Arg, Launch, Login, LoginFile, LoginQuery, Probe, Version};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Spec, SpecError, keys};

use super::plan;
use super::settings::{APPROVAL, EFFORT, EPHEMERAL, TABLE, check};
use super::tool_use;
use crate::extra::{self, Values};
use crate::{inherits, settings, tools};

/// Paths of Codex's sessions, settings and login.
pub(crate) const STATE: &[&str] = &["$CODEX_HOME/", "~/.codex/"];

/// Paths of the native executable, relative to the script `bin/codex.js` that npm puts on PATH.
const NATIVES: &[&str] = &[
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
    check(&spec.to_settings())?;
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    check_tools(spec)?;
    if let (true, Some(approval)) = (spec.policy.is_some(), spec.value(APPROVAL))
        && matches!(&*approval, "on-request" | "never")
    {
        let why = "conflicts with the policy, which needs Codex to ask before every command; \
            remove one of the two";
        return Err(SpecError::new(APPROVAL, &approval, why));
    }
    let mut args = vec!["app-server".into()];
    args.extend(settings::arguments(TABLE, &spec.to_settings())?);
    args.extend(spec.extra_args.iter().map(Arg::from));
    Ok(launch(args))
}

/// Checks the spec and returns the command that runs `codex exec` for one message.
pub(super) fn exec(spec: &Spec) -> Result<Launch, SpecError> {
    check(&spec.to_settings())?;
    extra::check(&spec.extra_args, RESERVED, Values::One)?;
    check_exec(spec)?;
    let mut args = Vec::from(["exec", "--json", "--skip-git-repo-check"].map(Arg::from));
    let model = spec.model.as_ref();
    args.extend(model.map(|model| format!("--model={model}").into()));
    args.extend(
        spec.value(EFFORT)
            .map(|effort| config_override("model_reasoning_effort", &effort)),
    );
    args.extend(
        spec.permission_mode
            .iter()
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
    if let Some(prompt) = &spec.system_prompt {
        args.push(Arg::InFile {
            prefix: "--config=model_instructions_file=",
            text: prompt.clone(),
        });
    }
    if let Some(schema) = &spec.json_schema {
        args.push(Arg::InFile {
            prefix: "--output-schema=",
            text: schema.clone(),
        });
    }
    if spec.is_on(EPHEMERAL) {
        args.push("--ephemeral".into());
    }
    args.extend(settings::arguments(TABLE, &spec.to_settings())?);
    args.extend(spec.extra_args.iter().map(Arg::from));
    if let Some(id) = &spec.resume {
        let verb = if spec.fork { "fork" } else { "resume" };
        args.extend([verb.into(), id.into()]);
    }
    args.push("-".into());
    Ok(launch(args))
}

fn launch(args: Vec<Arg>) -> Launch {
    Launch {
        program: "codex",
        natives: NATIVES,
        args,
        inherits: inherits::CODEX,
        state: STATE,
        ..Launch::default()
    }
}

fn config_override(key: &str, value: &str) -> Arg {
    format!("--config={key}={value}").into()
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
    if !spec.bound_tools.is_empty() {
        return error("bound tools", "codex exec does not support them");
    }
    if spec.append_system_prompt.is_some() {
        return error(
            keys::APPEND_SYSTEM_PROMPT,
            "codex exec accepts it only as an argument, which other users can read",
        );
    }
    if spec.values(keys::MCP_CONFIG).is_some() {
        return error(
            keys::MCP_CONFIG,
            "codex exec accepts it only as an argument, which other users can read",
        );
    }
    match spec.value(APPROVAL).as_deref() {
        None | Some("never") => Ok(()),
        Some(_) => error(APPROVAL, "codex exec never asks"),
    }
}

/// Rejects tool names that Codex would refuse a thread for.
fn check_tools(spec: &Spec) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for tool in &spec.bound_tools {
        let error = |why: &str| Err(SpecError::new("bound tools", &tool.name, why));
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.is_empty() || tool.name.len() > NAME_CAP || !tool.name.chars().all(allowed) {
            return error("expected a name of 1 to 64 letters, digits, dashes and underscores");
        }
        if tools::is_taken(tool_use::TOOLS, &tool.name) {
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

/// The probe.
pub(super) const PROBE: Probe = Probe {
    program: "codex",
    natives: NATIVES,
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LoginQuery {
        args: &["login", "status"],
        env: &[],
        input: "",
        read: read_login,
    }),
    // A cautious minimum, not a measured one: only 0.166.0 was run. Threads and turns of the
    // app-server are younger than the program; versions without them are driven by `codex exec`.
    minimum: Version(0, 100, 0),
    tested: Some(Version(0, 166, 0)),
    install_hint: "codex not found in PATH. Install it with `npm install -g @openai/codex`, \
                   then run `codex login`.",
    login_hint: "codex is not logged in. Run `codex login`, or `codex login --with-api-key` with \
        an API key on stdin. For your own provider in config.toml, set the variable that its \
        env_key names.",
    login_files: &[LoginFile {
        variable: Some("CODEX_HOME"),
        below_home: ".codex",
        name: "auth.json",
    }],
    inherits: inherits::CODEX,
};

/// Reads the result of `codex login status`: exit code 0 with the method on stdout or stderr, or
/// exit code 1. A missing login is not an error, because the user's own providers need none.
fn read_login(code: Option<i32>, stdout: &str) -> Login {
    match code {
        Some(0) => Login::LoggedIn(
            stdout
                .lines()
                .next()
                .map(|line| line.trim().to_owned())
                .filter(|line| !line.is_empty()),
        ),
        Some(1) => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-1, S4-3
    #[test]
    fn the_login_is_read_from_the_exit_code() {
        assert_eq!(read_login(Some(1), ""), Login::LoggedOut);
        assert_eq!(
            read_login(Some(0), "Logged in using ChatGPT\n"),
            Login::LoggedIn(Some("Logged in using ChatGPT".into()))
        );
        assert_eq!(read_login(Some(0), ""), Login::LoggedIn(None));
        assert_eq!(
            read_login(Some(2), "error: unrecognized subcommand 'status'"),
            Login::Unknown
        );
        assert_eq!(
            (PROBE.read_version)("codex-cli 0.166.0\n"),
            Some(Version(0, 166, 0))
        );
    }
}
