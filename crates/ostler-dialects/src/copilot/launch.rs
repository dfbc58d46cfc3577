//! Launch and probe: arguments from the settings, and environment variables of the child.
//!
//! The prompt is never an argument. Without `-p` the program reads it from stdin, where it has no
//! length limit and does not show up in `ps`.

use ostler_core::dialect::{Arg, Inherits, Launch, Login, LoginQuery, Probe, Version};
use ostler_core::spec::{Spec, SpecError, keys};
use serde::Deserialize;

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
const INHERITS: Inherits = Inherits {
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
pub(crate) const STATE: &[&str] = &["~/.copilot", "~/.cache/copilot", "$COPILOT_HOME"];

/// Locations of the native program, the same for every transport.
const NATIVES: &[&str] = crate::natives::COPILOT;

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

pub(super) const PROBE: Probe = Probe {
    program: "copilot",
    natives: NATIVES,
    runtime: None,
    version_args: &["--version"],
    read_version: Version::find,
    login: Some(LOGIN),
    // A conservative minimum, not a measured one: only 1.0.102 was tested.
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot CLI not found in PATH. Install it (npm install -g @github/copilot), \
        then run `copilot login`.",
    login_hint: "Run `copilot login`, set COPILOT_GITHUB_TOKEN, or set COPILOT_PROVIDER_BASE_URL \
        to use a custom provider.",
    login_files: &[],
    inherits: INHERITS,
};

/// Copilot has no command for its login state, but its ACP server does: `authenticate` succeeds
/// only with a login or a custom provider. It creates no session and calls no model.
const LOGIN: LoginQuery = LoginQuery {
    args: &["--acp"],
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    input: concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"copilot-login"}}"#,
        "\n",
    ),
    read: read_login,
};

/// ACP error code for a missing login.
const AUTH_REQUIRED: i64 = -32000;

/// Parses the response to `authenticate`. Any other output, or none, proves nothing.
fn read_login(_: Option<i32>, stdout: &str) -> Login {
    #[derive(Deserialize)]
    struct Response<'a> {
        id: i64,
        #[serde(borrow)]
        result: Option<&'a serde_json::value::RawValue>,
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
    }
    let responses = stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Response<'_>>(line).ok());
    match responses.into_iter().find(|response| response.id == 1) {
        Some(Response {
            result: Some(_),
            error: None,
            ..
        }) => Login::LoggedIn(None),
        Some(Response {
            error: Some(Failure {
                code: AUTH_REQUIRED,
            }),
            ..
        }) => Login::LoggedOut,
        _ => Login::Unknown,
    }
}

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

    /// The first line that Copilot 1.0.102 prints, shortened.
    const INITIALIZED: &str =
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"Copilot"}}}"#;

    // S4-3
    #[test]
    fn login_is_parsed_from_the_authenticate_response() {
        let read = |line: &str| read_login(Some(0), &format!("{INITIALIZED}\n{line}\n"));
        let required = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}"#;
        assert_eq!(read(required), Login::LoggedOut);
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Login::LoggedIn(None)
        );
        let unknown =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;
        for line in [unknown, "", "BYOK providers require an explicit model."] {
            assert_eq!(read(line), Login::Unknown, "{line}");
        }
        assert_eq!(read_login(None, ""), Login::Unknown);
    }

    #[test]
    fn login_query_is_two_json_lines() {
        let lines: Vec<serde_json::Value> = LOGIN
            .input
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            lines
                .iter()
                .map(|line| line["id"].as_i64().unwrap())
                .collect::<Vec<_>>(),
            [0, 1]
        );
    }
}
