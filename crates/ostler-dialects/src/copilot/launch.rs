//! Launch: arguments from the settings, and environment variables of the child.
//!
//! The prompt is never an argument. Without `-p` the program reads it from stdin, where it has no
//! length limit and does not show up in `ps`.

use ostler_core::dialect::{Arg, Inherits, Launch};
use ostler_core::spec::{Spec, SpecError, keys};

use super::settings::TABLE;
use crate::extra::{self, Values};
use crate::settings;

/// Arguments that are always passed.
const ALWAYS: [&str; 5] = [
    "--output-format=json",
    "--stream=on",
    "--no-auto-update",
    "--no-ask-user",
    "--no-color",
];

/// Makes the program write telemetry to its own stdout and nowhere else. Nothing else reports the
/// tokens of each call: `--usage-output-file` contains those of the whole session, including
/// earlier turns.
const TELEMETRY: [(&str, &str); 2] = [
    ("COPILOT_OTEL_FILE_EXPORTER_PATH", "/dev/fd/1"),
    ("COPILOT_OTEL_EXPORTER_TYPE", "file"),
];

/// Environment variables passed from the caller to the child. Ostler sets the telemetry destination
/// itself.
pub(super) const INHERITS: Inherits = Inherits {
    always: &[
        "COPILOT_*",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_HOST",
        "USE_BUILTIN_RIPGREP",
        "USE_TGREP",
    ],
    when: &[("COPILOT_PROVIDER_TYPE", &["AZURE_*"])],
    never: &[
        "COPILOT_OTEL_*",
        "COPILOT_ALLOW_ALL",
        "COPILOT_AGENT_SESSION_ID",
        "COPILOT_CLI",
    ],
};

/// Where Copilot stores sessions, settings, its login and the package that it unpacks.
const STATE: &[&str] = &["~/.copilot", "~/.cache/copilot", "$COPILOT_HOME"];

/// Locations of the native program, the same for every transport.
pub(super) const NATIVES: &[&str] = crate::natives::COPILOT;

/// Checks the spec and returns what to start.
pub(super) fn launch(spec: &Spec) -> Result<Launch, SpecError> {
    let given = spec.to_settings();
    settings::check(TABLE, &given)?;
    check_together(spec)?;
    extra::check(&spec.extra_args, RESERVED, Values::Many)?;
    let mut args = Vec::from(ALWAYS.map(Arg::from));
    args.extend(settings::arguments(TABLE, &given)?);
    args.extend(spec.extra_args.iter().map(Arg::from));
    let mut env: Vec<(&'static str, String)> = TELEMETRY
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec();
    env.retain(|(name, _)| !spec.env.contains_key(*name));
    Ok(Launch {
        program: "copilot",
        natives: NATIVES,
        args,
        env,
        inherits: INHERITS,
        state: STATE,
        ..Launch::default()
    })
}

/// Checks constraints between settings.
fn check_together(spec: &Spec) -> Result<(), SpecError> {
    match (&spec.session_id, &spec.resume) {
        (Some(id), Some(_)) => Err(SpecError::new(
            keys::SESSION_ID,
            id,
            "a resumed session keeps its id",
        )),
        _ => Ok(()),
    }
}

/// Arguments that would break the conversation.
const RESERVED: &[&str] = &[
    "-p",
    "--prompt",
    "-i",
    "--interactive",
    "-s",
    "--silent",
    "--output-format",
    "--stream",
    "--acp",
    "-v",
    "--version",
    "-h",
    "--help",
    "--connect",
    "--environment-host",
    "--",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn args(settings: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut spec = Spec::default();
        let settings = settings.iter().copied().collect();
        let launch = spec.apply(&settings).and_then(|()| launch(&spec));
        let launch = launch.map_err(|error| error.to_string())?;
        let shown = launch
            .args
            .into_iter()
            .skip(ALWAYS.len())
            .map(|arg| match arg {
                Arg::Plain(arg) => arg,
                Arg::InFile { prefix, text } => format!("{prefix}<{text}>"),
            });
        Ok(shown.collect())
    }

    #[test]
    fn every_key_becomes_its_argument() {
        let id = "4f4c56cd-7646-45bd-a1d5-b29f6dc87635";
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let table: &[Row<'_>] = &[
            (
                &[("model", "gpt-5"), ("effort", "low")],
                &["--model=gpt-5", "--reasoning-effort=low"],
            ),
            (
                &[("tools", "view"), ("tools", "bash")],
                &["--available-tools=view", "--available-tools=bash"],
            ),
            (
                &[("allowed_tools", "shell(git:*)")],
                &["--allow-tool=shell(git:*)"],
            ),
            (
                &[("disallowed_tools", "bash")],
                &["--deny-tool=bash", "--excluded-tools=bash"],
            ),
            (
                &[("disallowed_tools", "shell(git push)")],
                &["--deny-tool=shell(git push)"],
            ),
            (&[("permission_mode", "default")], &[]),
            (
                &[("permission_mode", "allow-tools")],
                &["--allow-all-tools"],
            ),
            (&[("permission_mode", "allow-all")], &["--allow-all"]),
            (&[("mcp_config", "{}")], &["--additional-mcp-config=@<{}>"]),
            (
                &[("mcp_config", "a.json")],
                &["--additional-mcp-config=@a.json"],
            ),
            (
                &[("session_id", id)],
                &["--session-id=4f4c56cd-7646-45bd-a1d5-b29f6dc87635"],
            ),
            (
                &[("resume", "my feature"), ("transport", "jsonl")],
                &["--resume=my feature"],
            ),
            (
                &[
                    ("no_custom_instructions", "true"),
                    ("no_builtin_mcps", "false"),
                ],
                &["--no-custom-instructions"],
            ),
        ];
        for (settings, wanted) in table {
            assert_eq!(
                args(settings).as_deref(),
                Ok(&wanted.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    #[test]
    fn invalid_values_are_rejected_before_the_start() {
        let id = "4f4c56cd-7646-45bd-a1d5-b29f6dc87635";
        assert!(
            args(&[("session_id", id), ("resume", "x")])
                .unwrap_err()
                .contains("keeps its id")
        );
        assert!(args(&[("permission_mode", "yolo")]).is_err());
        assert!(args(&[("tools", "a,b")]).is_err());
        for extra in ["-p", "--acp", "login", "--output-format=text", "--"] {
            let spec = Spec::default().extra_args(vec![extra.to_owned()]);
            assert!(launch(&spec).is_err(), "{extra}");
        }
        let fine = Spec::default().extra_args(
            ["--log-dir", "/x", "--mode=plan"]
                .map(str::to_owned)
                .to_vec(),
        );
        assert!(launch(&fine).is_ok());
    }
}
