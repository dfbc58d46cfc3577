//! Launch: arguments from the settings, and environment variables of the child.
//!
//! The prompt is never an argument. Without `-p` the program reads it from stdin, where it has no
//! length limit and does not show up in `ps`.

use ostler_core::dialect::{ARG_CAP, Arg, Inherits, Launch};
use ostler_core::spec::{Settings, Spec, SpecError, keys};

use super::settings::{MODES, Pass, TABLE};
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
    settings::check(TABLE, &spec.settings)?;
    check_together(&spec.settings)?;
    extra::check(&spec.extra_args, RESERVED, Values::Many)?;
    let mut args: Vec<Arg> = ALWAYS
        .iter()
        .map(|arg| Arg::Plain((*arg).to_owned()))
        .collect();
    for row in TABLE {
        push_args(
            &row.pass,
            row.key,
            spec.settings.get(row.key).unwrap_or_default(),
            &mut args,
        )?;
    }
    args.extend(spec.extra_args.iter().cloned().map(Arg::Plain));
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
        needs: &[],
        state: STATE,
    })
}

const TOO_LONG: &str = "exceeds the command-line limit of 100 KiB";

fn push_args(
    pass: &Pass,
    key: &str,
    values: &[String],
    args: &mut Vec<Arg>,
) -> Result<(), SpecError> {
    if let Some(long) = values
        .iter()
        .find(|value| value.len() > ARG_CAP && !matches!(pass, Pass::Json(_)))
    {
        return Err(SpecError::new(key, long, TOO_LONG));
    }
    for value in values {
        match *pass {
            Pass::Value(flag) | Pass::Each(flag) => {
                args.push(Arg::Plain(format!("{flag}={value}")));
            }
            Pass::Switch(flag) if value == "true" => args.push(Arg::Plain(flag.to_owned())),
            Pass::Switch(_) | Pass::Ours => {}
            Pass::Json(_) if value.trim_start().starts_with('{') => {
                args.push(Arg::InFile {
                    prefix: "--additional-mcp-config=@",
                    text: value.clone(),
                });
            }
            Pass::Json(flag) => args.push(Arg::Plain(format!("{flag}@{value}"))),
            Pass::Mode => {
                let flag = MODES
                    .iter()
                    .find(|(mode, _)| mode == value)
                    .and_then(|(_, flag)| *flag);
                args.extend(flag.map(|flag| Arg::Plain(flag.to_owned())));
            }
            Pass::Deny => {
                // Rules match kinds of tools (shell), not tools (bash): denying bash denies
                // nothing. A name that can be either is passed as both.
                args.push(Arg::Plain(format!("--deny-tool={value}")));
                if !value.contains('(') {
                    args.push(Arg::Plain(format!("--excluded-tools={value}")));
                }
            }
        }
    }
    Ok(())
}

/// Checks constraints between settings.
fn check_together(settings: &Settings) -> Result<(), SpecError> {
    match (settings.last(keys::SESSION_ID), settings.last(keys::RESUME)) {
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
        settings
            .iter()
            .for_each(|(key, value)| spec.settings.push(key, *value));
        let launch = launch(&spec).map_err(|error| error.to_string())?;
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
    fn wrong_values_start_nothing() {
        let id = "4f4c56cd-7646-45bd-a1d5-b29f6dc87635";
        assert!(
            args(&[("session_id", id), ("resume", "x")])
                .unwrap_err()
                .contains("keeps its id")
        );
        assert!(args(&[("permission_mode", "yolo")]).is_err());
        assert!(args(&[("tools", "a,b")]).is_err());
        for extra in ["-p", "--acp", "login", "--output-format=text", "--"] {
            let spec = Spec {
                extra_args: vec![extra.to_owned()],
                ..Spec::default()
            };
            assert!(launch(&spec).is_err(), "{extra}");
        }
        let fine = Spec {
            extra_args: ["--log-dir", "/x", "--mode=plan"]
                .map(str::to_owned)
                .to_vec(),
            ..Spec::default()
        };
        assert!(launch(&fine).is_ok());
    }
}
